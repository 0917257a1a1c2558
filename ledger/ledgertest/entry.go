package ledgertest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger"
)

func stateOf(id string, state memproxy.MemoryState) memproxy.StateChange {
	return memproxy.StateChange{MemoryKey: mem(id), Tenant: "acme", State: state, Decision: "d"}
}

// entries: all changes of a decision become visible in this process together and at
// once; an entry that cannot be stored changes nothing.
func entries(t *testing.T, l Life) {
	ctx := t.Context()
	must.Do(t, l.Commit(ctx, memproxy.Entry{Queued: true,
		Found:    []memproxy.Version{Version("m", "was there")},
		Versions: []memproxy.Version{Version("m", "changed")},
		States:   []memproxy.StateChange{stateOf("m", memproxy.StateFlagged)},
	}))
	history := must.Get(l.History(ctx, mem("m"), 0, 10))(t) // the query waits until the entry is committed
	expect.That(t, len(history) == 2 && history[0].Op == memproxy.OpUpdate && history[0].Before == hash("was there") && history[1].Op == memproxy.OpSeal, "history %+v", history)
	records := must.Get(ledger.ByID(ctx, l, "mem0", memproxy.TargetMemory, "m"))(t)
	expect.Equal(t, records["m"].Status.State, memproxy.StateFlagged, records["m"].Status)
	born, expires := stateOf("born", memproxy.StateValidated), l.Clock.Now().Add(time.Hour)
	must.Do(t, l.Commit(ctx, memproxy.Entry{
		Queued: true, Versions: []memproxy.Version{Version("born", "text")}, States: []memproxy.StateChange{born}, Owners: []memproxy.Ownership{Row("born")},
		Renewed: []memproxy.Renewal{{MemoryKey: mem("born"), Expires: expires}},
	}))
	if records, err := ledger.ByID(ctx, l, "mem0", memproxy.TargetMemory, "born"); err != nil || records["born"].Owner != Row("born") ||
		records["born"].Status.State != memproxy.StateValidated || !records["born"].Status.Expires.Equal(expires) {
		t.Errorf("at once: %+v, %v", records["born"], err)
	}
	must.Do(t, l.Sync(ctx))
	if track, err := l.Track(ctx, "acme", Row("born").Actor); err != nil || track.Facts != 1 || track.Validated != 0 {
		t.Errorf("a memory that is made validated counts for its author: %+v, %v", track, err)
	}
	bad := stateOf("n", "no such state")
	wantErr(t, "a wrong state", l.Commit(ctx, memproxy.Entry{Queued: true, Versions: []memproxy.Version{Version("n", "text")}, States: []memproxy.StateChange{bad}, Owners: []memproxy.Ownership{Row("n")}}), ledger.ErrRow)
	expect.Len(t, must.Get(l.Other.History(ctx, mem("n"), 0, 10))(t), 0, "half of it is kept")
	expect.Len(t, must.Get(ledger.ByID(ctx, l, "mem0", memproxy.TargetMemory, "n"))(t), 0, "half of it is kept")
	// If another process replaced or deleted an owner, nothing is applied.
	one, other, gone := Row("born"), Row("born"), Row("born")
	one.Decision, other.Decision, gone.Deleted = "d-one", "d-other", true
	must.Do(t, l.Other.Commit(ctx, memproxy.Entry{ExpectedOwners: []memproxy.Ownership{Row("born")}, Owners: []memproxy.Ownership{other}}))
	for _, seen := range []memproxy.Ownership{Row("born"), gone, Row("nowhere")} {
		err := l.Commit(ctx, memproxy.Entry{ExpectedOwners: []memproxy.Ownership{other, seen}, Versions: []memproxy.Version{Version("born", "mine")}, Owners: []memproxy.Ownership{one}})
		expect.Is(t, err, memproxy.ErrStale, "over", seen)
	}
	expect.Equal(t, must.Get(ledger.ByID(ctx, l, "mem0", memproxy.TargetMemory, "born"))(t)["born"].Owner, other, "a stale entry was applied")
	must.Do(t, l.Commit(ctx, memproxy.Entry{ExpectedOwners: []memproxy.Ownership{other}, Owners: []memproxy.Ownership{one}}))
	// Many concurrent entries share transactions and one chain.
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			id := fmt.Sprint("c", i%7)
			c := memproxy.Entry{Queued: true, Versions: []memproxy.Version{Version(id, fmt.Sprint("text ", i))}, States: []memproxy.StateChange{stateOf(id, memproxy.StateUntrusted)}}
			expect.OK(t, []*ledger.Ledger{l.Ledger, l.Other}[i%2].Commit(ctx, c))
		})
	}
	all.Wait()
	must.Do(t, l.Sync(ctx)) // another process sees it once it is committed
	expect.Equal(t, sound(t, l).Checked, 63)
}

// sweeps: a deletion of a scope ends the histories in it once; a second one finds none.
func sweeps(t *testing.T, l Life) {
	ctx := t.Context()
	for _, id := range []string{"m", "n", "bobs"} {
		row := Row(id)
		if id == "bobs" {
			row.Scope.User = "bob"
		}
		must.Do(t, l.Commit(ctx, memproxy.Entry{Queued: true, Versions: []memproxy.Version{Version(id, "text of "+id)}, Owners: []memproxy.Ownership{row}}))
	}
	end := Version("", "")
	end.Op, end.Decision, end.Text = memproxy.OpDelete, "the-deletion", ""
	for round, want := range []int64{2, 0} {
		gone := must.Get(l.DeleteScope(ctx, "mem0", memproxy.Scope{User: "ann"}, &end))(t)
		var n int64
		for _, by := range gone.Tallies {
			n += by.Memories
		}
		expect.Equal(t, n, want, "round", round)
		for id, versions := range map[string]int{"m": 2, "n": 2, "bobs": 1} {
			history := must.Get(l.History(ctx, mem(id), 0, 10))(t)
			if len(history) != versions || versions == 2 && (history[0].Op != memproxy.OpDelete || history[0].Decision != "the-deletion" || history[0].Before != hash("text of "+id)) {
				t.Errorf("round %d: %s: %+v", round, id, history)
			}
		}
	}
	sound(t, l)
}
