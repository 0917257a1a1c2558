package gate_test

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
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
					expect.Equal(t, q.Operation.Kind, memproxy.Admin, "asked about", q)
					expect.Equal(t, q.Principal.ID, "agent:dev", "asked about", q)
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
		expect.Len(t, bodies, 1, kind, "told apart")
	}
}
