package gate_test

import (
	"testing"

	"github.com/memproxy/memproxy"
)

// Proves EDGE-3, EDGE-13: who may not administer is answered alike whatever an
// administrative request names: one's own, another tenant's, nobody's, in a claim
// or as a reference, also of a kind that no backend can be asked about.
func TestRefusedAdministrationDisclosesNothing(t *testing.T) {
	for _, kind := range []memproxy.TargetKind{memproxy.TargetMemory, memproxy.TargetEvent} {
		bodies := map[string]bool{}
		for _, who := range []string{"own", "theirs", "nobody"} {
			r := tenants(t, func(r *rig) {
				r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) {
					if q.Operation.Kind != memproxy.Admin || q.Principal.ID != "agent:dev" {
						t.Errorf("asked about %+v", q)
					}
					return memproxy.Ruling{Verdict: memproxy.Deny, Reasons: []memproxy.Reason{{Code: memproxy.PolicyForbid}}}, nil
				})
				for _, row := range []memproxy.Ownership{{ID: "own", Scope: memproxy.Scope{Tenant: "acme"}}, {ID: "theirs", Scope: memproxy.Scope{Tenant: "globex"}}} {
					row.Kind = kind
					r.ledger.rows[row.ID] = row
				}
			}, name(memproxy.DimUser, "own", "acme"), name(memproxy.DimUser, "theirs", "globex"))
			a := r.admit(memproxy.Operation{Kind: memproxy.Admin, Refs: []memproxy.Ref{{Kind: kind, ID: who, Pointer: "/file_id"}}, Claims: []memproxy.Claim{pinned(memproxy.DimUser, who)}})
			wantCodes(t, a.Decision, memproxy.Deny, memproxy.PolicyForbid)
			bodies[string(a.Reply.Body)] = true
		}
		if len(bodies) != 1 {
			t.Errorf("%s: told apart: %v", kind, bodies)
		}
	}
}
