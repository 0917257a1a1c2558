package letta

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-13: every row that passes says why it may, and nothing else is
// said to pass.
func TestEveryPassingRowSaysWhy(t *testing.T) {
	said := map[string]bool{}
	for _, p := range passing {
		said[p.id] = true
		if len(p.why) < 10 {
			t.Errorf("%s: %q is no reason", p.id, p.why)
		}
	}
	for i := range table {
		r := &table[i]
		if r.is(pass) != said[r.id] {
			t.Errorf("%s passes: %v, says why: %v", r.id, r.is(pass), said[r.id])
		}
		if r.is(pass) && (r.kind != memproxy.Other || r.method == "*" || strings.Contains(r.path, "...") && !r.is(public)) {
			t.Errorf("%s passes and is open-ended", r.id)
		}
		if r.is(public) && (!r.is(pass) || r.method != "GET") {
			t.Errorf("%s is public and no plain read", r.id)
		}
	}
}

// Proves EDGE-13, EDGE-3: what reads or changes providers, servers of tools,
// users, organisations, sandboxes and other providers' APIs is administration,
// in every row whose path is about them.
func TestAdministrationByPath(t *testing.T) {
	for i := range table {
		r := &table[i]
		for _, word := range []string{"provider", "/mcp", "/admin/", "sandbox", "/auth", "oauth", "anthropic", "/zai/", "token", "/metadata/{rest", "/generate-", "/tools/run"} {
			if !strings.Contains(r.path, word) || r.shape == gateway {
				continue
			}
			running := strings.HasSuffix(r.path, "/run") || strings.HasSuffix(r.path, "/execute")
			shows := r.id != "letta.cloud.agent_mcp_servers" // nothing in its answer is claimed
			if r.kind != memproxy.Admin && !(running && r.kind == memproxy.Run) && shows {
				t.Errorf("%s is %s", r.id, r.kind)
			}
		}
	}
}

// Proves EDGE-13: secrets in an agent's state go, what is not the backend's
// secret stays, and an answer without any comes back as it is.
func TestSecretsAreWithheld(t *testing.T) {
	a := must.Get(New(Options{}))(t)
	state := `{"id":"agent-1","secrets":[{"key":"K","value":"canary"}],"tool_exec_environment_variables":[{"key":"K","value":"canary"}],
"llm_config":{"model":"m","api_key":"canary","model_endpoint":"https://u:canary@host/v1","handle":"h"},
"embedding_config":{"embedding_endpoint":"https://host/v1","azure_endpoint":"https://host?key=canary"},
"tools":[{"name":"t","source_code":"canary","json_schema":{"parameters":{"properties":{"token":{"type":"string"},"api_key":{"description":"kept"}}}}}],
"mcp":{"server_url":"http://h","custom_headers":{"Authorization":"canary"},"env":{"A":"canary"},"access_token":"canary","token_enc":"canary"},
"metadata":{"env":"prod","token":"kept","secret":"kept"},"usage":{"total_tokens":3},"blocks":[{"value":"my password is kept"}]}`
	got := must.Get(a.Withhold(memproxy.Route{}, []byte(state)))(t)
	if strings.Contains(string(got), "canary") || strings.Count(string(got), "kept") != 4 || !strings.Contains(string(got), `"env":"prod"`) || !strings.Contains(string(got), "https://host/v1") {
		t.Errorf("%s", got)
	}
	plain := []byte(`{"id":"block-1","value":"token of the environment","limit":3}`)
	if got, err := a.Withhold(memproxy.Route{}, plain); err != nil || &got[0] != &plain[0] {
		t.Errorf("%s %v", got, err)
	}
	if _, err := a.Withhold(memproxy.Route{}, []byte(`{"token":`)); err == nil {
		t.Error("what cannot be read is shown")
	}
}
