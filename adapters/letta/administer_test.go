package letta_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// passing says why rows may pass: they touch no memory, show no keys and change no part
// of the installation.
var passing = map[string]string{
	"starts to load an index that searches use; says only that it did":      `warm_internal_search_cache`,
	"which models may be named by their handles; keys stand with providers": `list_models list_embedding_models`,
	"the catalogue that Letta Cloud publishes":                              `cloud.models`,
	"derived, so all of what it is made of must be the caller's to see: numbers, sizes, ids and tags": `count_internal_agents count_agents count_blocks get_total_storage_size
		count_folders retrieve_metadata get_folder_by_name list_agents_for_folder count_groups count_identities count_sources get_sources_metadata get_source_id_by_name
		get_agents_for_source list_tags count_tools`,
	"numbers of a run or a step, which is a target and must be the caller's to see": `retrieve_metrics_for_run retrieve_usage_for_run retrieve_metrics_for_step`,
	"public: a probe": `check_health check_readiness`,
	"public: a page of the server's own, its pictures, or documentation": `root docs redoc openapi favicon assets`,
}

// Proves EDGE-13: every passing row has a reason here, and no other row has.
func TestEveryPassingRowSaysWhy(t *testing.T) {
	a := adapter(t)
	reasons := map[string]string{}
	for why, ids := range passing {
		for id := range strings.FieldsSeq(ids) {
			reasons["letta."+id] = why
		}
	}
	adaptertest.Passing(t, a, reasons)
	for at, rt := range a.Routes() {
		if rt.Pass && (strings.HasPrefix(at, "* ") || strings.Contains(at, "...") && !rt.Public) {
			t.Errorf("%s passes and is open-ended", rt.ID)
		}
		if rt.Public && !strings.HasPrefix(at, "GET ") {
			t.Errorf("%s is public and no plain read", rt.ID)
		}
	}
}

// Proves EDGE-13, EDGE-3: every row whose path is about providers, MCP servers, users,
// organisations, sandboxes or other providers' APIs is administration.
func TestAdministrationByPath(t *testing.T) {
	for _, r := range adapter(t).Rows {
		for _, word := range []string{"provider", "/mcp", "/admin/", "sandbox", "/auth", "oauth", "anthropic", "/zai/", "token", "/metadata/{rest", "/generate-", "/tools/run"} {
			if !strings.Contains(r.Path, word) || r.Shape == "gateway" {
				continue
			}
			running := strings.HasSuffix(r.Path, "/run") || strings.HasSuffix(r.Path, "/execute")
			shows := r.ID != "letta.cloud.agent_mcp_servers" // no member of its answer is claimed
			if r.Kind != memproxy.Admin && !(running && r.Kind == memproxy.Run) && shows {
				t.Errorf("%s is %s", r.ID, r.Kind)
			}
		}
	}
}

// Proves EDGE-13: secrets in an agent's state are removed, other members stay, and an
// answer without secrets is unchanged.
func TestSecretsAreWithheld(t *testing.T) {
	a := adapter(t)
	state := `{"id":"agent-1","secrets":[{"key":"K","value":"canary"}],"tool_exec_environment_variables":[{"key":"K","value":"canary"}],
"llm_config":{"model":"m","api_key":"canary","model_endpoint":"https://u:canary@host/v1","handle":"h"},
"embedding_config":{"embedding_endpoint":"https://host/v1","azure_endpoint":"https://host?key=canary"},
"tools":[{"name":"t","source_code":"canary","json_schema":{"parameters":{"properties":{"token":{"type":"string"},"api_key":{"description":"kept"}}}}}],
"mcp":{"server_url":"http://h","custom_headers":{"Authorization":"canary"},"env":{"A":"canary"},"access_token":"canary","token_enc":"canary"},
"metadata":{"env":"prod","token":"kept","secret":"kept"},"usage":{"total_tokens":3},"blocks":[{"value":"my password is kept"}]}`
	expect.Text(t, string(must.Get(a.Withhold(memproxy.Route{}, []byte(state), false))(t))).Lacks("canary").Times(4, "kept").Has(`"env":"prod"`, "https://host/v1")
	expect.Text(t, string(must.Get(a.Withhold(memproxy.Route{}, []byte(state), true))(t)), "to an administrator").Times(1, "canary").Has(`"source_code":"canary"`)
	file := []byte(`{"agents":[{"secrets":{"K":"","L":""},"tool_exec_environment_variables":{"K":"","L":""}}]}`) // exported: the server empties the values
	expect.Equal(t, string(must.Get(a.Withhold(memproxy.Route{}, file, true))(t)), string(file), "an import of this file loses its secrets")
	expect.Text(t, string(must.Get(a.Withhold(memproxy.Route{}, file, false))(t)), "names are shown to all").Lacks("K")
	plain := []byte(`{"id":"block-1","value":"token of the environment","limit":3}`)
	if got, err := a.Withhold(memproxy.Route{}, plain, false); err != nil || &got[0] != &plain[0] {
		t.Errorf("%s %v", got, err)
	}
	expect.Error(t, expect.Err(a.Withhold(memproxy.Route{}, []byte(`{"token":`), false)), "what cannot be read is shown")
}

// Proves EDGE-18: the server's 401 for a request is told from the one for a model's key.
func TestWhoseCredentialTheServerRefuses(t *testing.T) {
	a := adapter(t)
	for body, want := range map[string]bool{
		`{"detail":"Unauthorized"}`: true,
		`{"error":{"type":"llm_authentication","message":"Authentication failed with the LLM model provider.","detail":"Unauthorized"}}`: false,
		`Unauthorized`: false,
	} {
		expect.Equal(t, a.RefusesCredential(memproxy.Reply{Status: 401, Body: []byte(body)}), want, body)
	}
}
