package letta_test

import (
	_ "embed"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

const harmlessText = `content text value input prompt summary description system instructions query source_code label reason reasoning`

// harmless are the members of requests that name no owned object, by the reason. A
// value in the form of an id must belong to the caller's tenant in all of them, unless
// the member holds text.
var harmless = map[string]string{
	"ids, which are known by their form": `actor_id agent_id agent_ids approval_request_id archive_id base_template_id batch_item_id block_ids conversation_id
		created_by_id deployment_id entity_id files_agents folder_ids group_id group_ids id identity_ids in_context_message_ids last_updated_by_id message_ids
		organization_id otid project_id run_id run_ids sender_id shared_block_ids source_id source_ids starting_after template_id tool_call_id tool_ids`,
	"an owner's name, which is a claim":                     `identifier_key user`,
	"text that may say anything":                            harmlessText,
	"what a new object is called, or is called from now on": `name handle key metadata metadata_ tags override_name project template_name file_name file_path original_file_name server_name`,
	"names within the object of the path":                   `assistant_message_tool_kwarg assistant_message_tool_name isolated_block_labels tool_name tool_rules memory_variables`,
	"objects in the payload, each of whose members is looked at": `approvals chunks_embedded client_skills client_tools config files initial_message_sequence manager_config memory_blocks messages
		passages properties requests skills spec tool_calls tool_returns args args_json_schema json_schema response_format response_schema`,
	"settings of the installation, which are administration": `access_key api_key api_version auth_header auth_token base_url command custom_headers embedding_config env env_vars env_vars_json
		llm_config npm_requirements pip_requirements privileged_tools provider_type region secrets server_url source_url stdio_config token tool_exec_environment_variables`,
	"models of the installation": `embedding model model_settings override_embedding_handle override_model override_model_handle`,
	"a content's own form, or a choice among few": `agent_type collection file file_type identity_type include_return_message_types last_stop_reason message_type processing_status role roles
		scope search_mode source_type starter_code code tag_match_mode timezone tool_type tool_types type validation_errors error_message denial_reason feedback stop system_prompt override_system`,
	"where the server calls back, which is refused or governed as a URL": `callback_url`,
	"times": `created_at end_date file_creation_date file_last_modified_date last_message_at last_run_completion start_date`,
	"numbers and switches": `add_default_initial_messages append_copy_suffix approve background batch_size compaction_settings context_window_limit default_requires_approval
		embedding_chunk_size enable_parallel_execution enable_reasoner enable_sleeptime enable_thinking file_size frequency_penalty hidden include_base_tool_rules
		include_base_tools include_compaction_messages include_default_source include_multi_agent_tools include_pings is_template last_run_duration_ms legacy_spec limit
		max_files_open max_reasoning_tokens max_steps max_tokens message_buffer_autoclear n override_existing_tools parallel_tool_calls per_file_view_window_char_limit
		poll_interval presence_penalty preserve_on_migration read_only requires_approval return_logprobs return_token_ids return_char_limit scrub_messages stream stream_tokens streaming
		strip_messages temperature template top_logprobs top_p total_chunks use_assistant_message`,
}

// lookedUp are the members whose names the server looks up, with the kind of object.
var lookedUp = map[string]string{"tools": "tool", "from_template": "template"}

//go:embed bodies.txt
var bodyTable string

// bodyMembers returns the members in the server's document by row, and those of nested
// objects under "".
func bodyMembers() map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(bodyTable) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.HasPrefix(name, "@"):
			name = ""
		case !strings.HasPrefix(name, "letta."):
			continue
		}
		for m := range strings.FieldsSeq(rest) {
			if m != "|" {
				out[name] = append(out[name], m)
			}
		}
	}
	return out
}

// Proves EDGE-3: every member in the server's document is classified as an id, as a
// name that is looked up, or as naming no owned object, with the reason.
func TestEveryMemberThatNamesIsKnown(t *testing.T) {
	said := map[string]string{}
	for why, members := range harmless {
		for m := range strings.FieldsSeq(members) {
			expect.Equal(t, said[m], "", m, "is repeated", why)
			expect.Equal(t, lookedUp[m], "", m, "is repeated", why)
			said[m] = why
		}
	}
	known := map[string]bool{}
	for row, members := range bodyMembers() {
		for _, m := range members {
			if known[m] = true; said[m] == "" && lookedUp[m] == "" {
				t.Errorf("%s: nothing says what %s names", row, m)
			}
		}
	}
	for _, m := range slices.Sorted(maps.Keys(said)) {
		if !known[m] {
			t.Errorf("%s (%s) is no member of any request", m, said[m])
		}
	}
}

// Proves EDGE-3: an id in any member of any payload, alone, in a list or in an object,
// must belong to the caller's tenant, unless the member holds text; so must a name that
// the server looks up.
func TestIDsInEveryMemberAreReferences(t *testing.T) {
	a := adapter(t)
	const theirs = "agent-0badcafe-1111-4111-8111-111111111111"
	members := bodyMembers()
	tried := 0
	freeText := strings.Fields(harmlessText)
	for _, r := range a.Rows {
		if r.Pass || !hasJSON(&r) && !hasForm(&r) || r.Method == "GET" || r.Method == "DELETE" {
			continue
		}
		for _, m := range append([]string{"nobody_knows_it"}, members[r.ID]...) {
			for _, value := range []string{`"` + theirs + `"`, `["x","` + theirs + `"]`, `{"a":[{"b":"` + theirs + `"}]}`} {
				body, _ := bodyOf(r, m, value)
				method := r.Method
				if method == "*" {
					method = "POST"
				}
				op, err := a.Decode(memproxy.Route{ID: r.ID, Kind: r.Kind, Params: map[string]string{}}, memproxy.Request{Method: method, Header: memproxy.Header{"Content-Type": {"application/json"}}}, []byte(body))
				if err != nil || slices.Contains(freeText, m) && !strings.Contains(value, "{") {
					continue // refused, or text
				}
				tried++
				if !slices.ContainsFunc(op.Refs, func(ref memproxy.Ref) bool { return ref.ID == theirs }) {
					t.Errorf("%s: nobody looks whose %s is in %s", r.ID, theirs, body)
				}
			}
			if what := lookedUp[m]; what != "" {
				body, _ := bodyOf(r, m, `"somebodys"`)
				op, err := a.Decode(memproxy.Route{ID: r.ID, Kind: r.Kind, Params: map[string]string{}}, memproxy.Request{Method: "POST"}, []byte(body))
				if err == nil && !slices.ContainsFunc(op.Refs, func(ref memproxy.Ref) bool { return ref.ID == what+":somebodys" && ref.Kind == "name" }) {
					t.Errorf("%s: nobody looks whose the %s in %s is", r.ID, what, body)
				}
			}
		}
	}
	if tried < 1000 {
		t.Errorf("%d payloads were tried", tried)
	}
	op, err := a.Decode(memproxy.Route{ID: "letta.create_agent", Kind: memproxy.Learn}, memproxy.Request{Method: "POST"}, []byte(`{"name":"a","tools":["web_search","memory_insert"]}`))
	if err != nil || len(op.Refs) != 0 {
		t.Errorf("tools of every server are somebody's: %+v %v", op.Refs, err)
	}
}
