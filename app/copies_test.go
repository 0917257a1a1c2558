package app_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// Proves EDGE-3: a ledger can be backed up while a process has it open, and is not
// restored until that process has ended.
func TestLedgerInUseIsBackedUpButNotReplaced(t *testing.T) {
	var log lockedBuffer
	cfg, err := config.Parse("memproxy.yaml", fmt.Appendf(nil, `profile: development
state: %s
backends:
  - {name: mem0, kind: mem0, listen: "127.0.0.1:0", upstream: "http://127.0.0.1:1"}
`, filepath.Join(ring.Dir(t), "state")), os.Getenv)
	must.Do(t, err)
	o := app.Options{Log: &log, Getenv: func(string) string { return "" }}
	must.Do(t, os.MkdirAll(filepath.Join(cfg.State, "keys"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(cfg.State, "ledger.db"), ledgertest.OldFile(t), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(cfg.State, "keys", "vault.key"), ledgertest.OldKey, 0o600))
	st := must.Get(app.New(t.Context(), cfg, o))(t)
	expect.Text(t, log.String(), "the log").Has("a copy is made", "schema 25 of 25")
	file := filepath.Join(t.TempDir(), "backup.db")
	must.Do(t, app.BackupLedger(t.Context(), cfg, file))
	expect.ErrorHas(t, app.RestoreLedger(t.Context(), cfg, o, file, "testing", true), "a sidecar is running with this state directory", "under a process")
	must.Do(t, st.Close(t.Context()))
	expect.OK(t, app.RestoreLedger(t.Context(), cfg, o, file, "testing", true))
}

// Proves TRL-7, CARD-7: while another process locks the ledger's file, requests that
// must look up or bind an owner are refused with 503, reads are served as far as
// possible, and readiness names the ledger. Afterwards the admitted writes are in the
// ledger, and everything is served again.
func TestLockedLedgerFile(t *testing.T) {
	ring.Slow(t, "SQLite waits for a lock in real time")
	r := startRig(&rig{t: t, hasty: true}, strings.Replace(plain, "users: [ann]", `users: "*"`, 1))
	id := r.written("Ann likes milk.", "")
	r.versioned(id)
	db := must.Get(sql.Open("sqlite", "file:"+filepath.Join(r.dir, "state", "ledger.db")+"?_pragma=busy_timeout(60000)"))(t) // the sidecar may be writing
	defer db.Close()
	db.SetMaxOpenConns(1)
	must.Get(db.Exec("BEGIN EXCLUSIVE"))(t)
	r.do("GET", "/memories/"+id, "").want(t, 200).has(t, "milk")
	before := r.back.count()
	r.do("POST", "/memories", strings.Replace(noted("Zoe likes tea."), "ann", "zoe", 1)).want(t, 503, "a write under a new name")
	expect.Equal(t, r.back.count(), before, "requests that arrived")
	r.get("/readyz").want(t, 503).has(t, `"ledger","ok":false`)
	update := r.do("PUT", "/memories/"+id, `{"text":"Ann likes beer."}`) // its owner is known
	must.Get(db.Exec("ROLLBACK"))(t)
	ring.Until(t, "the ledger", func() bool { return r.get("/readyz").status == 200 })
	r.do("POST", "/memories", strings.Replace(noted("Zoe likes tea."), "ann", "zoe", 1)).want(t, 200)
	want := map[bool]string{true: "beer", false: "milk"}[update.status == 200]
	r.do("GET", "/memories/"+id, "").want(t, 200, "after the answer", update.status).has(t, want).unverified(t, "")
	r.clean("afterwards")
}

// A restored ledger has writes that wait although they were sent since the backup. The
// backend is asked first, whether they were approved in the backup or are approved again:
// what it has is not sent a second time, and what it does not have is sent, and charged.
//
// Proves EDGE-11, TRL-6.
func TestRestoredHoldsAreNotSentTwice(t *testing.T) {
	t.Parallel()
	r := holding(t)
	held := func(text string) string {
		return heldID(t, r.do("POST", "/memories", fmt.Sprintf(`{"user_id":"bob","infer":false,"messages":[{"role":"user","content":%q}]}`, text)))
	}
	sent, waits := held("Bob sails."), held("Bob rows.")
	file, backup := filepath.Join(r.dir, "state", "ledger.db"), filepath.Join(t.TempDir(), "backup.db")
	r.stop() // a copy of its file is then a backup
	writeFile(t, backup, string(must.Get(os.ReadFile(file))(t)))
	r.run()
	done := func(id string) {
		t.Helper()
		r.review(id, true)
		ring.Until(t, "the end of the write", func() bool { return r.heldWrite(id).State == memproxy.HoldDone })
	}
	done(sent)
	r.stop()
	must.Do(t, ledger.Restore(context.Background(), ledger.Options{Path: file}, backup, true))
	r.run()
	done(sent)
	done(waits)
	expect.Text(t, r.do("GET", "/memories?user_id=bob", "").body, "written").Times(1, `"Bob sails."`).Times(1, `"Bob rows."`)
	expect.Equal(t, r.total("agent:dev"), 2, "the author is charged for")
}
