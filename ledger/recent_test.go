package ledger_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy/ledger"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves EDGE-3: the cache of records is correct after every kind of change, and
// answers once both parts of a record are cached.
func TestRecentCacheAgreesWithTheStore(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	l := open(t, ledger.Options{Path: path, CacheSize: 100})
	ctx, k := t.Context(), memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m"}
	row := memproxy.Ownership{Backend: k.Backend, Kind: k.Kind, ID: k.ID, Scope: memproxy.Scope{Tenant: "acme"}, Actor: "agent:dev"}
	put := func(row memproxy.Ownership) func() error {
		return func() error {
			if err := l.Commit(ctx, memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{row}}); err != nil {
				return err
			}
			return l.Sync(ctx)
		}
	}
	state := func(s memproxy.MemoryState) func() error {
		return func() error {
			_, err := l.SetState(ctx, memproxy.StateChange{MemoryKey: k, Tenant: "acme", State: s, Findings: []memproxy.Finding{{Rule: "r", End: 3}}})
			return err
		}
	}
	deleted := row
	deleted.Deleted = true
	for _, step := range []struct {
		name string
		do   func() error
		want memproxy.Record
	}{
		{"nothing is known", func() error { return nil }, memproxy.Record{}},
		{"it is listed", func() error {
			_, err := l.Backends.RecordFound(ctx, memproxy.SealProgress{Backend: "mem0"}, memproxy.Found{MemoryKey: k, SHA256: "ab"})
			return err
		}, memproxy.Record{Presence: memproxy.PresentAtSeal, FirstSeen: "ab"}},
		{"it has an owner", put(row), memproxy.Record{Owner: row}},
		{"it is flagged", state(memproxy.StateFlagged), memproxy.Record{Owner: row, Status: memproxy.Status{State: memproxy.StateFlagged}}},
		{"it is quarantined", state(memproxy.StateQuarantined), memproxy.Record{Owner: row, Status: memproxy.Status{State: memproxy.StateQuarantined}}},
		{"it is deleted", put(deleted), memproxy.Record{Owner: deleted, Status: memproxy.Status{State: memproxy.StateQuarantined}}},
	} {
		must.Do(t, step.do(), step.name)
		for _, from := range []string{"first", "from memory", "from the store"} {
			if from == "from the store" {
				must.Do(t, l.Backends.Seal(ctx, "another")) // drops what is cached
			}
			all, err := l.Lookup(ctx, k)
			rec := all.Of(k)
			if err != nil || rec.Owner != step.want.Owner || rec.Status.State != step.want.Status.State || rec.Presence != step.want.Presence || rec.FirstSeen != step.want.FirstSeen {
				t.Errorf("%s, %s: %+v, %v", step.name, from, rec, err)
			}
			expect.That(t, !rec.HasStatus() || len(rec.Status.Findings) == 1 && !rec.Status.Changed.IsZero() && rec.Status.MemoryKey == k, "%s, %s: %+v", step.name, from, rec.Status)
		}
	}
	other := k
	other.ID = "other"
	expect.Len(t, must.Get(l.Lookup(ctx, other))(t), 0, "nothing is known of it")
	must.Do(t, l.Backends.Seal(ctx, "mem0"))
	if all, err := l.Lookup(ctx, other, k); err != nil || all.Of(other).Presence != memproxy.AddedAfterSeal || all.Of(k).Presence != memproxy.NotSealed {
		t.Errorf("after the seal: %+v, %v", all, err)
	}
	row.ID, k.ID = "new", "new"
	must.Get(l.Lookup(ctx, k))(t)
	must.Do(t, put(row)())
	vandalise(t, path, `ALTER TABLE record RENAME TO away`)
	expect.Len(t, must.Get(l.Lookup(ctx, k))(t), 1, "a new object of which nothing was known is not asked about once more")
	vandalise(t, path, `ALTER TABLE away RENAME TO record`)
}

