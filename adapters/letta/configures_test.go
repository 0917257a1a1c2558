package letta_test

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-18: members that configure an agent are recognised one by one; memories,
// files and other steering members are not among them.
func TestWhatConfigures(t *testing.T) {
	a := adapter(t)
	for name, tc := range map[string]struct {
		method, path, body string
		want               []string
	}{
		"an agent": {
			"POST", "/v1/agents/",
			`{"name":"n","system":"s","description":"d","tool_rules":[{"type":"run_first","tool_name":"t"}],"memory_blocks":[{"label":"human","value":"v","description":"d"}],
			"initial_message_sequence":[{"role":"system","content":"c"}],"compaction_settings":{"prompt":"p"},"metadata":{"system":"m"},"tags":["x"]}`,
			[]string{"/system", "/tool_rules/0/tool_name", "/tool_rules/0/type"},
		},
		"a change": {"PATCH", "/v1/agents/agent-1", `{"system":"s","message_ids":["m"]}`, []string{"/system"}},
		"a run": {
			"POST", "/v1/agents/agent-1/messages",
			`{"messages":[{"role":"user","content":"c"}],"client_tools":[{"name":"t","description":"d","parameters":{"tools":[{"description":"inside"}]}}],"client_skills":[{"name":"k"}],"override_system":"o"}`,
			[]string{"/client_tools/0/description", "/client_tools/0/name"},
		},
		"a block":   {"PATCH", "/v1/blocks/block-1", `{"value":"v","description":"d"}`, nil},
		"a passage": {"POST", "/v1/agents/agent-1/archival-memory", `{"text":"t"}`, nil},
	} {
		var got []string
		for _, it := range decode(t, a, tc.method, tc.path, tc.body).Items {
			if it.Configures {
				got = append(got, it.Pointer)
			}
		}
		slices.Sort(got)
		expect.List(t, got, tc.want, name)
	}
}
