package gate_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
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
			if got.Decision.ShadowVerdict != tc.would || got.Decision.Verdict != memproxy.Allow || !got.Shadow() || got.Reply != nil || got.Changed || got.Inspect {
				t.Errorf("%+v", got)
			}
			if !reflect.DeepEqual(got.Decision, want.Decision) {
				t.Errorf("decided %+v, in shadow mode %+v", got.Decision, want.Decision)
			}
			if !reflect.DeepEqual(watched.recorder.events, shadow.recorder.events) {
				t.Errorf("recorded %+v, in shadow mode %+v", watched.recorder.events, shadow.recorder.events)
			}
			if watched.budget.used != shadow.budget.used || !reflect.DeepEqual(watched.ledger.rows, shadow.ledger.rows) {
				t.Errorf("charged %d, in shadow mode %d; rows %v, %v", watched.budget.used, shadow.budget.used, watched.ledger.rows, shadow.ledger.rows)
			}
			if a := watched.admit(tc.op); a.Shadow() || a.Decision.Verdict < tc.would {
				t.Errorf("the next call: %+v", a.Decision)
			}
		})
	}
}
