package gate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// settlingRig counts in a real store, on one total and one hour.
func settlingRig(t *testing.T, limit int64) (*rig, *fakeExtractor) {
	t.Helper()
	x := &fakeExtractor{}
	x.exact = true
	r := newRig(t, func(r *rig) {
		r.adapter, r.fake, r.shared = x, &x.fakeAdapter, must.Get(budgets.NewMemory(""))(t)
		r.rules.Lines = hourAndTotal(limit)
	})
	return r, x
}

// wantCharged checks what is charged on the two lines.
func wantCharged(t *testing.T, r *rig, hour, total int64, about ...any) {
	t.Helper()
	lines := r.rules.Lines(r.who, memproxy.Learn, "", nil)
	c := memproxy.Charge{ID: fmt.Sprint("look", rand.Int64()), Tenant: r.who.Tenant, Time: noon, Lines: lines, Written: true}
	a := must.Get(r.shared.Charge(context.Background(), c))(t)
	expect.That(t, a.Lines[0].Used == hour && a.Lines[1].Used == total, "%d in the hour and %d in all are charged, want %d and %d %v", a.Lines[0].Used, a.Lines[1].Used, hour, total, about)
}

func added(n int) []memproxy.Memory {
	out := make([]memproxy.Memory, n)
	for i := range out {
		out[i] = memproxy.Memory{ID: fmt.Sprint("m", rand.Int64()), Text: "tea", Event: "ADD"}
	}
	return out
}

func costs(n int) memproxy.Operation {
	op := learn("likes tea")
	op.Cost = n
	return op
}

// Proves TRL-6: a write is charged for what it wrote, more or less than was
// reserved, and what went over the limit refuses the next one.
func TestChargesAreSettled(t *testing.T) {
	r, x := settlingRig(t, 20)
	for _, tc := range []struct {
		name                string
		cost, wrote, status int
		exact               bool  // the answer names everything
		charged             int64 // in the hour and in all
	}{
		{"fewer", 5, 2, 200, true, 2},
		{"none", 5, 0, 200, true, 2},
		{"the backend refused it", 5, 3, 400, true, 2},
		{"it is to be sent to another address", 5, 3, 307, true, 2},
		{"nobody knows: it stays reserved", 5, 3, 502, true, 7},
		{"fewer are named", 3, 1, 200, false, 10},
		{"more are named", 3, 4, 200, false, 14},
		{"more", 1, 40, 200, true, 54},
	} {
		x.memories, x.exact = added(tc.wrote), tc.exact
		r.gate.Return(context.Background(), r.admit(costs(tc.cost)), memproxy.Reply{Status: tc.status})
		wantCharged(t, r, tc.charged, tc.charged, tc.name)
	}
	wantCodes(t, r.admit(costs(1)).Decision, memproxy.Deny, memproxy.BudgetTotal)
}

// Proves TRL-6: a run is credited if the backend refuses its first request, and not if it
// refuses a later one, which the caller's charge did not pay for.
func TestALaterRequestOfARunIsNotCredited(t *testing.T) {
	for requests, want := range map[int]int64{1: 0, 2: 3} {
		r, _ := settlingRig(t, 20)
		a := r.admit(memproxy.Operation{Kind: memproxy.Run, Cost: 3})
		for range requests {
			r.gate.Agents().BeginSend(a)()
		}
		r.gate.RecordUnfiltered(context.Background(), a, 429, memproxy.StreamWhole)
		wantCharged(t, r, want, want, requests, "requests")
	}
}

// A memory that the backend's model changed is none more, but it was written
// in this hour.
func TestChangedMemoriesCountInTheHour(t *testing.T) {
	r, x := settlingRig(t, 20)
	x.memories = append(added(2), memproxy.Memory{ID: "u", Text: "u", Event: "UPDATE"}, memproxy.Memory{ID: "n", Event: "NONE"})
	r.gate.Return(context.Background(), r.admit(costs(1)), memproxy.Reply{Status: 200})
	wantCharged(t, r, 3, 2)
}

