package letta

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/internal/must"
)

// passing says why each passing row may pass: it touches no memory, shows no keys and
// changes no part of the installation.
var passing = map[string]string{
	"letta.warm_internal_search_cache": "starts to load an index that searches use; says only that it did",
	"letta.list_models":                "which models may be named by their handles; keys stand with providers",
	"letta.list_embedding_models":      "likewise, for embeddings",
	"letta.cloud.models":               "the catalogue that Letta Cloud publishes",
	"letta.count_internal_agents":      "a number: derived, so all of what it is made of must be the caller's to see",
	"letta.count_agents":               "a number: derived, so all of what it is made of must be the caller's to see",
	"letta.count_blocks":               "a number: derived, so all of what it is made of must be the caller's to see",
	"letta.get_total_storage_size":     "a number: derived, so all of what it is made of must be the caller's to see",
	"letta.count_folders":              "a number: derived, so all of what it is made of must be the caller's to see",
	"letta.retrieve_metadata":          "sizes and numbers of files: derived, so all of what it is made of must be the caller's to see",
	"letta.get_folder_by_name":         "a folder's id: derived, so all of what it is made of must be the caller's to see",
	"letta.list_agents_for_folder":     "ids of agents: derived, so all of what it is made of must be the caller's to see",
	"letta.count_groups":               "a number: derived, so all of what it is made of must be the caller's to see",
	"letta.count_identities":           "a number: derived, so all of what it is made of must be the caller's to see",
	"letta.count_sources":              "a number: derived, so all of what it is made of must be the caller's to see",
	"letta.get_sources_metadata":       "sizes and numbers of files: derived, so all of what it is made of must be the caller's to see",
	"letta.get_source_id_by_name":      "a folder's id: derived, so all of what it is made of must be the caller's to see",
	"letta.get_agents_for_source":      "ids of agents: derived, so all of what it is made of must be the caller's to see",
	"letta.list_tags":                  "the tags that agents are sorted by: derived, so all of what it is made of must be the caller's to see",
	"letta.count_tools":                "a number: derived, so all of what it is made of must be the caller's to see",
	"letta.retrieve_metrics_for_run":   "numbers of a run or a step, which is a target and must be the caller's to see",
	"letta.retrieve_usage_for_run":     "numbers of a run or a step, which is a target and must be the caller's to see",
	"letta.retrieve_metrics_for_step":  "numbers of a run or a step, which is a target and must be the caller's to see",
	"letta.check_health":               "public: a probe",
	"letta.check_readiness":            "public: a probe",
	"letta.root":                       "public: a page of the server's own",
	"letta.docs":                       "public: documentation",
	"letta.redoc":                      "public: documentation",
	"letta.openapi":                    "public: documentation",
	"letta.favicon":                    "public: a picture",
	"letta.assets":                     "public: files of the server's own page",
}

// Proves EDGE-13: every passing row has a reason here, and no other row has.
func TestEveryPassingRowSaysWhy(t *testing.T) {
	a := must.Get(New(Options{}))(t)
	adaptertest.Passing(t, a, passing)
	for at, rt := range a.Table() {
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
	for i := range table {
		r := &table[i]
		for _, word := range []string{"provider", "/mcp", "/admin/", "sandbox", "/auth", "oauth", "anthropic", "/zai/", "token", "/metadata/{rest", "/generate-", "/tools/run"} {
			if !strings.Contains(r.path, word) || r.shape == gateway {
				continue
			}
			running := strings.HasSuffix(r.path, "/run") || strings.HasSuffix(r.path, "/execute")
			shows := r.id != "letta.cloud.agent_mcp_servers" // no member of its answer is claimed
			if r.kind != memproxy.Admin && !(running && r.kind == memproxy.Run) && shows {
				t.Errorf("%s is %s", r.id, r.kind)
			}
		}
	}
}

// Proves EDGE-13: secrets in an agent's state are removed, other members stay, and an
// answer without secrets is unchanged.
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
