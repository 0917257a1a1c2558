package letta_test

import (
	"os"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/answers/answerstest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-13, CARD-1: every row's answer is claimed member by member, at every
// level; no other member passes.
func TestAnswersAreClaimed(t *testing.T) {
	a := adapter(t)
	answerstest.Table(t, a, string(must.Get(os.ReadFile("answers.txt"))(t)), string(must.Get(os.ReadFile("answers_more.txt"))(t)))
}

// Proves EDGE-13: only answers that are derived from the caller's own data, or are for
// administrators, may have any member.
func TestAnswersOfAnythingAreDerivedOrAdministration(t *testing.T) {
	a := adapter(t)
	unclaimed := func(rt memproxy.Route) bool { // whether members that no line has pass
		p, err := a.Table.Prune(rt, memproxy.Reply{Status: 200, Body: []byte(`[[{"x1":[{"x2":1}]}]]`)})
		return err == nil && p.Unclaimed == 0
	}
	open := 0
	for _, rt := range a.Routes() {
		of, _ := strings.CutPrefix(rt.ID, "letta.")
		switch {
		case !a.Structured(rt) || !unclaimed(rt):
		case rt.Kind == memproxy.Admin || rt.Derived || rt.Pass:
			open++
		case of == "execute_mcp_tool": // the answer of an MCP server, to the caller who asked it
		case of == "create_voice_chat_completions", of == "anthropic_messages_proxy", of == "zai_messages_proxy": // an agent's reply, in another provider's format
		default:
			t.Errorf("%s may answer with anything", rt.ID)
		}
	}
	if open == 0 {
		t.Error("no such row was looked at")
	}
}

// Proves EDGE-13, TRL-10: answers that the server's OpenAPI document does not describe.
func TestAnswersOfTheServer(t *testing.T) {
	a := adapter(t)
	for _, tc := range []struct {
		route  string
		status int
		body   string
	}{
		{"letta.delete_agent", 200, `{"message":"Agent id=agent-1 successfully deleted"}`},
		{"letta.delete_block", 200, `null`},
		{"letta.capture_messages", 200, `{"success":true,"messages_created":2,"run_ids":["run-1"]}`},
		{"letta.cancel_message", 200, `{"run-1":"cancelled"}`},
		{"letta.send_message", 409, `{"detail":{"code":"PENDING_APPROVAL","message":"Cannot send a new message: The agent is waiting for approval on a tool call. Please approve or deny the pending request before continuing.","pending_request_id":"message-1"}}`},
		{"letta.send_message", 429, `{"error":{"type":"llm_rate_limit","message":"Rate limit exceeded for LLM model provider. Please wait before making another request.","detail":null}}`},
		{"letta.retrieve_agent", 404, `{"detail":"Agent not found"}`},
		{"letta.create_agent", 500, `{"detail":"Export failed: Agent not found"}`},
		{"letta.create_tool", 400, `{"detail":"Failed to derive json schema: Schema generation failed: No function definition found in source code"}`},
		{"letta.create_block", 422, `{"trace_id":"","detail":"body.label: Field required","examples":["x"]}`},
	} {
		got, err := a.Prune(memproxy.Route{ID: tc.route}, memproxy.Reply{Status: tc.status, Body: []byte(tc.body)})
		if err != nil || got.Unclaimed != 0 || string(got.Body) != tc.body {
			t.Errorf("%s %d: %q left out of %s: %v", tc.route, tc.status, got.Names, tc.body, err)
		}
	}
	for _, event := range []string{
		`data: {"message_type":"ping","id":"ping-1","date":"d","run_id":"run-1","seq_id":3}`,
		`data: {"message_type":"stop_reason","stop_reason":"cancelled"}`,
		`data: {"message_type":"usage_statistics","total_tokens":1,"seq_id":9,"run_id":"run-1"}`,
		"event: error\ndata: {\"error\":\"A database error occurred.\",\"code\":\"INTERNAL_SERVER_ERROR\"}",
		"event: cancelled\ndata: {\"message\":\"Run was cancelled\"}",
		`data: {"message_type":"error_message","run_id":"run-1","error_type":"llm_error","message":"An error occurred with the LLM request.","detail":"LLM returned an empty response.","seq_id":1}`,
		`data: [DONE]`, `: keep-alive`,
	} {
		event += "\n\n"
		if got := a.PruneEvent(memproxy.Route{ID: "letta.send_message"}, []byte(event)); got.Unclaimed != 0 || string(got.Body) != event {
			t.Errorf("%q becomes %q", event, got.Body)
		}
	}
	for event, want := range map[string]string{
		`data: {"message_type":"memory_dump","content":"canary"}`:                    "",
		`data: {"message_type":"assistant_message","content":"a","canary":"canary"}`: "data: {\"message_type\":\"assistant_message\",\"content\":\"a\"}\n\n",
	} {
		expect.Equal(t, string(a.PruneEvent(memproxy.Route{ID: "letta.send_message"}, []byte(event+"\n\n")).Body), want, event, "becomes")
	}
}
