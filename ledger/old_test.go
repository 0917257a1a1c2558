package ledger_test

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// oldLedger returns the options of a copy of the file that a729c69 wrote.
func oldLedger(t *testing.T) ledger.Options {
	t.Helper()
	opt := ledgertest.OldOptions(t)
	opt.Path = filepath.Join(ring.Dir(t), "ledger.db")
	must.Do(t, os.WriteFile(opt.Path, ledgertest.OldFile(t), 0o600))
	return opt
}

// table is the definition and the rows of a table.
type table struct {
	rows int
	sum  [sha256.Size]byte
}

// tablesOf returns a file's tables; "" is the whole schema.
func tablesOf(t *testing.T, path string) map[string]table {
	t.Helper()
	db := opened(t, path)
	defer db.Close()
	var names []string
	query := func(text string) table {
		rows := must.Get(db.QueryContext(t.Context(), text))(t)
		defer rows.Close()
		columns := must.Get(rows.Columns())(t)
		values, to := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
		for i := range to {
			to[i] = &values[i]
		}
		var all []string
		for rows.Next() {
			must.Do(t, rows.Scan(to...))
			all = append(all, fmt.Sprintf("%q", values))
			if string(values[0]) == "table" {
				names = append(names, string(values[1]))
			}
		}
		must.Do(t, rows.Err())
		slices.Sort(all)
		return table{len(all), sha256.Sum256([]byte(strings.Join(all, "\n")))}
	}
	all := map[string]table{"": query(`SELECT type, name, sql FROM sqlite_schema ORDER BY name`)}
	for _, name := range names {
		all[name] = query(`SELECT * FROM ` + name)
	}
	return all
}

// Proves EDGE-3, SYN-5, TRL-7: a ledger with every kind of row of an earlier version is
// migrated completely or not at all, after a copy was made, which can be restored.
// Rehearse reports what a start would do, and changes nothing.
func TestOldLedgerIsMigrated(t *testing.T) {
	opt := oldLedger(t)
	was := tablesOf(t, opt.Path)
	must.Equal(t, was["schema_version"].rows, 11, "the fixture has schema")
	for name, table := range was {
		expect.Equal(t, table.rows != 0, true, "the fixture has no", name)
	}
	plan, err := ledger.Rehearse(t.Context(), opt)
	want := (ledger.Plan{From: 11, To: 25, Rows: plan.Rows, Copy: opt.Path + ".before-11"})
	expect.That(t, err == nil && plan == want && plan.Rows >= 20, "rehearsed: %+v, %v", plan, err)
	expect.List(t, namesOf(t, filepath.Dir(opt.Path)), []string{"ledger.db"}, "the rehearsal left")
	expect.Map(t, tablesOf(t, opt.Path), was, "the rehearsal left")

	vandalise(t, opt.Path, `CREATE TABLE sealing (a)`) // makes the migration fail
	expect.ErrorHas(t, expect.Err(ledger.Rehearse(t.Context(), opt)), "schema 22", "the rehearsal says")
	expect.ErrorHas(t, expect.Err(ledger.Open(opt)), "the migration failed, and the ledger is unchanged: migrate to schema 22", "opened")
	vandalise(t, opt.Path, `DROP TABLE sealing`)
	expect.Map(t, tablesOf(t, opt.Path), was, "a migration that failed changed the ledger")

	killed := filepath.Join(filepath.Dir(opt.Path), ".ledger.db.before-11-1") // killed while copying
	must.Do(t, os.WriteFile(killed, nil, 0o600))
	for range 2 { // migrate, restore, migrate
		var told []string
		opt.Progress = func(what string) { told = append(told, what) }
		l := open(t, opt)
		ledgertest.RunOld(t, l)
		must.Do(t, l.Close())
		expect.List(t, told, []string{"a copy is made: " + plan.Copy, "schema 22 of 25", "schema 23 of 25", "schema 24 of 25", "schema 25 of 25"}, "told")
		expect.Is(t, expect.Err(os.Stat(killed)), fs.ErrNotExist, "a copy that a killed start began is left")
		expect.Equal(t, must.Get(ledger.Rehearse(t.Context(), opt))(t), ledger.Plan{From: 25, To: 25}, "after it")
		expect.Map(t, tablesOf(t, plan.Copy), was, "the copy is not what was there")
		must.Do(t, ledger.Restore(t.Context(), opt, plan.Copy, true))
		back := tablesOf(t, opt.Path)
		for name, table := range was {
			if back[name] != table && (name != "hold" || back[name].rows != table.rows) { // what waits is marked
				t.Errorf("the way back does not lead to what was there: %s", name)
			}
		}
		was = back
		must.Do(t, os.Remove(opt.Path+ledger.ReplacedSuffix))
	}
}

// A ledger of schema 23 is migrated with all that it has. A row that was edited before counts as
// edited afterwards, because the rows of such a ledger are signed already.
//
// Proves EDGE-3, EDGE-4, SYN-5.
func TestSignedLedgerIsMigrated(t *testing.T) {
	opt := ledgertest.OldOptions(t)
	for _, edit := range []string{"", `UPDATE record SET state = 'validated' WHERE id = 'm7'`} {
		opt.Path = filepath.Join(ring.Dir(t), "ledger.db")
		must.Do(t, os.WriteFile(opt.Path, ledgertest.SignedFile(t), 0o600))
		vandalise(t, opt.Path, edit)
		l := open(t, opt)
		if edit == "" {
			ledgertest.RunOld(t, l)
			continue
		}
		found := must.Get(l.Lookup(t.Context(), key("m7")))(t)
		expect.Equal(t, found.Of(key("m7")).Status.Unverified, memproxy.IntegrityLedger)
	}
}

