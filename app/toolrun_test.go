package app_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy/internal/contract"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// toolServer has one agent with custom tools, which write to its block when run.
type toolServer struct {
	mu    sync.Mutex
	value string
	ran   []string
}

const toolAgent = "agent-00000001-1111-4111-8111-111111111111"

func (s *toolServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	block := map[string]any{"id": "block-00000001-1111-4111-8111-111111111111", "label": "authority", "value": s.value, "limit": 5000, "metadata": map[string]any{}}
	tool := func(name, kind, source string) any {
		return map[string]any{"id": "tool-00000001-1111-4111-8111-111111111111", "name": name, "tool_type": kind, "source_type": "python", "source_code": source}
	}
	agent := map[string]any{
		"id": toolAgent, "name": "a", "agent_type": "letta_v1_agent", "blocks": []any{block}, "memory": map[string]any{"blocks": []any{block}},
		"tools": []any{
			tool("notes", "custom", "def notes(agent_state: 'AgentState'): ..."),
			tool("archival_memory_search", "custom", "def archival_memory_search(query, agent_state): ..."),
			tool("clock", "custom", "def clock(): ..."),
			tool("run_code_with_tools", "letta_builtin", ""),
		},
	}
	var out any = []any{}
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case path == "/v1/agents" && r.Method == http.MethodPost, path == "/v1/agents/"+toolAgent:
		out = agent
	case strings.HasSuffix(path, "/run"):
		s.ran, s.value = append(s.ran, path), "spy"
		out = map[string]any{"status": "success", "func_return": "done"}
	case strings.HasPrefix(path, "/v1/blocks/"):
		if r.Method == http.MethodPatch {
			var change struct{ Value *string }
			if json.NewDecoder(r.Body).Decode(&change); change.Value != nil {
				s.value = *change.Value
			}
			block["value"] = s.value
		}
		out = block
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// Proves EDGE-1, EDGE-16: a custom tool that receives the agent's state and is run from
// outside is refused in production whatever its name, or its changes are compensated;
// also through Envoy. Other tools run.
func TestStatefulToolsRunFromOutside(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "deny", "compensate"} {
		t.Run("ungated "+mode, func(t *testing.T) {
			back := &toolServer{value: "nothing"}
			up := serving(t, back)
			r := startMatrixWith(t, "letta", up.URL, func(conf string) string {
				if mode == "" {
					return conf
				}
				return strings.Replace(conf, `kind: letta,`, `kind: letta, ungated: `+mode+`,`, 1)
			})
			who := []string{"X-API-Key", "", "Authorization", "Bearer " + matrixKey("other")}
			r.do("POST", "/v1/agents/", `{"name":"a","memory_blocks":[{"label":"human","value":"tea"}]}`, who...).want(t, http.StatusOK)
			envoy := r.throughEnvoy()
			for _, tool := range []string{"notes", "archival_memory_search", "run_code_with_tools"} {
				back.ran = nil
				path := "/v1/agents/" + toolAgent + "/tools/" + tool + "/run"
				got := r.do("POST", path, `{"args":{"query":"x"}}`, who...)
				switch {
				case mode == "compensate" && (got.status == http.StatusForbidden || len(back.ran) != 1):
					t.Errorf("%s: %d %s, ran %v", tool, got.status, got.body, back.ran)
				case mode != "compensate" && (got.status != http.StatusForbidden || !strings.Contains(got.body, "run.ungated") || len(back.ran) != 0):
					t.Errorf("%s: %d %s, ran %v", tool, got.status, got.body, back.ran)
				}
				expect.Equal(t, back.value, "nothing", tool, "the block is")
				before := len(back.ran)
				also := must.Get(contract.Send(envoy, "POST", path, `{"args":{"query":"x"}}`, "Authorization", "Bearer "+matrixKey("other")))(t)
				expect.Equal(t, also.Status == http.StatusForbidden && len(back.ran) == before, true, tool, "through Envoy", also.Status, also.Body, "ran", back.ran)
			}
			if got := r.do("POST", "/v1/agents/"+toolAgent+"/tools/clock/run", `{}`, who...); got.status != http.StatusOK || len(back.ran) == 0 {
				t.Errorf("a tool without the agent's state: %d %s", got.status, got.body)
			}
		})
	}
}
