package app

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves TRL-7, CARD-7: while another process locks the ledger's file, requests that
// must look up or bind an owner are refused with 503, reads are served as far as
// possible, and readiness names the ledger. Afterwards the admitted writes are in the
// ledger, and everything is served again.
func TestLockedLedgerFile(t *testing.T) {
	ring.Slow(t, "SQLite waits for a lock in real time")
	r := startRig(&rig{t: t, hasty: true}, strings.Replace(plain, "users: [ann]", `users: "*"`, 1))
	id := r.written("Ann likes milk.", "")
	r.versioned(id)
	db := must.Get(sql.Open("sqlite", filepath.Join(r.dir, "state", "ledger.db")))(t)
	defer db.Close()
	db.SetMaxOpenConns(1)
	lock := func(how string) {
		t.Helper()
		if _, err := db.Exec(how); err != nil {
			t.Fatal(err)
		}
	}
	lock("BEGIN EXCLUSIVE")
	r.do("GET", "/memories/"+id, "").want(t, 200).has(t, "milk")
	before := r.back.count()
	if a := r.do("POST", "/memories", strings.Replace(noted("Zoe likes tea."), "ann", "zoe", 1)); a.status != 503 || r.back.count() != before {
		t.Errorf("a write under a new name: %d %s, %d requests arrived", a.status, a.body, r.back.count()-before)
	}
	r.get("/readyz").want(t, 503).has(t, `"ledger","ok":false`)
	update := r.do("PUT", "/memories/"+id, `{"text":"Ann likes beer."}`) // its owner is known
	lock("ROLLBACK")
	ring.Until(t, "the ledger", func() bool { return r.get("/readyz").status == 200 })
	r.do("POST", "/memories", strings.Replace(noted("Zoe likes tea."), "ann", "zoe", 1)).want(t, 200)
	want := map[bool]string{true: "beer", false: "milk"}[update.status == 200]
	if a := r.do("GET", "/memories/"+id, ""); a.status != 200 || !strings.Contains(a.body, want) || a.header.Get("X-Memproxy-Unverified") != "" {
		t.Errorf("answered %d, and then shown: %d %v %s", update.status, a.status, a.header, a.body)
	}
	r.clean("afterwards")
}
