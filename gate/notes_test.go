package gate_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-13: notes are recorded and never shown, whatever else refuses the
// request: the refusal of a list under another tenant's name is that under
// nobody's.
func TestNotesNeverReachTheCaller(t *testing.T) {
	var bodies [2]string
	for i, who := range []string{"theirs", "nobody"} {
		r := tenants(t, func(r *rig) {
			r.adapter = &masking{}
			r.rules.Policy = policy(func(memproxy.Question) (memproxy.Ruling, error) {
				return memproxy.Ruling{Verdict: memproxy.Deny, Reasons: []memproxy.Reason{{Code: memproxy.PolicyForbid, Rule: "no-schema"}}}, nil
			})
		}, name(memproxy.DimUser, "theirs", "globex"))
		r.fake = &r.adapter.(*masking).fakeAdapter
		a := r.admit(memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{pinned(memproxy.DimUser, who)}})
		bodies[i] = string(a.Reply.Body)
		note := map[string]memproxy.ReasonCode{"theirs": memproxy.OwnerForeign, "nobody": memproxy.OwnerUnknown}[who]
		expect.That(t, has(a.Decision.Notes, note) && has(r.recorder.events[0].Reasons, note), "%s: %s is not on record: %+v", who, note, r.recorder.events[0].Reasons)
		expect.That(t, !has(a.Decision.Reasons, note) && has(a.Decision.Reasons, memproxy.PolicyForbid), "%s: refused for %+v", who, a.Decision.Reasons)
	}
	expect.Equal(t, bodies[0], bodies[1], "the refusal says whether the name is in use")
}

func has(reasons []memproxy.Reason, code memproxy.ReasonCode) bool {
	return slices.ContainsFunc(reasons, func(why memproxy.Reason) bool { return why.Code == code })
}
