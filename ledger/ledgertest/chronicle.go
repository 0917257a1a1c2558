package ledgertest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger"
)

func stateOf(id string, state memproxy.MemoryState) memproxy.StateChange {
	return memproxy.StateChange{MemoryKey: mem(id), Tenant: "acme", State: state, Decision: "d"}
}

// chronicles: what one operation makes of its memories is there together, and
// what cannot be is not there at all.
func chronicles(t *testing.T, l Life) {
	ctx := t.Context()
	must(t, "Chronicle", l.Chronicle(ctx, memproxy.Chronicle{
		Found:    []memproxy.Version{Version("m", "was there")},
		Versions: []memproxy.Version{Version("m", "changed")},
		States:   []memproxy.StateChange{stateOf("m", memproxy.StateFlagged)},
	}))
	history, err := l.History(ctx, mem("m"), 0, 10) // whoever asks waits for it
	must(t, "History", err)
	if len(history) != 2 || history[0].Op != memproxy.OpUpdate || history[0].Before != hash("was there") || history[1].Op != memproxy.OpSeal {
		t.Errorf("history %+v", history)
	}
	records, err := ledger.ByID(ctx, l, "mem0", memproxy.TargetMemory, "m")
	must(t, "Lookup", err)
	if records["m"].Status.State != memproxy.StateFlagged {
		t.Errorf("status %+v", records["m"].Status)
	}
	bad := stateOf("n", "no such state")
	err = l.Chronicle(ctx, memproxy.Chronicle{Versions: []memproxy.Version{Version("n", "text")}, States: []memproxy.StateChange{bad}})
	if !errors.Is(err, ledger.ErrRow) {
		t.Errorf("a wrong state: %v", err)
	}
	if history, err = l.Other.History(ctx, mem("n"), 0, 10); err != nil || len(history) != 0 {
		t.Errorf("half of it is kept: %+v, %v", history, err)
	}
	// Many at a time share transactions and one chain.
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			id := fmt.Sprint("c", i%7)
			c := memproxy.Chronicle{Versions: []memproxy.Version{Version(id, fmt.Sprint("text ", i))}, States: []memproxy.StateChange{stateOf(id, memproxy.StateUntrusted)}}
			if err := []*ledger.Ledger{l.Ledger, l.Other}[i%2].Chronicle(ctx, c); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	must(t, "Sync", l.Sync(ctx)) // another process finds it once it is committed
	if report := sound(t, l); report.Checked != 62 {
		t.Errorf("%d records, want 62", report.Checked)
	}
}
