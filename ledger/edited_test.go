package ledger_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/ledgertest"
)

// edits drains the ids of rows that a ledger reported as edited.
func edits(t *testing.T, l *ledger.Ledger) (ids []string) {
	t.Helper()
	must.Do(t, l.Backends.ReportEdits(func(d memproxy.Discrepancy) error {
		expect.That(t, d.Code == memproxy.IntegrityLedger && d.Detail != "", "told of %+v", d)
		ids = append(ids, string(d.Kind)+" "+d.ID)
		return nil
	}))
	return ids
}

// If any column of a memory's record is edited, the memory has no owner and is
// quarantined, and the row is not overwritten until an administrator accepts it.
//
// Proves EDGE-4, DOL-1.
func TestEditedRecordsAreQuarantined(t *testing.T) {
	vault := ledgertest.Vault(t)
	for name, edit := range map[string]string{
		"the state":                `UPDATE record SET state = 'validated' WHERE id = 'm'`,
		"the owner":                `UPDATE record SET tenant = 'globex', status_tenant = 'globex' WHERE id = 'm'`,
		"the user":                 `UPDATE record SET "user" = 'eve' WHERE id = 'm'`,
		"the trust of its author":  `UPDATE record SET trust = 'human' WHERE id = 'm'`,
		"the time to live":         `UPDATE record SET expires = 0, prior = '' WHERE id = 'm'`,
		"no owner":                 `UPDATE record SET owned = 0 WHERE id = 'm'`,
		"no status":                `UPDATE record SET state = '' WHERE id = 'm'`,
		"the row of another":       `UPDATE record SET (state, status_decision, reason, findings, rules, mac) = (SELECT state, status_decision, reason, findings, rules, mac FROM record WHERE id = 'sound') WHERE id = 'm'`,
		"no mark":                  `UPDATE record SET mac = '' WHERE id = 'm'`,
		"a mark under another key": `UPDATE record SET mac = x'00000000' || substr(mac, 5) WHERE id = 'm'`,
	} {
		t.Run(name, func(t *testing.T) {
			path, told := filepath.Join(ring.Dir(t), "ledger.db"), false
			opt := ledger.Options{Path: path, Vault: vault, OnBroken: func() { told = true }}
			l := open(t, opt)
			written(t, l, "m", memproxy.StateQuarantined)
			written(t, l, "sound", memproxy.StateValidated)
			must.Do(t, l.Close())
			vandalise(t, path, edit)
			edited := values(t, path)
			l = open(t, opt)
			shown := func() memproxy.Record {
				t.Helper()
				found, err := l.Lookup(t.Context(), key("m"), key("sound"))
				rec := found.Of(key("sound"))
				expect.That(t, err == nil && rec.Status.State == memproxy.StateValidated && rec.Owner.Scope.Tenant == "acme", "the neighbour: %+v, %v", rec, err)
				return found.Of(key("m"))
			}
			for range 2 {
				rec := shown()
				expect.That(t, rec.Status.State == memproxy.StateQuarantined && rec.Status.Unverified == memproxy.IntegrityLedger && rec.Owner.Scope.Tenant == memproxy.TenantInaccessible,
					"%+v", rec)
			}
			got := edits(t, l)
			expect.That(t, told && slices.Equal(got, []string{"memory m"}) && len(edits(t, l)) == 0, "told %v of %v", told, got)
			// Rules, authors and reviewers do not overwrite it.
			if n, err := l.SetState(t.Context(), memproxy.StateChange{MemoryKey: key("m"), State: memproxy.StateValidated, Person: true}); n != 0 || err != nil {
				t.Errorf("%d states are changed, %v", n, err)
			}
			expect.Is(t, expect.Err(l.Promote(t.Context(), key("m"), memproxy.Review{Reviewer: "human:ann"})), ledger.ErrState, "promoted")
			expect.OK(t, l.Commit(t.Context(), memproxy.Entry{Owners: []memproxy.Ownership{ledgertest.Row("m")}}))
			expect.Equal(t, shown().Owner.Scope.Tenant, memproxy.TenantInaccessible)
			expect.Equal(t, values(t, path), edited, "written over")
			found, _, err := l.Backends.VerifyRecords(t.Context(), nil, nil)
			must.That(t, err == nil && len(found) == 1 && found[0].ID == "m", "found %v, %v", found, err)
			if _, n, err := l.Chains.Accept(t.Context(), found[0].Tenant, nil); err != nil || n != 1 {
				t.Errorf("accepted %d, %v", n, err)
			}
			if rec := shown(); rec.Status.Unverified != "" || rec.Owner.Scope.Tenant == memproxy.TenantInaccessible {
				t.Errorf("accepted: %+v", rec)
			}
		})
	}
}

