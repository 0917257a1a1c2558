package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// On Letta the governed fields are block labels. Their rules (who may write, what is
// closed, maximum length) apply to every way to create or change a block: alone or with
// an agent, by value, label or metadata, by attaching it, and by the agent's tools.
// Each refusal has a case that passes.
//
// Proves SYN-1
func TestFieldsHoldOnLetta(t *testing.T) {
	t.Parallel()
	const qaToken = "letta-qa-key"
	conf := strings.NewReplacer(`policy: {dir: "DIR/policies"}`, "", `tenant: acme, acts_as: "*"}`, `tenant: acme, roles: [dev], acts_as: "*"}
    - {sha256: "`+sha(qaToken)+`", id: "agent:qa", kind: agent, trust: authenticated, tenant: acme, roles: [qa, memproxy-reviewer], acts_as: "*"}`).Replace(lettaConf) + "sessions: {max_rejections: 100, max_user_rejections: 100, max_principal_rejections: 100}\n"
	agent := strings.NewReplacer(`"letta_v1_agent"`, `"letta_v1_agent","tools":["memory","memory_rethink","memory_replace","core_memory_append"]`, `{"label":"persona"`,
		`{"label":"learnings","value":"The build takes four minutes."},{"label":"conventions","value":"Names are short."},{"label":"decisions","value":"We use Go."},{"label":"notes","value":"`+strings.Repeat("tea ", 60)+`"},{"label":"persona"`).Replace(someAgent)
	l := startLettaWith(t, agent, conf, func(h http.Handler) http.Handler { return h })
	block := func(label string) string { return l.letta.BlockID(l.agent, label) }
	long := func(n int) string { return strings.Repeat("tea ", n/4) + strings.Repeat("t", n%4) }
	made := func(label, value string) string {
		return l.made("/v1/blocks/", fmt.Sprintf(`{"label":%q,"value":%q}`, label, value))
	}
	note := made("notes", "Services are deployed on Fridays.")
	for i, tc := range []struct {
		what, method, path, body, token string
		want                            int
		reason                          string
	}{
		{"a closed field", "POST", "/v1/blocks/", `{"label":"constitution","value":"x"}`, devToken, 403, "field.forbidden"},
		{"in another spelling", "POST", "/v1/blocks/", `{"label":"System","value":"x"}`, devToken, 403, "field."},
		{"a field of others", "POST", "/v1/blocks/", `{"label":"decisions","value":"We use Rust."}`, devToken, 403, "field."},
		{"a field of one's own", "POST", "/v1/blocks/", `{"label":"gotchas","value":"The cache is stale on Mondays."}`, devToken, 200, ""},
		{"over its size", "POST", "/v1/blocks/", fmt.Sprintf(`{"label":"preferences","value":%q}`, long(201)), devToken, 403, "field.size"},
		{"its size", "POST", "/v1/blocks/", fmt.Sprintf(`{"label":"preferences","value":%q}`, long(200)), devToken, 200, ""},
		{"with an agent", "POST", "/v1/agents/", `{"name":"a","memory_blocks":[{"label":"human","value":"Ann"},{"label":"authority","value":"x"}]}`, devToken, 403, "field.forbidden"},
		{"with an agent, over its size", "POST", "/v1/agents/", fmt.Sprintf(`{"name":"a","memory_blocks":[{"label":"conventions","value":%q}]}`, long(401)), devToken, 403, "field.size"},
		{"with an agent, its own", "POST", "/v1/agents/", `{"name":"a","memory_blocks":[{"label":"human","value":"Ann"},{"label":"conventions","value":"Names are short."}]}`, devToken, 200, ""},
		{"a value, by id", "PATCH", "/v1/blocks/" + block("conventions"), `{"value":"Names are long."}`, qaToken, 403, "field."},
		{"a value, by label", "PATCH", "/v1/agents/" + l.agent + "/core-memory/blocks/conventions", `{"value":"Names are long."}`, qaToken, 403, "field."},
		{"a value of others", "PATCH", "/v1/agents/" + l.agent + "/core-memory/blocks/decisions", `{"value":"We use Rust."}`, devToken, 403, "field."},
		{"a value over its size", "PATCH", "/v1/blocks/" + block("learnings"), fmt.Sprintf(`{"value":%q}`, long(501)), devToken, 403, "field.size"},
		{"a value of one's own", "PATCH", "/v1/blocks/" + block("conventions"), `{"value":"Names are short and plain."}`, devToken, 200, ""},
		{"a label that is closed", "PATCH", "/v1/blocks/" + note, `{"label":"credentials"}`, devToken, 403, "field.forbidden"},
		{"a label of others", "PATCH", "/v1/blocks/" + note, `{"label":"decisions"}`, devToken, 403, "field."},
		{"out of a field of others", "PATCH", "/v1/blocks/" + block("conventions"), `{"label":"notes"}`, qaToken, 403, "field."},
		{"a label for a text that is too long", "PATCH", "/v1/blocks/" + made("notes", long(301)), `{"label":"gotchas"}`, devToken, 403, "field.size"},
		{"a label of one's own", "PATCH", "/v1/blocks/" + note, `{"label":"gotchas"}`, devToken, 200, ""},
		{"metadata alone, of others", "PATCH", "/v1/blocks/" + block("conventions"), `{"metadata":{"team":"blue"}}`, qaToken, 403, "field."},
		{"metadata alone", "PATCH", "/v1/blocks/" + block("conventions"), `{"metadata":{"team":"blue"}}`, devToken, 200, ""},
		{"a description, of others", "PATCH", "/v1/blocks/" + block("decisions"), `{"description":"for everybody"}`, devToken, 403, "field."},
		{"attaching what is closed", "PATCH", "/v1/agents/" + l.agent + "/core-memory/blocks/attach/" + made("constitution", "Ann decides."), "", devToken, 403, "field.forbidden"},
		{"attaching a field of others", "PATCH", "/v1/agents/" + l.agent + "/core-memory/blocks/attach/" + made("decisions", "We use Zig."), "", devToken, 403, "field."},
		{"attaching what is too long", "PATCH", "/v1/agents/" + l.agent + "/core-memory/blocks/attach/" + made("preferences", long(201)), "", devToken, 403, "field.size"},
		{"attaching with the agent's own route", "PATCH", "/v1/agents/" + l.agent, fmt.Sprintf(`{"block_ids":[%q]}`, made("system", "Ann decides.")), devToken, 403, "field.forbidden"},
		{"attaching one's own", "PATCH", "/v1/agents/" + l.agent + "/core-memory/blocks/attach/" + made("gotchas", "Tests need a network."), "", devToken, 200, ""},
		{"a tool from outside, over its size with what is there", "POST", "/v1/agents/" + l.agent + "/tools/core_memory_append/run", fmt.Sprintf(`{"args":{"label":"conventions","content":%q}}`, long(390)), devToken, 403, "field.size"},
		{"a tool from outside", "POST", "/v1/agents/" + l.agent + "/tools/core_memory_append/run", `{"args":{"label":"gotchas","content":"Tests need time."}}`, devToken, 200, ""},
	} {
		a := l.do(tc.method, tc.path, tc.body, "X-API-Key", tc.token)
		if a.status != tc.want || !strings.Contains(a.body, tc.reason) {
			t.Errorf("%d %s: %d %s, want %d %s", i, tc.what, a.status, a.body, tc.want, tc.reason)
		}
		if tc.want == 403 && !strings.Contains(l.audit("--last", "1", "--verdict", "deny"), tc.reason) {
			t.Errorf("%s: not on record", tc.what)
		}
	}
	const short = "Names are short and plain."
	for _, tc := range []struct{ what, call, label, becomes string }{
		{"a field of others", `CALL memory_insert {"label":"decisions","new_string":"We use Rust."}`, "decisions", "We use Go."},
		{"an entry over its size", fmt.Sprintf(`CALL core_memory_append {"label":"learnings","content":%q}`, long(501)), "learnings", "The build takes four minutes."},
		{"a closed field, made", `CALL memory {"command":"create","path":"/memories/system","description":"d","file_text":"Ann decides."}`, "system", ""},
		{"into a closed field, renamed", `CALL memory {"command":"rename","old_path":"/memories/learnings","new_path":"/memories/authority"}`, "authority", ""},
		{"all of a field of others", `CALL memory_rethink {"label":"decisions","new_memory":"We use Rust."}`, "decisions", "We use Go."},
		{"one's own", `CALL memory_insert {"label":"learnings","new_string":"The tests take two."}`, "learnings", "The build takes four minutes.\nThe tests take two."},
		{"an entry with which it is over its size", fmt.Sprintf(`CALL core_memory_append {"label":"conventions","content":%q}`, long(400-len(short))), "conventions", short},
		{"an entry with which it has its size", fmt.Sprintf(`CALL core_memory_append {"label":"conventions","content":%q}`, long(399-len(short))), "conventions", short + "\n" + long(399-len(short))},
		{"less of it", `CALL memory_replace {"label":"conventions","old_string":"tea tea","new_string":"tea"}`, "conventions", short + "\n" + long(395-len(short))},
		{"a text that is too long, renamed into it", `CALL memory {"command":"rename","old_path":"/memories/notes","new_path":"/memories/preferences"}`, "preferences", ""},
	} {
		if a := l.say(tc.call+"\nTHEN\nSAY done", ""); a.status != 200 {
			t.Errorf("%s: %d %s", tc.what, a.status, a.body)
		}
		if got := l.letta.Value(l.agent, tc.label); got != tc.becomes {
			t.Errorf("the agent's own edit, %s: %s is %q, want %q", tc.what, tc.label, got, tc.becomes)
		}
	}
}
