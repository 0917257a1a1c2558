package gate_test

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves MFW-7, EDGE-17: what the present rules make of a held write is what they would make of
// it now. It waits on where they say something conditional, and a step that fails says nothing.
// Nothing is charged or recorded.
func TestHeldWritesAreReevaluated(t *testing.T) {
	limited := memproxy.Principal{ID: "agent:author", Tenant: "acme", Users: only("ann")}
	for name, tc := range map[string]struct {
		set     func(*rig)
		content memproxy.HoldContent
		want    memproxy.Verdict
		fails   bool
	}{
		"allowed":                {func(*rig) {}, memproxy.HoldContent{}, memproxy.Allow, false},
		"denied":                 {func(r *rig) { r.rules.Policy = says(memproxy.Deny, memproxy.ScreenRisk) }, memproxy.HoldContent{}, memproxy.Deny, false},
		"held":                   {func(r *rig) { r.rules.Policy = says(memproxy.Hold, memproxy.ScreenRisk) }, memproxy.HoldContent{}, memproxy.Hold, false},
		"a policy fails":         {func(r *rig) { r.rules.Policy = says(memproxy.Deny, memproxy.PolicyError) }, memproxy.HoldContent{}, memproxy.Hold, false},
		"set aside":              {func(r *rig) { r.rules.Policy, r.rules.NeverRefuse = says(memproxy.Deny, memproxy.ScreenRisk), true }, memproxy.HoldContent{}, memproxy.Hold, false},
		"rewritten, and allowed": {func(*rig) {}, memproxy.HoldContent{Rewritten: []memproxy.HeldText{{Pointer: "/a"}}}, memproxy.Hold, false},
		"rewritten, and denied":  {func(r *rig) { r.rules.Policy = says(memproxy.Deny, memproxy.ScreenRisk) }, memproxy.HoldContent{Rewritten: []memproxy.HeldText{{Pointer: "/a"}}}, memproxy.Deny, false},
		"screening fails":        {func(r *rig) { r.rules.Screener = screener{err: errBroken} }, memproxy.HoldContent{}, 0, true},
		"the policy does not answer": {func(r *rig) {
			r.rules.Policy = policy(func(memproxy.Question) (memproxy.Ruling, error) { return memproxy.Ruling{}, errBroken })
		}, memproxy.HoldContent{}, 0, true},
		"as its author": {func(r *rig) {
			r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) {
				expect.Equal(t, q.Principal.Users.All, false, "the author's limits")
				return memproxy.Ruling{}, nil
			})
		}, memproxy.HoldContent{Author: &limited}, memproxy.Allow, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &echoer{}
			r, _ := anyAgent(t, func(r *rig) { r.adapter, r.fake = b, &b.fakeAdapter; tc.set(r) })
			r.fake.op, r.fake.knows = learn("x"), true
			tc.content.Body = []byte("body")
			got, err := r.gate.Reviewed().Reevaluate(t.Context(), gate.Backend{Name: "mem", Adapter: r.adapter}, approved("fake.route"), tc.content)
			must.Equal(t, err != nil, tc.fails, err)
			expect.Equal(t, got.Verdict, tc.want)
			expect.Equal(t, r.budget.used, 0)
			expect.Len(t, r.recorder.events, 0)
		})
	}
}