// A row that cannot be read stays edited when its tenant's are accepted. The records that
// are read along with it can still be read, and a memory under its id still be written.
func TestUnreadableRowsAreNotAccepted(t *testing.T) {
	for name, edit := range map[string]string{
		"no findings": `UPDATE record SET findings = '' WHERE id = 'm'`,
		"cut off":     `UPDATE record SET findings = substr(findings, 1, 5) WHERE id = 'm'`,
	} {
		path := filepath.Join(ring.Dir(t), "ledger.db")
		opt := ledger.Options{Path: path, Vault: ledgertest.Vault(t), OnBroken: func() {}}
		l := open(t, opt)
		written(t, l, "m", memproxy.StateValidated)
		written(t, l, "sound", memproxy.StateValidated)
		must.Do(t, l.Close())
		vandalise(t, path, edit)
		l = open(t, opt)
		for range 2 {
			found, _, err := l.Backends.VerifyRecords(t.Context(), nil, nil)
			must.Do(t, err)
			must.Len(t, found, 1, name)
			expect.Text(t, found[0].Detail, name).Has("cannot be read")
			if _, n, err := l.Chains.Accept(t.Context(), "acme", nil); err != nil || n != 0 {
				t.Errorf("%s: accepted %d, %v", name, n, err)
			}
			recs, err := l.Lookup(t.Context(), key("m"), key("sound"))
			expect.That(t, err == nil && recs.Of(key("sound")).Owner.Scope.Tenant == "acme" && recs.Of(key("m")).Owner.Scope.Tenant == memproxy.TenantInaccessible,
				"%s: %+v, %v", name, recs, err)
			expect.OK(t, l.Commit(t.Context(), memproxy.Entry{Owners: []memproxy.Ownership{ledgertest.Row("m"), ledgertest.Row("new")}}), name)
		}
	}
}

// written commits a memory with a state.
func written(t *testing.T, l *ledger.Ledger, id string, state memproxy.MemoryState) {
	t.Helper()
	e := memproxy.Entry{
		Owners: []memproxy.Ownership{ledgertest.Row(id)}, Versions: []memproxy.Version{ledgertest.Version(id, "text of "+id)},
		States: []memproxy.StateChange{{MemoryKey: key(id), Tenant: "acme", State: state, Expires: time.Now().Add(time.Hour)}},
	}
	must.Do(t, l.Commit(t.Context(), e))
}

// values returns the columns of a memory's record.
func values(t *testing.T, path string) string {
	t.Helper()
	var all string
	db := opened(t, path)
	must.Do(t, db.QueryRow(`SELECT concat_ws('|', tenant, "user", actor, trust, decision, owned, state, status_tenant, prior, reason, expires, unverified, hex(mac)) FROM record WHERE id = 'm'`).Scan(&all))
	return all
}

