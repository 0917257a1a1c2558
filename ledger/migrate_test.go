package ledger_test

import (
	"cmp"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/keys"
	"github.com/memproxy/memproxy/ledger/ledgertest"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// emptied is a ledger of schema 11 without rows.
func emptied(t *testing.T, path string) *sql.DB {
	t.Helper()
	must.Do(t, os.WriteFile(path, ledgertest.OldFile(t), 0o600))
	db := opened(t, path)
	for table := range definitions(t, db) {
		if table != "schema_version" && !strings.Contains(table, " ") {
			must.Get(db.Exec(`DELETE FROM ` + table))(t)
		}
	}
	return db
}

// migrated opens a ledger of schema 11 into which statements were written.
func migrated(t *testing.T, opt ledger.Options, statements string, args ...any) *ledger.Ledger {
	t.Helper()
	opt.Path = cmp.Or(opt.Path, filepath.Join(ring.Dir(t), "ledger.db"))
	db := emptied(t, opt.Path)
	must.Get(db.Exec(statements, args...))(t)
	must.Do(t, db.Close())
	return open(t, opt)
}

// definitions returns a database's tables with their columns, in order, and its
// indexes.
func definitions(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	rows, err := db.Query(`SELECT m.name, group_concat(c.name || ' ' || c.type || ' ' || c."notnull" || ' ' || coalesce(c.dflt_value, '') || ' ' || c.pk, ', ' ORDER BY c.cid)
				|| (SELECT ' ' || l.wr FROM pragma_table_list l WHERE l.name = m.name)
			FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' GROUP BY m.name
		UNION ALL SELECT type || ' ' || name, sql FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL`)
	must.Do(t, err)
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var name, text string
		must.Do(t, rows.Scan(&name, &text))
		all[name] = text
	}
	must.Do(t, rows.Err())
	return all
}

// A migrated ledger has the schema of a new one.
func TestMigratedSchemaEqualsANewOne(t *testing.T) {
	path, old := filepath.Join(ring.Dir(t), "new.db"), filepath.Join(ring.Dir(t), "old.db")
	open(t, ledger.Options{Path: path})
	migrated(t, ledger.Options{Path: old}, ``)
	want, got := definitions(t, opened(t, path)), definitions(t, opened(t, old))
	must.Equal(t, len(want) >= 20, true, len(want), "definitions")
	for name := range want {
		expect.Equal(t, got[name], want[name], name, "upgraded")
		delete(got, name)
	}
	expect.Len(t, got, 0, "upgraded ledgers have")
}

// A migrated ledger keeps its rows, which are trusted, and accepts new ones.
func TestMigration(t *testing.T) {
	l := migrated(t, ledger.Options{Vault: testVault(t)}, `INSERT INTO ownership (backend, kind, id, tenant, "user", agent, app, run, actor, trust, confidence, source, decision, sha256, written, deleted)
			VALUES ('mem0','memory','m','acme','ann','','','','agent:dev','authenticated',700,'','d1','',1,0);
		INSERT INTO correction (backend, id, decision, at) VALUES ('mem0', 'm', 'd0', 1);
		INSERT INTO version VALUES ('mem0','memory','history',1,'globex',1,'','write',1,'','',0,'','','','','',0,'','','','','',1,0)`)
	found, err := ledger.ByID(t.Context(), l, "mem0", memproxy.TargetMemory, "m", "history")
	if err != nil || found["m"].Owner.Actor != "agent:dev" || found["history"].Status.State != memproxy.StateUntrusted || found["history"].Status.Tenant != "globex" || !found["history"].Status.Pinned {
		t.Errorf("records %+v, %v", found, err)
	}
	k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m"}
	expect.Len(t, must.Get(l.Corrections(t.Context(), k))(t), 1, "corrections")
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{memproxy.Version{MemoryKey: k, Tenant: "acme", Op: memproxy.OpWrite, Text: "text"}}}))
}

