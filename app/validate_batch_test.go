package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves DOL-3: validation checks ten memories per round.
func TestValidationRunsInBatches(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}")
	var ids []string
	for n := range 13 {
		ids = append(ids, r.written(fmt.Sprintf("Ann keeps %d bees.", n+2), ""))
	}
	r.versioned(ids...)
	for _, want := range []int{10, 13} {
		r.once("upkeep", time.Now())
		looked := 0
		for _, id := range ids {
			if r.stands(id).State == memproxy.StateValidated {
				looked++
			}
		}
		if looked != want {
			t.Errorf("%d are looked at, want %d", looked, want)
		}
	}
}

// Proves DOL-3, EDGE-11: each tenant has its batch, so that one tenant's many memories
// do not delay another's.
func TestValidationIsFair(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", "memories: {validate: 0}")
	due := func(tenant, id string) {
		k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
		if _, err := r.car.ledger.SetState(t.Context(), memproxy.StateChange{MemoryKey: k, Tenant: tenant, State: memproxy.StateUntrusted}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 25 {
		due("evil", fmt.Sprintf("a%08d-0000-4000-8000-000000000000", n)[1:])
	}
	const last = "ffffffff-0000-4000-8000-000000000000"
	due("acme", last)
	left := func() int {
		list := must.Get(r.car.ledger.ListStatuses(t.Context(), memproxy.StatusFilter{Tenant: new("evil"), NotRules: r.car.rules.current().Version, Limit: 1000}))(t)
		return len(list)
	}
	for pass, want := range []int{15, 5, 0} {
		r.once("upkeep", time.Now())
		if st := r.stands(last); st.Rules != r.car.rules.current().Version {
			t.Fatalf("pass %d: the other tenant's memory waits: %+v", pass, st)
		}
		if got := left(); got != want {
			t.Errorf("after pass %d %d of the first tenant's are due, want %d", pass, got, want)
		}
	}
}

// Proves DOL-3: unvalidated memories that look like instructions are flagged by
// validation, others validated.
func TestValidationFlags(t *testing.T) {
	t.Parallel()
	r := start(t, screeningConf, "SCREENING", never)
	for text, want := range map[string]memproxy.MemoryState{suspicious: memproxy.StateFlagged, "Ann keeps bees.": memproxy.StateValidated} {
		id := r.written(text, "")
		r.versioned(id)
		k := memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}
		if _, err := r.car.ledger.SetState(t.Context(), memproxy.StateChange{MemoryKey: k, Tenant: "acme", State: memproxy.StateUntrusted}); err != nil {
			t.Fatal(err)
		}
		r.once("upkeep", time.Now())
		if got := r.stands(id).State; got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}
