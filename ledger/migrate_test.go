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
			rows, err := ByID(t.Context(), l, "mem0", memproxy.TargetMemory, "m")
			if err != nil || (rows["m"].Owner.Actor == "agent:dev") != (n > 0) {
				t.Errorf("owners %v, %v", rows, err)
			}
			// Schema 15 is the last that binds names.
			names, err := ByID(t.Context(), l, "mem0", memproxy.TargetEntity, "user:ann")
			if rec, bound := names["user:ann"]; err != nil || bound != (n > 0 && n < 15) || bound && rec.Owner.Scope.Tenant != "acme" {
				t.Errorf("the name of a memory's user is bound to %+v, %v", rec, err)
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

// Proves SYN-7: what an earlier version had locked stays so for as long as a
// lock lasts, for the principal whose session it was and for nobody else.
func TestLocksOfEarlierVersionsEnd(t *testing.T) {
	now := time.Now()
	path := filepath.Join(t.TempDir(), "ledger.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(fmt.Sprintf(`PRAGMA application_id = %d; CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied INTEGER NOT NULL)`, applicationID))
	for i := 0; i < 8 && err == nil; i++ {
		err = migrateOne(t.Context(), db, i+1, migrations()[i], now)
	}
	if err == nil {
		at := now.UnixMicro()
		_, err = db.Exec(`INSERT INTO session (tenant, id, principal, begun, last, passed, held, rejections, strikes, locked, unlocked, unlocked_by, ended)
			VALUES ('acme', 's1', 'agent:dev', ?1, ?1, 0, 0, 3, 3, ?1, 0, '', 0), ('acme', 'caller:agent:dev', 'agent:dev', ?1, ?1, 0, 0, 10, 10, ?1, 0, '', 0)`, at)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := Open(Options{Path: path, Clock: func() time.Time { return now }, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	locked := func(principal string, want bool) {
		t.Helper()
		ids := []string{
			memproxy.SessionKey{Kind: memproxy.SessionNamed, Principal: principal, User: "ann", Name: "s1"}.ID(),
			memproxy.SessionKey{Kind: memproxy.SessionPrincipal, Principal: principal}.ID(), // ten are not enough any more
		}
		if lock, err := l.SessionLocked(t.Context(), "acme", ids...); err != nil || (lock.ID == "s1") != want || !want && lock.ID != "" {
			t.Errorf("%s: %+v, %v; want locked %v", principal, lock, err, want)
		}
	}
	locked("agent:peer", false)
	locked("agent:dev", true)
	now = now.Add(time.Hour)
	locked("agent:dev", false)
}

// Proves SYN-7: other limits hold for what was counted before: a number of 0
// lifts a lock and so does a higher one, a shorter time shortens it.
func TestOtherLimitsHoldForExistingLocks(t *testing.T) {
	now := time.Now()
	path := filepath.Join(t.TempDir(), "ledger.db")
	with := func(change func(*memproxy.LockLimits), f func(*Ledger)) {
		t.Helper()
		limits := memproxy.DefaultLockLimits()
		change(&limits)
		l, err := Open(Options{Path: path, Locks: &limits, Clock: func() time.Time { return now }, Timeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		f(l)
	}
	ids := []string{"session:a/ann/s", "caller:a/ann", "caller:a"}
	with(func(*memproxy.LockLimits) {}, func(l *Ledger) {
		for _, id := range ids {
			for i := range memproxy.DefaultLockLimits().Of(memproxy.SessionKeyOf(id).Kind) {
				if _, _, err := l.NoteSession(t.Context(), memproxy.SessionEvent{Tenant: "acme", Session: id, Principal: "a", Decision: fmt.Sprint(id, i), Verdict: memproxy.Deny}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	now = now.Add(10 * time.Minute)
	for name, c := range map[string]struct {
		change func(*memproxy.LockLimits)
		locked bool
	}{
		"as before": {func(*memproxy.LockLimits) {}, true},
		"never":     {func(k *memproxy.LockLimits) { k.Session, k.User, k.Principal = 0, 0, 0 }, false},
		"higher":    {func(k *memproxy.LockLimits) { k.Session, k.User, k.Principal = 4, 11, 101 }, false},
		"lower":     {func(k *memproxy.LockLimits) { k.Session, k.User, k.Principal = 1, 1, 1 }, true},
		"shorter":   {func(k *memproxy.LockLimits) { k.For = 10 * time.Minute }, false},
		"longer":    {func(k *memproxy.LockLimits) { k.For = 24 * time.Hour }, true},
	} {
		with(c.change, func(l *Ledger) {
			listed, err := l.Sessions(t.Context(), memproxy.SessionFilter{Tenant: "acme"})
			if err != nil || (len(listed.Sessions) == len(ids)) != c.locked || !c.locked && len(listed.Sessions) > 0 {
				t.Errorf("%s: %d are listed, %v", name, len(listed.Sessions), err)
			}
			for _, id := range ids {
				if lock, err := l.SessionLocked(t.Context(), "acme", id); err != nil || (lock.ID == id) != c.locked {
					t.Errorf("%s: %s: %+v, %v", name, id, lock, err)
				}
			}
		})
	}
}

// Proves SYN-7: a rejection on one kind of evidence is kept and counted, and
// neither it nor a hundred of them lock; sure ones beside them do.
func TestUnsureRejectionsLockNothing(t *testing.T) {
	l, err := Open(Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Clock: time.Now, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const id = "session:a/ann/s"
	n := 0
	deny := func(unsure bool) (memproxy.Session, bool) {
		n++
		s, locked, err := l.NoteSession(t.Context(), memproxy.SessionEvent{
			Tenant: "acme", Session: id, Principal: "a", Decision: fmt.Sprint(n), Verdict: memproxy.Deny, Unsure: unsure,
		})
		if err != nil {
			t.Fatal(err)
		}
		return s, locked
	}
	for range 10 {
		if s, locked := deny(true); locked || s.Rejections != n || s.Strikes != 0 {
			t.Fatalf("after %d: %+v, locked %v", n, s, locked)
		}
	}
	for i := range memproxy.DefaultLockLimits().Session {
		if _, locked := deny(false); locked != (i+1 == memproxy.DefaultLockLimits().Session) {
			t.Errorf("sure rejection %d locks: %v", i+1, locked)
		}
	}
}