// A memory with a history and without a record is quarantined until its author writes
// it again or a reviewer promotes it.
func TestRemovedRecordsAreQuarantined(t *testing.T) {
	for name, remove := range map[string]string{
		"removed": `DELETE FROM record WHERE id = 'm'`,
		"emptied": `UPDATE record SET owned = 0, state = '', listed = 0, mac = '' WHERE id = 'm'`,
	} {
		for how, mend := range map[string]func(*ledger.Ledger) error{
			"written": func(l *ledger.Ledger) error { written(t, l, "m", memproxy.StateValidated); return nil },
			"promoted": func(l *ledger.Ledger) error {
				_, err := l.Promote(t.Context(), key("m"), memproxy.Review{Reviewer: "human:ann"})
				return err
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				path := filepath.Join(ring.Dir(t), "ledger.db")
				opt := ledger.Options{Path: path, Vault: ledgertest.Vault(t)}
				l := open(t, opt)
				written(t, l, "m", memproxy.StateQuarantined)
				written(t, l, "gone", memproxy.StateValidated)
				v := ledgertest.Version("gone", "")
				v.Op = memproxy.OpDelete
				must.Do(t, l.Commit(t.Context(), memproxy.Entry{Versions: []memproxy.Version{v}}))
				must.Do(t, l.Close())
				vandalise(t, path, remove, `DELETE FROM record WHERE id = 'gone'`)
				l = open(t, opt)
				state := func(id string) memproxy.Record {
					t.Helper()
					found := must.Get(l.Lookup(t.Context(), key(id)))(t)
					return found.Of(key(id))
				}
				quarantined := func(rec memproxy.Record) bool {
					return rec.Status.State == memproxy.StateQuarantined && rec.Status.Unverified == memproxy.IntegrityLedger
				}
				if rec := state("m"); !quarantined(rec) || rec.HasOwner() {
					t.Errorf("%+v", rec)
				}
				if rec := state("gone"); rec.HasStatus() { // its tombstone was pruned
					t.Errorf("deleted: %+v", rec)
				}
				// A read that binds the memory to its author does not make it new.
				must.Do(t, l.Commit(t.Context(), memproxy.Entry{Owners: []memproxy.Ownership{ledgertest.Row("m")}}))
				if rec := state("m"); !quarantined(rec) || !rec.HasOwner() {
					t.Errorf("bound: %+v", rec)
				}
				expect.List(t, edits(t, l), []string{"memory m"}, "told of")
				must.Do(t, mend(l))
				expect.Equal(t, state("m").Status.State, memproxy.StateValidated, "mended")
			})
		}
	}
}

// An edited record of rejections counts as a lock, of the usual duration.
func TestEditedSessionsAreLocked(t *testing.T) {
	const id = "session:a/ann/s"
	for name, edit := range map[string]string{
		"no rejections":     `UPDATE session SET strikes = 0`,
		"long ago":          `UPDATE session SET struck = 1`,
		"counted from now":  `UPDATE session SET counted = struck + 1`,
		"another's":         `UPDATE session SET principal = 'human:ann'`,
		"nothing refused":   `UPDATE session SET refused = '[]'`,
		"the row of before": `UPDATE session SET (strikes, struck, counted, refused, mac) = (SELECT strikes, struck, counted, refused, mac FROM session WHERE id = 'session:b/ann/s') WHERE id = '` + id + `'`,
	} {
		t.Run(name, func(t *testing.T) {
			path, clock := filepath.Join(ring.Dir(t), "ledger.db"), ledgertest.NewClock()
			opt := ledger.Options{Path: path, Vault: ledgertest.Vault(t), Clock: clock.Now}
			l := open(t, opt)
			reject := func(id string, n int) {
				for i := range n {
					must.Get(l.NoteSession(t.Context(), memproxy.SessionEvent{Tenant: "acme", Principal: "a", Decision: fmt.Sprint(id, i), Verdict: memproxy.Deny}, id))(t)
				}
			}
			reject(id, memproxy.DefaultLockLimits().Session)
			reject("session:b/ann/s", 1)
			must.Do(t, l.Close())
			clock.Pass(time.Minute)
			vandalise(t, path, edit)
			l = open(t, opt)
			locked := func() bool {
				t.Helper()
				lock := must.Get(l.SessionLocked(t.Context(), "acme", id))(t)
				return lock.ID == id
			}
			first, again := locked(), locked()
			expect.That(t, first && again && slices.Contains(edits(t, l), "session "+memproxy.InertID(id)), "it is not locked, or nobody is told")
			page, err := l.Sessions.List(t.Context(), memproxy.SessionFilter{})
			expect.That(t, err == nil && len(page.Sessions) == 1 && page.Sessions[0].ID == id, "listed %+v, %v", page, err)
			clock.Pass(memproxy.DefaultLockLimits().For - time.Minute)
			expect.That(t, locked(), "the lock ended early")
			clock.Pass(time.Minute)
			expect.That(t, !locked(), "the lock does not end")
			reject("session:b/ann/s", 2)
			expect.That(t, !locked(), "locked again")
		})
	}
}