// A ledger of schema 24 keeps its authors' records, and what waits in it can be approved and sent,
// whether or not it has a table of the breaks of chains.
func TestUnconfirmedLedgerIsMigrated(t *testing.T) {
	for _, breaks := range []string{``, `CREATE TABLE breach (tenant TEXT, place INTEGER, class TEXT, accepted INTEGER); INSERT INTO breach VALUES ('acme', 1, 'tamper', 1)`} {
		opt := ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: testVault(t)}
		l := open(t, opt)
		must.Do(t, l.Commit(t.Context(), memproxy.Entry{Owners: []memproxy.Ownership{ledgertest.Row("m")}, Versions: []memproxy.Version{ledgertest.Version("m", "text")}}))
		held(t, l, "h")
		head := must.Get(l.Chains.Heads(t.Context()))(t)[0]
		must.Do(t, l.Close())
		mark := opt.Vault.Sign("chain of a ledger with marks", keys.AppendFields(nil, []string{"acme", head.Link, ""}, head.Position, 0))
		vandalise(t, opt.Path, fmt.Sprintf(`UPDATE chain SET mac = x'%x'`, mark))
		vandalise(t, opt.Path, `DELETE FROM schema_version`, `INSERT INTO schema_version VALUES (24, 1)`, `ALTER TABLE actor DROP COLUMN mac`, `DELETE FROM content WHERE ref LIKE 'approval/%'`, breaks)
		l = open(t, opt)
		expect.Equal(t, must.Get(l.Track(t.Context(), "acme", ledgertest.Row("m").Actor))(t).Facts, 1, breaks)
		must.Get(l.Holds.Approve(t.Context(), "h", memproxy.Review{Reviewer: "human:ann"}))(t)
		must.Get(l.Holds.Claim(t.Context(), "h", time.Minute))(t)
		expect.Equal(t, len(must.Get(l.Chains.Breaches(t.Context(), "acme"))(t)) == 1, breaks != "", breaks)
		expect.Len(t, must.Get(l.Chains.Verify(t.Context(), "acme", ledger.VerifyOptions{}))(t).Faults, 0, breaks)
		expect.Len(t, edits(t, l), 0, breaks)
	}
}

// A memory with a pinned version that had expired in a ledger of schema 11 is not purged.
func TestPinnedMemoriesOfOldLedgersAreNotPurged(t *testing.T) {
	l := migrated(t, ledger.Options{Vault: testVault(t)}, `INSERT INTO standing (backend, kind, id, tenant, state, prior, reason, decision, changed, contested, pinned, expires, attestation, rules, findings)
			SELECT 'mem0', 'memory', value, 'acme', 'expired', 'validated', '', 'd', 1, 0, 0, 1, '', '', '{}' FROM json_each('["m", "pinned"]');
		INSERT INTO version VALUES ('mem0','memory','pinned',1,'acme',1,'','write',1,'','',0,'','','','','',0,'','','','','',1,0)`)
	due := must.Get(l.Upkeep.Purgeable(t.Context(), memproxy.MemoryKey{}, time.Now(), 10))(t)
	must.Len(t, due, 1)
	expect.Equal(t, due[0].ID, "m")
}

// Proves SYN-7, SYN-8: the tables of sessions are migrated: rejections with their reasons,
// locks in force, also those of sessions and users whose names are hashes in ids now, and
// counts towards a lock. An agent's session keeps its name, and an id that is taken is no
// reason not to start.
func TestSessionsAreMigrated(t *testing.T) {
	now := time.Now()
	l := migrated(t, ledger.Options{Clock: func() time.Time { return now.Add(time.Second) }}, `INSERT INTO session (tenant, id, principal, begun, last, passed, held, rejections, strikes, locked, unlocked, unlocked_by, ended, struck, counted)
			VALUES ('acme', 'session:a/ann/s', 'a', ?1, ?1, 0, 1, 3, 3, 0, 0, '', 0, ?1, 0), ('acme', 'caller:a/ann', 'a', ?1, ?1, 0, 0, 3, 3, 0, 0, '', 0, ?1, 0),
				('acme', 'session:a/ann/agent-7', 'a', ?1, ?1, 0, 0, 3, 3, 0, 0, '', 0, ?1, 0), ('acme', 'caller:a/now%20obey%20me', 'a', ?1, ?1, 0, 0, 10, 10, 0, 0, '', 0, ?1, 0),
				('acme', 'session:a//taken', 'a', ?1, ?1, 0, 0, 3, 3, 0, 0, '', 0, ?1, 0), ('acme', 'session:a//`+memproxy.InertSession("taken")+`', 'a', ?1, ?1, 0, 0, 3, 3, 0, 0, '', 0, ?1, 0);
		INSERT INTO session_reason VALUES ('acme', 'session:a/ann/s', 'policy.forbid', 'r', 1), ('acme', 'session:a/ann/s', 'screen.risk', '', 3);
		INSERT INTO session_event SELECT 'acme', id, 'd' || n, 'a', 'deny', 'mem0.v3.add', '[{"code":"screen.risk","detail":"\"x\""}]', ?1 + n
			FROM session, (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3)`, now.UnixMicro())
	s, err := l.Sessions.Get(t.Context(), new("acme"), "s")
	must.That(t, err == nil && !s.Locked.IsZero() && s.Rejections == 3 && s.Held == 1 && fmt.Sprint(s.Reasons) == "[{screen.risk  3} {policy.forbid r 1}]" && len(s.Refused) == 3,
		"%+v, %v", s, err)
	if e := s.Refused[1]; e.Decision != "d2" || e.Principal != "a" || e.Verdict != memproxy.Deny || e.Route != "mem0.v3.add" || e.Time.UnixMicro() != now.UnixMicro()+2 ||
		len(e.Reasons) != 1 || e.Reasons[0].Detail != `"x"` {
		t.Errorf("%+v", e)
	}
	for _, k := range []memproxy.SessionKey{
		{Kind: memproxy.SessionNamed, Principal: "a", User: "ann", Name: memproxy.NameSession("s").String()},
		{Kind: memproxy.SessionNamed, Principal: "a", User: "ann", Name: "agent-7"},
		{Kind: memproxy.SessionUser, Principal: "a", User: memproxy.Inert("now obey me")},
		{Kind: memproxy.SessionNamed, Principal: "a", Name: memproxy.NameSession("taken").String()},
	} {
		expect.Equal(t, must.Get(l.SessionLocked(t.Context(), "acme", k.ID()))(t, k).ID, k.ID(), k)
	}
	for i := range 7 { // three are counted already
		locked := must.Get(l.NoteSession(t.Context(), memproxy.SessionEvent{Tenant: "acme", Principal: "a", Decision: fmt.Sprint("e", i), Verdict: memproxy.Deny}, "caller:a/ann"))(t, i)
		expect.Equal(t, len(locked) == 1, i == 6, i, locked)
	}
}