// What is kept of an object comes back whole, whichever parts it has.
func TestRecentKeepsAllParts(t *testing.T) {
	path := filepath.Join(ring.Dir(t), "ledger.db")
	l := open(t, ledger.Options{Path: path})
	key := func(id string) memproxy.MemoryKey {
		return memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
	}
	owner := func(id string) memproxy.Ownership {
		return memproxy.Ownership{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id, Actor: "ann", SHA256: "00", Deleted: true}
	}
	status := func(id string) memproxy.StateChange {
		return memproxy.StateChange{MemoryKey: key(id), State: memproxy.StateFlagged, Findings: []memproxy.Finding{{Rule: "r"}}}
	}
	must.Get(l.Backends.RecordFound(t.Context(), memproxy.SealProgress{Backend: "mem0"}, memproxy.Found{MemoryKey: key("listed"), SHA256: "00"}))(t)
	must.Do(t, l.Backends.Seal(t.Context(), "mem0"))
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{
		Owners: []memproxy.Ownership{owner("owner"), owner("both")}, States: []memproxy.StateChange{status("status"), status("both")},
	}))
	must.Do(t, l.Backends.Seal(t.Context(), "another")) // drops what is cached
	all := []memproxy.MemoryKey{key("nothing"), key("listed"), key("owner"), key("status"), key("both")}
	stored := must.Get(l.Lookup(t.Context(), all...))(t)
	for id, want := range map[string]memproxy.Record{
		"nothing": {Presence: memproxy.AddedAfterSeal}, "listed": {Presence: memproxy.PresentAtSeal, FirstSeen: "00"}, "owner": {Owner: owner("owner")},
		"status": {Presence: memproxy.AddedAfterSeal, Status: memproxy.Status{State: memproxy.StateFlagged}}, "both": {Owner: owner("both"), Status: memproxy.Status{State: memproxy.StateFlagged}},
	} {
		got := stored.Of(key(id))
		if got.Presence != want.Presence || got.FirstSeen != want.FirstSeen || got.Owner != want.Owner || got.Status.State != want.Status.State || len(got.Status.Findings) != len(want.Status.State)/len(memproxy.StateFlagged) {
			t.Errorf("%s is %+v", id, got)
		}
	}
	vandalise(t, path, `ALTER TABLE record RENAME TO away`)
	expect.Deep(t, must.Get(l.Lookup(t.Context(), all...))(t), stored, "from memory")
	vandalise(t, path, `ALTER TABLE away RENAME TO record`)
}

// A record that was found is shared with the cache: neither its memory's expiry nor a new
// owner that is queued changes it.
func TestFoundRecordsStayAsTheyWere(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := open(t, ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), Clock: func() time.Time { return now }})
	row := memproxy.Ownership{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m", Actor: "ann"}
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{
		Owners: []memproxy.Ownership{row}, States: []memproxy.StateChange{{MemoryKey: row.Key(), State: memproxy.StateValidated, Expires: now.Add(time.Minute)}},
	}))
	find := func() *memproxy.Record { return must.Get(l.Lookup(t.Context(), row.Key()))(t)[row.Key()] }
	first := find()
	now = now.Add(time.Hour)
	expect.Equal(t, find().Status.State, memproxy.StateExpired)
	row.Actor = "bob"
	must.Do(t, l.Commit(t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{row}}))
	expect.Equal(t, find().Owner.Actor, "bob")
	expect.Equal(t, first.Status.State, memproxy.StateValidated)
	expect.Equal(t, first.Owner.Actor, "ann")
}

// Proves EDGE-3: a concurrent reader finds a committed record from the moment Commit
// returns to the writer.
func TestRecentCacheIsNeverStale(t *testing.T) {
	l := open(t, ledger.Options{Path: filepath.Join(ring.Dir(t), "ledger.db"), CacheSize: 100})
	ctx, k := t.Context(), memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m"}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := l.Lookup(ctx, k); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer readers.Wait()
	defer close(stop)
	states := [...]memproxy.MemoryState{memproxy.StateFlagged, memproxy.StateValidated}
	for i := range 100 {
		want := states[i%len(states)]
		must.Get(l.SetState(ctx, memproxy.StateChange{MemoryKey: k, State: want}))(t)
		must.Equal(t, must.Get(l.Lookup(ctx, k))(t).Of(k).Status.State, want, i)
		if i%10 == 0 {
			must.Do(t, l.Backends.Seal(ctx, "another")) // drops what is cached, so that readers query the store
		}
	}
}