// Forged votes do not count, and forged notices are not delivered.
func TestEditedVotesAndNoticesDoNotCount(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	l := open(t, ledger.Options{Path: path, Vault: ledgertest.Vault(t), OnNotice: func() {}})
	held(t, l, "h1")
	held(t, l, "h2")
	vote := func(id, reviewer string) bool {
		t.Helper()
		tally := must.Get(l.Holds.Approve(t.Context(), id, memproxy.Review{Reviewer: reviewer, Need: 2}))(t)
		return tally.Settled
	}
	vote("h1", "human:ann")
	vandalise(t, path, `INSERT INTO vote (subject, reviewer, at, note) VALUES ('hold/2:h2/', 'human:bob', 1, '')`,
		`INSERT INTO vote SELECT 'hold/2:h2/', 'human:cy', at, note, mac FROM vote WHERE reviewer = 'human:ann'`,
		`UPDATE notice SET data = '{"id":"h9"}' WHERE subject = 'h1'`)
	expect.Len(t, must.Get(l.Holds.Get(t.Context(), "h2"))(t).Votes, 0, "shown")
	expect.Equal(t, vote("h2", "human:dee"), false, "votes that were inserted count")
	if !vote("h2", "human:bob") { // a genuine vote
		t.Error("a vote in the place of an inserted one does not count")
	}
	expect.Equal(t, vote("h1", "human:bob"), true, "the vote of before does not count")
	due, _, err := l.Notices.Due(t.Context(), 10, time.Minute)
	expect.That(t, err == nil && len(due) == 1 && due[0].Subject == "h2", "due: %+v, %v", due, err)
	got := edits(t, l)
	expect.That(t, slices.Contains(got, "notice h1") && slices.ContainsFunc(got, func(id string) bool { return id[:5] == "vote " }), "told of %v", got)
}

// An edit neither begins a rollback, nor changes one, nor repeats one that made its version.
//
// Proves EDGE-4.
func TestEditedRollbacksDoNotCount(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	clock := ledgertest.NewClock()
	l := open(t, ledger.Options{Path: path, Vault: ledgertest.Vault(t), Clock: clock.Now})
	for _, id := range []string{"m", "edited", "inserted", "ended"} {
		v := ledgertest.Append(t, l, ledgertest.Version(id, "text"))[0]
		must.Get(l.Rollbacks.Approve(t.Context(), v, memproxy.Review{Reviewer: "human:ann"}))(t)
		if id != "inserted" {
			must.Do(t, l.Rollbacks.Begin(t.Context(), memproxy.Rollback{MemoryKey: v.MemoryKey, Tenant: "acme", Decision: id, Reviewer: "human:ann", Number: 1}, time.Minute))
		}
	}
	vandalise(t, path, `CREATE TABLE rows AS SELECT * FROM rollback`, `CREATE TABLE contents AS SELECT * FROM content WHERE ref LIKE 'rollback/%'`)
	made := ledgertest.Version("ended", "before")
	made.Op, made.Decision = memproxy.OpRollback, "ended"
	must.Get(l.Rollbacks.End(t.Context(), "ended", &made))(t)
	vandalise(t, path, `UPDATE rollback SET reviewer = 'human:bob' WHERE id = 'edited'`,
		`INSERT INTO rollback SELECT 'inserted', backend, kind, 'inserted', tenant, number, reviewer, reason, preimage, begun, lease FROM rollback WHERE id = 'm'`,
		`INSERT OR IGNORE INTO rollback SELECT * FROM rows`, `INSERT OR IGNORE INTO content SELECT * FROM contents`)
	clock.Pass(time.Minute)
	left := must.Get(l.Rollbacks.Unfinished(t.Context(), time.Minute))(t)
	expect.That(t, len(left) == 1 && left[0].ID == "m", "unfinished: %+v", left)
	must.List(t, slices.Sorted(slices.Values(edits(t, l))), []string{"rollback edited", "rollback ended", "rollback inserted"})
	var refs string
	must.Do(t, opened(t, path).QueryRow(`SELECT group_concat(ref) FROM content WHERE ref LIKE 'rollback/%'`).Scan(&refs))
	expect.Equal(t, refs, "rollback/1:m/", "left of the others")
}

