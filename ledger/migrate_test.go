package ledger

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
)

// A ledger of every earlier schema opens, keeps what it had and takes what is
// new.
func TestMigrations(t *testing.T) {
	for n := range migrations() {
		t.Run(fmt.Sprint("from schema ", n), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = db.Exec(fmt.Sprintf(`PRAGMA application_id = %d; CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied INTEGER NOT NULL)`, applicationID))
			for i := 0; i < n && err == nil; i++ {
				err = migrateOne(t.Context(), db, i+1, migrations()[i], time.Now())
			}
			if err == nil && n > 0 {
				_, err = db.Exec(`INSERT INTO ownership (backend, kind, id, tenant, "user", agent, app, run, actor, trust, confidence, source, decision, sha256, written, deleted) VALUES ('mem0','memory','m','acme','ann','','','','agent:dev','authenticated',700,'','d1','',1,0);
					INSERT INTO correction (backend, id, decision, at) VALUES ('mem0', 'm', 'd0', 1)`)
			}
			if err == nil && n > 2 && n < 8 { // as long as there is the table
				_, err = db.Exec(`INSERT INTO glimpse VALUES ('mem0', 'memory', 'm', 'd1', 'ab'), ('mem0', 'memory', 'gone', 'd1', 'ab')`)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			l, err := Open(Options{Path: path, Vault: testVault(t), Timeout: 20 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			rows, err := l.Owners(t.Context(), "mem0", memproxy.TargetMemory, []string{"m"})
			if err != nil || (rows["m"].Actor == "agent:dev") != (n > 0) {
				t.Errorf("owners %v, %v", rows, err)
			}
			if got := rows["m"].Seen; (got == "ab") != (n > 2 && n < 8) {
				t.Errorf("seen of its metadata: %q", got)
			}
			names, err := l.Owners(t.Context(), "mem0", memproxy.TargetEntity, []string{"user:ann"})
			if row, bound := names["user:ann"]; err != nil || bound != (n > 0 && n < 9) || bound && row.Scope.Tenant != "acme" {
				t.Errorf("the name of a memory's user is bound to %+v, %v", row, err)
			}
			k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m"}
			if cs, err := l.Corrections(t.Context(), k); err != nil || (len(cs) == 1) != (n > 0) {
				t.Errorf("corrections %v, %v", cs, err)
			}
			if _, err := l.Append(t.Context(), memproxy.Version{MemoryKey: k, Tenant: "acme", Op: memproxy.OpWrite, Text: "text"}); err != nil {
				t.Error(err)
			}
		})
	}
}
