package gate_test

import (
	"testing"

	"github.com/memproxy/memproxy"
)

// Proves SYN-1, EDGE-3: a change by id is ruled on under the field that it
// changes, though the payload does not name it; a rename under both; and a
// target by another name is known by its id.
func TestChangesByIDHaveTheirField(t *testing.T) {
	for name, tc := range map[string]struct {
		said string
		want []string
	}{
		"not said": {"", []string{"authority"}},
		"renamed":  {"notes", []string{"notes", "authority"}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			r := newRig(t, func(r *rig) {
				r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) {
					for _, it := range q.Operation.Items {
						asked = append(asked, it.Field)
					}
					return memproxy.Ruling{}, nil
				})
			})
			r.ledger.rows["block-1"] = memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: "block-1", Scope: memproxy.Scope{Tenant: "globex"}}
			r.fake.merges = true
			r.fake.located = map[string]memproxy.Memory{"agent-1/authority": {ID: "block-1", Field: "authority"}}
			op := byID(memproxy.Correct, "agent-1/authority")
			op.Items = []memproxy.Item{{Kind: memproxy.ItemContent, Text: "x", Field: tc.said}}
			a := r.admit(op)
			wantCodes(t, a.Decision, memproxy.Deny, memproxy.OwnerForeign)

			r.ledger.rows["block-1"] = memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: "block-1", Scope: memproxy.Scope{Tenant: "acme"}}
			op.Items = []memproxy.Item{{Kind: memproxy.ItemContent, Text: "x", Field: tc.said}}
			asked = nil
			a = r.admit(op)
			wantCodes(t, a.Decision, memproxy.Allow)
			if len(asked) != len(tc.want) {
				t.Fatalf("asked about %q, want %q", asked, tc.want)
			}
			for i := range asked {
				if asked[i] != tc.want[i] {
					t.Errorf("asked about %q, want %q", asked, tc.want)
				}
			}
		})
	}
}