// A ledger whose rows another key signed is not opened, since all of it would be
// quarantined. One signed by a former key is.
//
// Proves EDGE-4.
func TestLedgersOfAnotherKeyAreRefused(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	first, second := ledgertest.Key(t), ledgertest.Key(t)
	l := open(t, ledger.Options{Path: path, Vault: ledgertest.Vault(t, first)})
	written(t, l, "m", memproxy.StateValidated)
	written(t, l, "o", memproxy.StateValidated)
	must.Do(t, l.Close())
	expect.Is(t, expect.Err(ledger.Open(ledger.Options{Path: path, Vault: ledgertest.Vault(t, second)})), ledger.ErrKey, "opened with another key")
	elsewhere := filepath.Join(ring.Dir(t), "ledger.db")
	expect.Is(t, ledger.Restore(t.Context(), ledger.Options{Path: elsewhere, Vault: ledgertest.Vault(t, second)}, path, true), ledger.ErrKey, "restored where another key is")
	expect.Is(t, expect.Err(os.Stat(elsewhere)), fs.ErrNotExist)
	expect.OK(t, ledger.Restore(t.Context(), ledger.Options{Path: elsewhere, Vault: ledgertest.Vault(t, second, first)}, path, true), "restored where it is a former key")
	l = open(t, ledger.Options{Path: path, Vault: ledgertest.Vault(t, second, first)})
	expect.Equal(t, must.Get(l.Lookup(t.Context(), key("m")))(t).Of(key("m")).Status.State, memproxy.StateValidated)
	written(t, l, "n", memproxy.StateValidated)
	must.Do(t, l.Close())
	expect.Is(t, expect.Err(ledger.Open(ledger.Options{Path: path, Vault: ledgertest.Vault(t, second)})), ledger.ErrKey, "opened with the newer key alone")
}

// A ledger edited to look like one from before rows were signed is not trusted anew.
func TestSignatureMarksCannotBeRemoved(t *testing.T) {
	marked, edited := oldLedger(t), oldLedger(t)
	must.Do(t, open(t, marked).Close())
	vandalise(t, edited.Path, `ATTACH '`+marked.Path+`' AS marked; DELETE FROM chain; INSERT INTO chain
		SELECT tenant, place, link, base, base_link, lower(hex(substr(mac, 1, 4))), substr(mac, 5) FROM marked.chain`)
	found, err := open(t, edited).Lookup(t.Context(), key("m1"))
	rec := found.Of(key("m1"))
	expect.That(t, err == nil && rec.Status.State == memproxy.StateQuarantined && rec.Status.Unverified == memproxy.IntegrityLedger, "%+v, %v", rec, err)
	// One edited to look like one from before authors' records and held writes were signed.
	edited = ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Vault: testVault(t)}
	l := open(t, edited)
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Owners: []memproxy.Ownership{ledgertest.Row("m")}, Versions: []memproxy.Version{ledgertest.Version("m", "text")}}))
	held(t, l, "h")
	must.Do(t, l.Close())
	vandalise(t, edited.Path, `UPDATE schema_version SET version = 24`, `ALTER TABLE actor DROP COLUMN mac`, `UPDATE actor SET facts = 1000`, `UPDATE hold SET score = 1`)
	l = open(t, edited)
	expect.Equal(t, must.Get(l.Track(t.Context(), "acme", ledgertest.Row("m").Actor))(t), memproxy.Track{}, "an author's record")
	_, _, err = l.Holds.Content(t.Context(), "h")
	expect.Is(t, err, memproxy.ErrForged, "a held write")
}

// An edited row is reported by one of several concurrent calls, and again after an
// error.
//
// Proves EDGE-4.
func TestEachEditIsReported(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	opt := ledger.Options{Path: path, Vault: ledgertest.Vault(t)}
	l := open(t, opt)
	for _, id := range []string{"a", "b", "c"} {
		written(t, l, id, memproxy.StateQuarantined)
	}
	must.Do(t, l.Close())
	vandalise(t, path, `UPDATE record SET state = 'validated' WHERE id IN ('a', 'b')`)
	l = open(t, opt)
	must.Get(l.Lookup(t.Context(), key("a"), key("b")))(t)
	var ids []string
	fails := errors.New("the log is full")
	expect.Is(t, l.Backends.ReportEdits(func(memproxy.Discrepancy) error { return fails }), fails)
	err := l.Backends.ReportEdits(func(d memproxy.Discrepancy) error {
		ids = append(ids, edits(t, l)...) // another call, while this one reports
		ids = append(ids, "memory "+d.ID)
		return nil
	})
	slices.Sort(ids)
	expect.That(t, err == nil && slices.Equal(ids, []string{"memory a", "memory b"}), "reported %v, %v", ids, err)
}
