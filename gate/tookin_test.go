package gate_test

import (
	"context"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-3, EDGE-1: what an agent changed or took in, in a run that is ruled
// on when it is over, is held to the caller's tenant too. What came to be in it is
// nobody's yet, and what is let go of may be anybody's.
func TestWhatAnAgentTookInIsHeldToTheTenant(t *testing.T) {
	for _, kind := range []memproxy.Kind{memproxy.Correct, memproxy.Forget} {
		for id, foreign := range map[string]bool{"block-own": false, "block-theirs": true, "block-new": false} {
			r := tenants(t, nil, object("block-own", "acme", "agent:author"), object("block-theirs", "globex", "agent:other"))
			op := memproxy.Operation{
				Kind: kind, Targets: []string{id}, TargetKind: memproxy.TargetMemory, Scope: memproxy.Scope{Agent: "dev"},
				Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: "likes tea", Target: id}},
			}
			asked := r.gate.Agents().RuleOnCall(context.Background(), r.gate.Agents().AdmissionFor(&gate.Call{Backend: gate.Backend{Name: "mem0", Adapter: r.adapter}}, r.admit(learn("x")).Principal, ""),
				memproxy.ToolCall{ID: "c", Tool: "block.attached", Operation: &op})
			missing := has(asked.Decision.Reasons, memproxy.OwnerUnknown)
			want := foreign && kind == memproxy.Correct
			expect.That(t, missing == want && (!want || asked.Decision.Verdict == memproxy.Deny), "%s %s: %+v", kind, id, asked.Decision)
		}
	}
}