// Proves TRL-6: an asynchronous write is settled with the last of its
// outcomes; one that is never learnt leaves the reservation.
func TestAsynchronousWritesAreSettledLater(t *testing.T) {
	r, x := settlingRig(t, 50)
	x.events, x.exact = []string{"e1", "e2"}, false
	a := r.admit(costs(6))
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200})
	must.Len(t, r.gate.FollowUpRequests(a), 2)
	tell := func(over bool, became []memproxy.Memory, status int) {
		x.over, x.became = over, became
		r.gate.ReadFollowUp(context.Background(), a, memproxy.Reply{Status: status})
	}
	wantCharged(t, r, 6, 6)
	tell(false, nil, 200)
	tell(true, added(11), 200)
	wantCharged(t, r, 6, 6)
	tell(true, added(1), 200)
	wantCharged(t, r, 12, 12)
	a = r.admit(costs(6))
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200})
	tell(true, []memproxy.Memory{}, 200)
	tell(true, nil, 404) // forgotten by the backend
	wantCharged(t, r, 18, 18)
}

// Proves TRL-6: a memory counts once for a write, whether its answer, its receipts or
// both name it, and a receipt of an answer that names everything is not asked for.
func TestMemoriesOfAnswerAndReceiptCountOnce(t *testing.T) {
	r, x := settlingRig(t, 50)
	x.events, x.over = []string{"e1"}, true
	x.memories = append(added(2), memproxy.Memory{ID: "u", Text: "u", Event: "UPDATE"})
	x.became = append(added(1), x.memories...)
	for _, tc := range []struct {
		exact             bool
		owed, hour, total int64
	}{{exact: false, owed: 1, hour: 4, total: 3}, {exact: true, owed: 0, hour: 4 + 3, total: 3 + 2}} {
		x.exact = tc.exact
		a := r.admit(costs(3))
		r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200})
		owed := r.gate.FollowUpRequests(a)
		expect.That(t, int64(len(owed)) == tc.owed, "exact %v: %d owed", tc.exact, len(owed))
		if tc.owed > 0 {
			r.gate.ReadFollowUp(context.Background(), a, memproxy.Reply{Status: 200})
		}
		wantCharged(t, r, tc.hour, tc.total, "exact:", tc.exact)
	}
}

// Proves TRL-6: whatever is written in whatever order, the sum of what is
// charged is the number of memories.
func TestSumOfChargesIsWhatWasWritten(t *testing.T) {
	rnd := rand.New(rand.NewPCG(10, 23))
	r, x := settlingRig(t, 1<<40)
	var wrote int64
	for range 400 {
		n := rnd.IntN(9)
		x.memories, x.events = added(n), nil
		if rnd.IntN(3) == 0 {
			x.events = make([]string, 1+rnd.IntN(3))
		}
		x.exact = x.events == nil
		a := r.admit(costs(1 + rnd.IntN(6)))
		status := []int{200, 200, 200, 422}[rnd.IntN(4)]
		r.gate.Return(context.Background(), a, memproxy.Reply{Status: status})
		if status != 200 {
			continue
		}
		wrote += int64(n)
		for range x.events {
			late := rnd.IntN(5)
			wrote += int64(late)
			x.over, x.became = true, append(added(late), x.memories[rnd.IntN(n+1):]...) // some a second time
			r.gate.ReadFollowUp(context.Background(), a, memproxy.Reply{Status: 200})
		}
	}
	wantCharged(t, r, wrote, wrote)
}

