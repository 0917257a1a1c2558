package app_test

import (
	"context"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves TRL-9, EDGE-5: to a caller who does not see a memory because of its state, a
// change and a deletion of it are answered as of a missing one, and nothing is recorded
// against it. Its author changes it, and of one that waits for review a reviewer, a
// person without the role not; what is changed stays withheld until it is promoted.
func TestHiddenMemoriesCannotBeChanged(t *testing.T) {
	t.Parallel()
	r := startPeople(t, "memories: {validate: 0, pending: [authenticated]}")
	id := r.note("", "Ann likes green tea.", "")
	state := func(want memproxy.MemoryState, when string) {
		t.Helper()
		st := r.statusOf(id)
		expect.Equal(t, st.State, want, when)
		expect.Equal(t, st.Contested, false, when, "contested")
	}
	hidden := func(who string) {
		t.Helper()
		for _, do := range [][3]string{
			{"PUT", "/memories/" + id, `{"text":"Ann likes coffee."}`}, {"PUT", "/v1/memories/" + id + "/", `{"metadata":{"k":2}}`},
			{"DELETE", "/memories/" + id, ""}, {"DELETE", "/v1/batch/", `{"memories":[{"memory_id":"` + id + `"}]}`},
		} {
			r.do(do[0], do[1], do[2], as(who)...).want(t, 404, who, do[0], do[1]).lacks(t, "trust.others")
		}
		r.do("GET", "/memories/"+id, "", as(who)...).want(t, 404, who)
	}
	state(memproxy.StatePending, "new")
	for _, who := range []string{"peer", "better", "human"} {
		hidden(who)
	}
	state(memproxy.StatePending, "after the attempts")
	for _, who := range []string{"", "reviewer"} {
		r.do("PUT", "/memories/"+id, `{"text":"Ann likes black tea, says `+who+`."}`, as(who)...).want(t, 200, who)
		r.do("GET", "/memories/"+id, "", as(who)...).want(t, 200, who).has(t, "black tea")
		state(memproxy.StatePending, "changed by "+who)
	}
	must.Get(r.car.Ledger.SetState(context.Background(), memproxy.StateChange{
		MemoryKey: memproxy.MemoryKey{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id}, Tenant: "acme", State: memproxy.StateQuarantined,
	}))(t)
	for _, who := range []string{"peer", "human", "reviewer"} {
		hidden(who)
	}
	r.do("PUT", "/memories/"+id, `{"text":"Ann likes white tea."}`, as("")...).want(t, 200)
	r.do("GET", "/memories/"+id, "", as("")...).want(t, 404)
	state(memproxy.StateQuarantined, "changed by its author")
	r.do("DELETE", "/memories/"+id, "", as("")...).want(t, 200)
}
