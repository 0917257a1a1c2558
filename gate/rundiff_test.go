package gate_test

import (
	"context"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves TRL-10: a call that is only observed leaves exactly what shadow mode
// leaves (record, charge, ledger), whatever the rules enforce, and the next call
// at the same gate is enforced again.
func TestWatchedIsShadow(t *testing.T) {
	hint := learn("x")
	hint.ConfidenceClaims = []memproxy.ConfidenceClaim{{Pointer: "/confidence", Claimed: 990, Legible: true}}
	recall := memproxy.Operation{Kind: memproxy.Recall}
	for _, tc := range []struct {
		name   string
		change func(*rig)
		op     memproxy.Operation
		would  memproxy.Verdict
	}{
		{"allowed", nil, learn("x"), memproxy.Allow},
		{"amended", nil, hint, memproxy.Amend},
		{"held", func(r *rig) { r.rules.Policy = says(memproxy.Hold, memproxy.PolicyForbid) }, learn("x"), memproxy.Hold},
		{"denied", func(r *rig) { r.rules.Policy = says(memproxy.Deny, memproxy.PolicyForbid) }, learn("x"), memproxy.Deny},
		{"over budget", func(r *rig) { r.budget.limit = 0 }, learn("x"), memproxy.Deny},
		{"unrecorded", func(r *rig) { r.recorder.err = errBroken }, learn("x"), memproxy.Allow},
		{"a read", nil, recall, memproxy.Allow},
	} {
		t.Run(tc.name, func(t *testing.T) {
			through := func(watch bool) (*rig, *gate.Admission) {
				r := newRig(t, func(r *rig) {
					if tc.change != nil {
						tc.change(r)
					}
					r.holds = newHoldStore()
					r.rules.Enforce = watch
				})
				r.fake.op, r.fake.memories = tc.op, []memproxy.Memory{{ID: "m1", Text: "x"}}
				c := r.call(tc.op)
				c.ObserveOnly = watch
				a := r.gate.Admit(context.Background(), c)
				r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("m1")})
				return r, a
			}
			shadow, want := through(false)
			watched, got := through(true)
			expect.That(t, got.Decision.ShadowVerdict == tc.would && got.Decision.Verdict == memproxy.Allow && got.Shadow() && got.Reply == nil && !got.Changed && !got.Inspect, "%+v", got)
			expect.Deep(t, got.Decision, want.Decision, "decided")
			expect.Deep(t, watched.recorder.events, shadow.recorder.events, "recorded")
			expect.Equal(t, watched.budget.used, shadow.budget.used, "charged")
			expect.Deep(t, watched.ledger.rows, shadow.ledger.rows, "charged")
			if a := watched.admit(tc.op); a.Shadow() || a.Decision.Verdict < tc.would {
				t.Errorf("the next call: %+v", a.Decision)
			}
		})
	}
}