// Proves TRL-6: the totals of an author fall by each memory that the backend's model deletes,
// whichever answer to the write names it, and once by one that two answers name.
func TestDeletionsOfEveryAnswerLowerTotals(t *testing.T) {
	r, x := settlingRig(t, 50)
	gone := func(id string) memproxy.Memory {
		r.ledger.rows[id] = memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: id, Scope: memproxy.Scope{Tenant: "acme"}, Actor: "agent:dev", Trust: memproxy.TrustAuthenticated}
		return memproxy.Memory{ID: id, Event: "DELETE"}
	}
	one, two, three := gone("m1"), gone("m2"), gone("m3")
	x.memories = added(9)
	r.gate.Return(context.Background(), r.admit(costs(9)), memproxy.Reply{Status: 200})
	x.events, x.exact, x.over = []string{"e1", "e2"}, false, true
	x.memories = []memproxy.Memory{one}
	a := r.admit(costs(0))
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200})
	for _, became := range [][]memproxy.Memory{{one, two}, {three}} {
		x.became = became
		r.gate.ReadFollowUp(context.Background(), a, memproxy.Reply{Status: 200})
	}
	wantCharged(t, r, 9, 6, "nine less three")
}

// unbindable is a ledger that cannot record who is the first to use a name.
type unbindable struct{ *fakeLedger }

func (unbindable) Bind(context.Context, ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	return nil, errBroken
}

// Proves TRL-6: a write whose names cannot be recorded does not leave and costs nothing,
// and what it cost is given back once, however often it is given up.
func TestChargesAreGivenBackOnce(t *testing.T) {
	r := tenants(t, func(r *rig) { r.sweeper = unbindable{r.ledger} })
	op := learn("x")
	op.Claims = []memproxy.Claim{pinned(memproxy.DimUser, "ann")}
	a := r.admit(op)
	wantCodes(t, a.Decision, memproxy.Deny, memproxy.LedgerUnavailable)
	expect.Len(t, r.budget.released, 1)
	r.gate.AbandonUnsent(context.Background(), a, memproxy.StreamWhole)
	expect.Len(t, r.budget.released, 1, "given up again")
	expect.Equal(t, r.budget.used, 0)
}

// The charge of a write that was not sent is released although its caller has disconnected:
// before the decision is recorded, or while the write is being sent.
func TestDisconnectedCallersGetTheirChargeBack(t *testing.T) {
	for name, recorded := range map[string]error{"before the record": errBroken, "before it is sent": nil} {
		ctx, disconnect := context.WithCancel(t.Context())
		r := newRig(t, func(r *rig) {
			r.recorder.err = recorded
			r.rules.Policy = policy(func(memproxy.Question) (memproxy.Ruling, error) { disconnect(); return memproxy.Ruling{}, nil })
		})
		r.fake.op = costs(1)
		a := r.gate.Admit(ctx, r.call(r.fake.op))
		r.gate.AbandonUnsent(ctx, a, memproxy.StreamGone)
		expect.Equal(t, len(r.budget.released), 1, name)
	}
}

// echoing is a fakeExtractor whose memories show which write made them.
type echoing struct{ fakeExtractor }

func (*echoing) Echoes(memproxy.Route, *memproxy.Operation) bool { return true }

// Proves DOL-2: the status of memories that are made after the answer is stored once; until
// then the one that was stored in advance applies.
func TestStatusOfLateMemoriesIsStoredOnce(t *testing.T) {
	x := &echoing{}
	r := newRig(t, func(r *rig) {
		r.adapter, r.fake = x, &x.fakeAdapter
		r.rules.NeverRefuse, r.rules.Policy = true, says(memproxy.Hold, memproxy.ScreenRisk)
	})
	x.events = []string{"e1"}
	a := r.admitWith(learn("a note"), &sender{status: 200})
	r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("{}")})
	x.over, x.became = true, []memproxy.Memory{{ID: "m2", Text: "a note", Event: "ADD"}}
	expect.Equal(t, r.gate.ReadFollowUp(context.Background(), a, memproxy.Reply{Status: 200}), true, "over")
	var states []string
	for _, c := range r.ledger.changes {
		states = append(states, c.ID+" "+string(c.State))
	}
	expect.Equal(t, strings.Join(states, ", "), "d1 flagged, m2 flagged")
}
