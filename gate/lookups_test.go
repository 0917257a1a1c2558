package gate_test

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-3: a request asks the ledger about each of its objects once before it is
// forwarded, and once about those of the answer: their owners and their states
// are of one moment. A change asks again in its turn, before which another one may have
// changed them.
func TestAPhaseAsksTheLedgerOnce(t *testing.T) {
	for what, tc := range map[string]struct {
		op           memproxy.Operation
		answer       []memproxy.Memory
		admit, after int
	}{
		"a search": {
			op:     memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{"ann"}, Pins: true}}},
			answer: []memproxy.Memory{{Pointer: "/0", ID: "m1", Text: "text", Scope: memproxy.Scope{User: "ann"}}, {Pointer: "/1", ID: "m2", Text: "text"}},
			admit:  1, after: 1,
		},
		"a change": {
			op: memproxy.Operation{Kind: memproxy.Correct, Targets: []string{"m1"}, TargetKind: memproxy.TargetMemory,
				Claims: []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{"ann"}}},
				Items:  []memproxy.Item{{Kind: memproxy.ItemContent, Target: "m1", Text: "another"}}},
			admit: 2, after: 0,
		},
		"a list without records": {
			op:     memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{"ann", "ann"}, Pins: true}}},
			answer: []memproxy.Memory{{Pointer: "/0", ID: "m3", Text: "text", Scope: memproxy.Scope{User: "ann"}}, {Pointer: "/1", ID: "m4", Text: "text", Scope: memproxy.Scope{User: "ann"}}},
			admit:  1, after: 2,
		},
		"an addition": {
			op: memproxy.Operation{Kind: memproxy.Learn, Scope: memproxy.Scope{User: "ann"},
				Claims: []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{"ann"}}},
				Items:  []memproxy.Item{{Kind: memproxy.ItemContent, Text: "text"}}},
			answer: []memproxy.Memory{{Pointer: "/0", ID: "m3", Text: "text", Event: "ADD"}},
			admit:  1, after: 1,
		},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.rules.OneTenant = false })
			l := r.ledger
			for _, row := range []memproxy.Ownership{owned("m1", "acme", "dev"), owned("m2", "acme", "dev"), name(memproxy.DimUser, "ann", "acme")} {
				row.Backend = "mem"
				l.rows[row.ID] = row
			}
			l.statuses["m1"] = memproxy.Status{State: memproxy.StateValidated}
			r.fake.memories = tc.answer
			a := r.admit(tc.op)
			expect.That(t, !a.Decision.Verdict.Stops() && l.asked == tc.admit, "asked %d times before, want %d: %+v", l.asked, tc.admit, a.Decision)
			l.asked = 0
			r.gate.Return(t.Context(), a, memproxy.Reply{Status: 200, Body: []byte("[]")})
			expect.Equal(t, l.asked, tc.after, "asked")
			expect.Len(t, l.twice, 0, "asked twice at once")
		})
	}
}