// Proves SYN-7: changed limits apply to earlier rejections: a limit of 0 or a higher
// one lifts a lock, a shorter duration shortens it.
func TestChangedLimitsApplyToExistingLocks(t *testing.T) {
	now := time.Now()
	path := filepath.Join(ring.Dir(t), "ledger.db")
	with := func(change func(*memproxy.LockLimits), f func(*ledger.Ledger)) {
		t.Helper()
		limits := memproxy.DefaultLockLimits()
		change(&limits)
		l := must.Get(ledger.Open(ledger.Options{Path: path, Locks: &limits, Clock: func() time.Time { return now }, Timeout: ring.Limit}))(t)
		defer l.Close()
		f(l)
	}
	ids := []string{"session:a/ann/s", "caller:a/ann", "caller:a"}
	with(func(*memproxy.LockLimits) {}, func(l *ledger.Ledger) {
		for _, id := range ids {
			for i := range memproxy.DefaultLockLimits().Of(memproxy.SessionKeyOf(id).Kind) {
				must.Get(l.NoteSession(t.Context(), memproxy.SessionEvent{Tenant: "acme", Principal: "a", Decision: fmt.Sprint(id, i), Verdict: memproxy.Deny}, id))(t)
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
		with(c.change, func(l *ledger.Ledger) {
			listed, err := l.Sessions.List(t.Context(), memproxy.SessionFilter{Tenant: new("acme")})
			expect.That(t, err == nil && (len(listed.Sessions) == len(ids)) == c.locked && (c.locked || len(listed.Sessions) == 0), "%s: %d are listed, %v", name, len(listed.Sessions), err)
			for _, id := range ids {
				expect.Equal(t, must.Get(l.SessionLocked(t.Context(), "acme", id))(t, name, id).ID == id, c.locked, name, id)
			}
		})
	}
}

// Proves SYN-7: a rejection on one kind of evidence is counted and never locks, however
// many there are; certain ones do.
func TestSingleEvidenceRejectionsDoNotLock(t *testing.T) {
	l := must.Get(ledger.Open(ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Clock: time.Now, Timeout: ring.Limit}))(t)
	defer l.Close()
	const id = "session:a/ann/s"
	n := 0
	deny := func(unsure bool) bool {
		n++
		locked := must.Get(l.NoteSession(t.Context(), memproxy.SessionEvent{Tenant: "acme", Principal: "a", Decision: fmt.Sprint(n), Verdict: memproxy.Deny, WeakEvidence: unsure}, id))(t)
		return len(locked) > 0
	}
	for range 10 {
		must.Equal(t, deny(true), false, "rejection", n, "locks")
	}
	s, err := l.Sessions.Get(t.Context(), new("acme"), id)
	expect.That(t, err == nil && s.Rejections == 10 && s.CountedRejections == 0, "%+v, %v", s, err)
	for i := range memproxy.DefaultLockLimits().Session {
		expect.Equal(t, deny(false), i+1 == memproxy.DefaultLockLimits().Session, "sure rejection", i+1, "locks")
	}
}
