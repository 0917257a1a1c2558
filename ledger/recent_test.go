package ledger

import (
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves EDGE-3: the cache of records is correct after every kind of change, and
// answers once both parts of a record are cached.
func TestRecentCacheAgreesWithTheStore(t *testing.T) {
	l := must.Get(Open(Options{Timeout: ring.Limit, Path: filepath.Join(ring.Dir(t), "ledger.db"), CacheSize: 100}))(t)
	t.Cleanup(func() { _ = l.Close() })
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
				l.recent.rows.Purge()
			}
			all, err := l.Lookup(ctx, k)
			rec := all[k]
			if err != nil || rec.Owner != step.want.Owner || rec.Status.State != step.want.Status.State || rec.Presence != step.want.Presence || rec.FirstSeen != step.want.FirstSeen {
				t.Errorf("%s, %s: %+v, %v", step.name, from, rec, err)
			}
			if rec.HasStatus() && (len(rec.Status.Findings) != 1 || rec.Status.Changed.IsZero() || rec.Status.MemoryKey != k) {
				t.Errorf("%s, %s: %+v", step.name, from, rec.Status)
			}
		}
	}
	other := k
	other.ID = "other"
	expect.Len(t, must.Get(l.Lookup(ctx, other))(t), 0, "nothing is known of it")
	must.Do(t, l.Backends.Seal(ctx, "mem0"))
	if all, err := l.Lookup(ctx, other, k); err != nil || all[other].Presence != memproxy.AddedAfterSeal || all[k].Presence != memproxy.NotSealed {
		t.Errorf("after the seal: %+v, %v", all, err)
	}
	row.ID, k.ID = "new", "new"
	must.Get(l.Lookup(ctx, k))(t)
	must.Do(t, put(row)())
	if rest, _ := l.recent.get(map[key]memproxy.Record{}, []key{k}); len(rest) > 0 {
		t.Error("a new object of which nothing was known is asked about once more")
	}
}

// What is kept of an object comes back whole, whichever parts it has.
func TestRecentKeepsAllParts(t *testing.T) {
	k := key{Backend: "mem0", Kind: memproxy.TargetMemory, ID: "m"}
	owner := memproxy.Ownership{Backend: k.Backend, Kind: k.Kind, ID: k.ID, Actor: "ann", SHA256: "00", Deleted: true}
	status := memproxy.Status{MemoryKey: k, State: memproxy.StateFlagged, Findings: []memproxy.Finding{{Rule: "r"}}}
	for _, rec := range []memproxy.Record{
		{}, {Owner: owner}, {Status: status}, {Owner: owner, Status: status}, {Presence: memproxy.AddedAfterSeal}, {Presence: memproxy.PresentAtSeal, FirstSeen: "00"},
	} {
		r := must.Get(newRecent(2))(t)
		r.fill(r.clock, []key{k}, map[key]memproxy.Record{k: rec})
		found := map[key]memproxy.Record{}
		if rest, _ := r.get(found, []key{k}); len(rest) > 0 || !reflect.DeepEqual(found[k], rec) {
			t.Errorf("%+v comes back as %+v", rec, found[k])
		}
	}
}

// Proves EDGE-3: a concurrent reader finds a committed record from the moment Commit
// returns to the writer.
func TestRecentCacheIsNeverStale(t *testing.T) {
	l := must.Get(Open(Options{Timeout: ring.Limit, Path: filepath.Join(ring.Dir(t), "ledger.db"), CacheSize: 100}))(t)
	t.Cleanup(func() { _ = l.Close() })
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
		must.Equal(t, must.Get(l.Lookup(ctx, k))(t)[k].Status.State, want, i)
		if i%10 == 0 {
			l.recent.mu.Lock()
			l.recent.rows.Purge() // so that readers query the store
			l.recent.mu.Unlock()
		}
	}
}