// Proves EDGE-3: without room for the copy nothing is migrated. A backup has the
// program's own schema.
func TestMigrationNeedsACopy(t *testing.T) {
	opt := oldLedger(t)
	was := tablesOf(t, opt.Path)
	must.Do(t, os.Mkdir(opt.Path+".before-11", 0o700))
	expect.ErrorHas(t, expect.Err(ledger.Open(opt)), "without a copy; make "+opt.Path+".before-11 writable", "opened")
	expect.ErrorHas(t, ledger.Backup(t.Context(), opt, filepath.Join(ring.Dir(t), "backup.db")), "schema 11", "backed up")
	expect.Map(t, tablesOf(t, opt.Path), was, "the ledger was changed")
}

// A ledger of another vault.key is not migrated, because its rows would be signed anew.
//
// Proves EDGE-4.
func TestMigrationNeedsTheKey(t *testing.T) {
	opt := oldLedger(t)
	was := tablesOf(t, opt.Path)
	opt.Vault = ledgertest.Vault(t, ledgertest.Key(t))
	expect.Is(t, expect.Err(ledger.Open(opt)), ledger.ErrKey, "opened")
	expect.Map(t, tablesOf(t, opt.Path), was, "the ledger was changed")
}

// Proves SYN-5: contents moved by a migration leave no remains in the file, so that a
// text shredded later is gone.
func TestMigrationLeavesNoContents(t *testing.T) {
	opt := oldLedger(t)
	must.Do(t, open(t, opt).Close())
	rows := must.Get(opened(t, opt.Path).QueryContext(t.Context(), `SELECT substr(envelope, 5, 60) FROM content WHERE length(envelope) > 0
		UNION ALL SELECT substr(envelope, 5, 60) FROM version WHERE length(envelope) > 0 UNION ALL SELECT substr(envelope, 5, 60) FROM dissent`))(t)
	var keys [][]byte
	for rows.Next() {
		var key []byte
		must.Do(t, rows.Scan(&key))
		keys = append(keys, key)
	}
	err := rows.Err()
	must.That(t, err == nil && len(keys) >= 10, "%v %v", len(keys), err)
	file := must.Get(os.ReadFile(opt.Path))(t)
	for _, key := range keys {
		expect.Equal(t, bytes.Count(file, key), 1, "a key is in the file")
	}
}

const migrateFile = "MEMPROXY_LEDGER_MIGRATE_FILE"

// TestMigrateChild is the process that TestMigrationIsKilled kills.
func TestMigrateChild(t *testing.T) {
	opt := ledgertest.OldOptions(t)
	if opt.Path = os.Getenv(migrateFile); opt.Path == "" {
		t.Skip("run by TestMigrationIsKilled")
	}
	opt.Progress = func(what string) { fmt.Println("progress:", what) }
	_, err := ledger.Open(opt)
	t.Fatal(err) // it is killed before
}

// Proves EDGE-3, TRL-7: if a migration of 100,000 memories is killed at any step, the
// next start completes it.
func TestMigrationIsKilled(t *testing.T) {
	ring.Slow(t, "kills processes over 100,000 memories")
	opt := oldLedger(t)
	const more = 100_000
	vandalise(t, opt.Path, fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i+1 < %d)
		INSERT INTO ownership (backend, kind, id, tenant, "user", agent, app, run, actor, trust, confidence, source, decision, sha256, written, deleted, seen)
		SELECT backend, kind, 'more' || i, tenant, 'user' || (i %% 9999), agent, app, run, actor, trust, confidence, source, 'more' || i, sha256, written + i, 0, seen
		FROM n, ownership WHERE kind = 'memory' AND id = 'm' || (i %% 5)`, more))
	vandalise(t, opt.Path, `INSERT INTO standing (backend, kind, id, tenant, state, prior, reason, decision, changed, contested, pinned, expires, attestation, rules, findings, unverified, reviewed, current)
		SELECT o.backend, o.kind, o.id, o.tenant, s.state, s.prior, s.reason, o.decision, s.changed, 0, 0, s.expires, s.attestation, s.rules, s.findings, s.unverified, s.reviewed, s.current
		FROM ownership o JOIN standing s ON s.id = 'm' || (substr(o.id, 5) % 4) WHERE o.id LIKE 'more%'`)
	was := tablesOf(t, opt.Path)
	began := time.Now()
	plan := must.Get(ledger.Rehearse(t.Context(), opt))(t)
	must.Equal(t, plan.Rows >= more/2, true, plan)
	t.Logf("rehearsed in %v: %+v", time.Since(began), plan)
	for _, kill := range []int{1, 2} {
		n := 0
		for lines, end := child(t, "TestMigrateChild", migrateFile+"="+opt.Path); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "progress:") {
				if n++; n == kill {
					end()
				}
			}
		}
		must.Equal(t, n >= kill, true, "it ended after", n, kill, "parts")
		must.Map(t, tablesOf(t, opt.Path), was, "killed in part", kill, "the ledger is another one")
	}
	began = time.Now()
	l := open(t, opt)
	t.Logf("opened in %v", time.Since(began))
	ledgertest.RunOld(t, l)
	var n int
	must.Do(t, opened(t, opt.Path).QueryRowContext(t.Context(), `SELECT count(*) FROM record WHERE state <> ''`).Scan(&n))
	expect.Equal(t, n, more+20)
	expect.Map(t, tablesOf(t, plan.Copy), was, "the copy is not what was there")
}
