package letta

import (
	"fmt"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// Proves EDGE-1: a tool that is gated when an agent calls it is a write as well
// when a caller runs it directly, and messages to other agents claim them.
func TestGatedToolsAreWritesWhenRunDirectly(t *testing.T) {
	a, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range turn.Names() {
		if turn.Searches(name) {
			continue
		}
		req := memproxy.Request{Method: "POST", EscapedPath: "/v1/agents/agent-00000000-0000-4000-8000-000000000001/tools/" + name + "/run",
			Header: memproxy.Header{"Content-Type": {"application/json"}}}
		rt, ok := a.Route(req)
		if !ok {
			t.Fatalf("%s: no route", name)
		}
		op, err := a.Decode(rt, req, []byte(`{"args":{"label":"human","path":"/memories/human","command":"create","content":"x","message":"m","other_agent_id":"agent-00000000-0000-4000-8000-000000000002","new_memory":"y"}}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !op.Kind.Writes() || op.Kind == memproxy.Run || len(op.Items) == 0 {
			t.Errorf("%s: %s with %d items, want a write", name, op.Kind, len(op.Items))
		}
	}
	for name, want := range map[string]string{
		"send_message_to_agent_async":          "agent is [agent-00000000-0000-4000-8000-000000000002]",
		"send_message_to_agents_matching_tags": "agent unclear []",
	} {
		req := memproxy.Request{Method: "POST", EscapedPath: "/v1/agents/agent-00000000-0000-4000-8000-000000000001/tools/" + name + "/run",
			Header: memproxy.Header{"Content-Type": {"application/json"}}}
		rt, _ := a.Route(req)
		op, err := a.Decode(rt, req, []byte(`{"args":{"message":"m","other_agent_id":"agent-00000000-0000-4000-8000-000000000002"}}`))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, c := range op.Claims {
			found = found || fmt.Sprintf("%s %s %v", c.Dim, c.Op, c.Values) == want
		}
		if !found {
			t.Errorf("%s claims %+v, want %s", name, op.Claims, want)
		}
	}
}
