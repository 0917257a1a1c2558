package turn_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// ruled returns an agent with a tool that writes memory, one that does not, and rules.
func ruled(rules string) string {
	return `{"id":"agent-1","agent_type":"letta_v1_agent","tools":[
	{"name":"memory_insert","tool_type":"letta_sleeptime_core"},{"name":"mail","tool_type":"custom","source_code":"def mail(to: str):\n  pass"}],"tool_rules":[` + rules + `]}`
}

func called(name, id string) string {
	return `{"messages":[{"id":"m-1","message_type":"approval_request_message","tool_calls":[{"name":"` + name +
		`","arguments":"{\"label\":\"human\",\"new_string\":\"x\"}","tool_call_id":"` + id + `"}]}],"stop_reason":{"stop_reason":"requires_approval"},"usage":{"step_count":1}}`
}

// call ends a request in a call, answers it, and returns the agent's result.
func call(tb testing.TB, t *turn.Turn, name, id string) string {
	tb.Helper()
	must.Do(tb, t.ReadAnswer([]byte(called(name, id))))
	if !t.Paused() {
		return "handed on"
	}
	for _, c := range t.PendingCalls() {
		t.Rule(c.ID, memproxy.Decision{ID: "d-1", Verdict: memproxy.Allow})
	}
	body := request(tb.(*testing.T), t)
	switch {
	case strings.Contains(body, `"approve":true,"reason"`):
		return "ran"
	case strings.Contains(body, "[ToolConstraintError] Cannot call "+name) && strings.Contains(body, `. (memproxy)"`):
		return "violates"
	}
	return body
}

// Proves EDGE-16: an agent's tool rules apply across the pauses that memproxy makes, to
// its memory tools and to the others, as they do without it.
func TestToolRulesBindOverPauses(t *testing.T) {
	for _, tc := range []struct{ name, rules, calls, want string }{
		{"none", ``, "memory_insert memory_insert memory_insert", "ran ran ran"},
		// The server counts each call twice, and so reaches two with one.
		{"max_count", `{"type":"max_count_per_step","tool_name":"memory_insert","max_count_limit":1}`, "memory_insert memory_insert mail memory_insert", "ran violates ran violates"},
		{"max_count of three", `{"type":"max_count_per_step","tool_name":"memory_insert","max_count_limit":3}`, "memory_insert memory_insert memory_insert", "ran ran violates"},
		{"max_count, and calls of others", `{"type":"max_count_per_step","tool_name":"memory_insert","max_count_limit":3}`, "mail memory_insert memory_insert", "ran ran ran"},
		{"max_count of another tool", `{"type":"max_count_per_step","tool_name":"mail","max_count_limit":1}`, "mail memory_insert mail", "ran ran violates"},
		{"run_first", `{"type":"run_first","tool_name":"mail"}`, "memory_insert mail memory_insert", "violates ran ran"},
		{"child", `{"type":"constrain_child_tools","tool_name":"memory_insert","children":["mail"]}`, "memory_insert memory_insert mail memory_insert", "ran violates ran ran"},
		{"parent", `{"type":"parent_last_tool","tool_name":"mail","children":["memory_insert"]}`, "memory_insert mail memory_insert", "violates ran ran"},
		{"conditional", `{"type":"conditional","tool_name":"mail","child_output_mapping":{"yes":"memory_insert"},"require_output_mapping":true,"default_child":null}`, "memory_insert mail", "ran ran"},
		{"required", `{"type":"required_before_exit","tool_name":"memory_insert"}`, "mail memory_insert mail", "ran ran ran"},
	} {
		turn := newTurn(t, `{"input":"hi"}`, ruled(tc.rules))
		request(t, turn)
		var got []string
		for i, name := range strings.Fields(tc.calls) {
			got = append(got, call(t, turn, name, string(rune('a'+i))))
		}
		if s := strings.Join(got, " "); s != tc.want {
			if tc.rules == "" { // the gate does not handle the other tool then
				s = strings.ReplaceAll(s, "handed on", "ran")
			}
			expect.Equal(t, s, tc.want, tc.name, tc.calls, "came to")
		}
	}
}

// Other tools are shadowed only if a rule depends on earlier calls.
func TestOnlyRulesThatLookBackShadowOtherTools(t *testing.T) {
	for rules, want := range map[string]bool{
		``: false,
		`{"type":"exit_loop","tool_name":"mail"},{"type":"continue_loop","tool_name":"mail"},{"type":"requires_approval","tool_name":"mail"}`: false,
		`{"type":"max_count_per_step","tool_name":"mail","max_count_limit":1}`:                                                                true,
	} {
		expect.Equal(t, strings.Contains(request(t, newTurn(t, `{"input":"hi"}`, ruled(rules))), `"mail"`), want, rules, "mail is shadowed")
	}
}

// Proves EDGE-16: the request ends where the server would count a required call from
// before a pause as missing, or would continue after a call that ends the turn.
func TestUpstreamRequestsEndByRules(t *testing.T) {
	required := `{"type":"required_before_exit","tool_name":"memory_insert"}`
	exit := `{"type":"exit_loop","tool_name":"mail"}`
	for _, tc := range []struct{ name, rules, calls, want string }{
		{"nothing is required", exit, "memory_insert", ""},
		{"the required call is to come", required, "mail", ""},
		{"the required call runs", required, "memory_insert", `"max_steps":2`},
		{"the required call ran", required, "memory_insert mail", `"max_steps":2`},
		{"the last call ends the turn", required + "," + exit, "memory_insert mail", `"max_steps":1`},
		{"it ends the turn too early", required + "," + exit, "mail", ""},
	} {
		turn := newTurn(t, `{"input":"hi"}`, ruled(tc.rules))
		request(t, turn)
		body := ""
		for i, name := range strings.Fields(tc.calls) {
			must.Do(t, turn.ReadAnswer([]byte(called(name, string(rune('a'+i))))))
			for _, c := range turn.PendingCalls() {
				turn.Rule(c.ID, memproxy.Decision{ID: "d-1"})
			}
			body = request(t, turn)
		}
		if got := body[max(0, strings.Index(body, `"max_steps"`)):]; tc.want == "" && strings.Contains(body, "max_steps") || tc.want != "" && !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %s, want %q", tc.name, got, tc.want)
		}
		if tc.want == `"max_steps":2` {
			reminded := `{"messages":[{"message_type":"assistant_message","content":"done"},{"message_type":"user_message","content":"{\"reason\":\"ToolRuleViolated: You must call memory_insert at least once\"}"}],"stop_reason":{"message_type":"stop_reason","stop_reason":"max_steps"}}`
			must.Do(t, turn.ReadAnswer([]byte(reminded)))
			expect.Text(t, string(turn.Answer()), tc.name).Has(`"stop_reason":"end_turn"`).Lacks("ToolRuleViolated").Has("done")
		}
		if tc.want == `"max_steps":1` {
			must.Do(t, turn.ReadAnswer([]byte(`{"messages":[],"stop_reason":{"message_type":"stop_reason","stop_reason":"max_steps"}}`)))
			expect.Text(t, string(turn.Answer()), tc.name).Has(`"stop_reason":"tool_rule"`)
		}
	}
}

// Proves EDGE-16, EDGE-1: a call that a person must approve is the caller's; its
// approval is ruled on before the server gets it, and can be denied.
func TestAPersonsApprovalStaysThePersons(t *testing.T) {
	rule := `{"type":"requires_approval","tool_name":"memory_insert"}`
	turn := newTurn(t, `{"input":"hi"}`, ruled(rule))
	expect.Text(t, request(t, turn), "the tool is not shadowed, and would run once the rule is gone").Has(`"name":"memory_insert"`)
	must.Do(t, turn.ReadAnswer([]byte(called("memory_insert", "c-1"))))
	if handed(t, turn, memproxy.Allow); turn.Paused() || len(turn.PendingCalls()) != 0 {
		t.Error("memproxy answers in the person's place")
	}
	expect.Text(t, string(turn.Answer()), "the caller is not asked").Has("approval_request_message", `"requires_approval"`)
	waits := strings.Replace(ruled(rule), "{", `{"pending_approval":{"id":"m-1","tool_calls":[{"name":"memory_insert","arguments":"{\"label\":\"human\",\"new_string\":\"x\"}","tool_call_id":"c-1"}]},`, 1)
	// Without an answer nothing waits, and the server asks the caller.
	turn = newTurn(t, `{"input":"hi"}`, waits)
	if handed(t, turn, memproxy.Allow); turn.Paused() {
		t.Error("a message of the caller's answers for the person")
	}
	for verdict, want := range map[memproxy.Verdict]string{memproxy.Allow: `"approve":true`, memproxy.Deny: `"approve":false`} {
		turn := newTurn(t, `{"messages":[{"type":"approval","approvals":[{"type":"approval","tool_call_id":"c-1","approve":true}]}]}`, waits)
		must.Len(t, turn.PendingCalls(), 1)
		turn.Rule("c-1", memproxy.Decision{ID: "d-1", Verdict: verdict})
		expect.Text(t, request(t, turn), verdict).Has(want)
	}
}

// Proves EDGE-16: the tool that the server runs decides, not its name.
func TestTheTypeOfAToolDecides(t *testing.T) {
	for _, tc := range []struct {
		tool string
		want string
	}{
		{`{"name":"memory_insert","tool_type":"letta_sleeptime_core"}`, "gated"},
		{`{"name":"memory_insert"}`, "gated"},
		{`{"name":"memory_insert","tool_type":"custom","source_code":"def memory_insert(label: str): pass"}`, "harmless"},
		{`{"name":"memory_insert","tool_type":"custom","source_code":"def memory_insert(agent_state, label: str): pass"}`, "unpredictable"},
		{`{"name":"notes","tool_type":"custom","source_code":"def notes(agent_state: \"AgentState\"): pass"}`, "unpredictable"},
		{`{"name":"notes","tool_type":"custom","source_code":"def notes(ａｇent_state): pass"}`, "unpredictable"},
		{`{"name":"notes","tool_type":"custom","source_type":"typescript","source_code":"function notes(agent_state) {}"}`, "harmless"},
		{`{"name":"notes","tool_type":"yet to come","source_code":"def notes(agent_state): pass"}`, "unpredictable"},
		{`{"name":"notes","tool_type":"yet to come","source_code":"def notes(label: str): pass"}`, "unpredictable"},
		{`{"name":"notes","tool_type":"custom"}`, "unpredictable"},
		{`{"name":"notes","tool_type":"custom","source_code":null}`, "unpredictable"},
		{`{"name":"notes","tool_type":"custom","source_code":" \n"}`, "unpredictable"},
		{`{"name":"notes","tool_type":"custom","source_code":["def notes(agent_state): pass"]}`, "unpredictable"},
		{`{"name":"notes","tool_type":"custom","source_type":"typescript"}`, "unpredictable"},
		{`{"name":"notes"}`, "unpredictable"},
		{`{"name":"notes","source_code":"def notes(label: str): pass"}`, "harmless"},
		{`{"name":"memory_append_all","tool_type":"letta_memory_core"}`, "unpredictable"},
		{`{"name":"memory_finish_edits","tool_type":"letta_sleeptime_core"}`, "harmless"},
		{`{"name":"send_message","tool_type":"letta_core"}`, "harmless"},
		{`{"name":"run_code_with_tools","tool_type":"letta_builtin"}`, "unpredictable"},
		{`{"name":"run_code","tool_type":"letta_builtin"}`, "harmless"},
		{`{"name":"memory_insert","tool_type":"external_mcp"}`, "harmless"},
		{`{"name":"archival_memory_search","tool_type":"letta_core"}`, "gated"},
	} {
		const body = `{"input":"hi"}`
		turn := newTurnIn(t, "", body)
		err := turn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(`{"agent_type":"letta_v1_agent","tools":[` + tc.tool + `]}`)})
		got := "harmless"
		switch {
		case errors.Is(err, memproxy.ErrUngated):
			got = "unpredictable"
		case err != nil:
			t.Fatal(err)
		case request(t, turn) != body: // it names the tool
			got = "gated"
		}
		expect.Equal(t, got, tc.want, tc.tool)
	}
}

// A run is ungated if its rules replace arguments or are of another version: these
// cannot be carried over a pause.
func TestRulesBeyondAPauseAreUngated(t *testing.T) {
	for rule, want := range map[string]bool{
		`{"type":"run_first","tool_name":"memory_insert","args":{"new_string":"x"}}`:                                                                   true,
		`{"type":"run_first","tool_name":"memory_insert","args":null}`:                                                                                 false,
		`{"type":"constrain_child_tools","tool_name":"mail","children":["memory_insert"],"child_arg_nodes":[{"name":"memory_insert","args":{"a":1}}]}`: true,
		`{"type":"of another version","tool_name":"mail"}`:                                                                                             true,
	} {
		turn := newTurnIn(t, "", `{"input":"hi"}`)
		if err := turn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(ruled(rule))}); errors.Is(err, memproxy.ErrUngated) != want {
			t.Errorf("%s: %v, want it ungated: %v", rule, err, want)
		}
	}
}

// Proves EDGE-16, SYN-1: a call is ruled on by the resulting text of the block, and by its
// length; calls of one pause build on each other.
func TestCallsAreRuledOnAsTheBlocksWillRead(t *testing.T) {
	turn := newTurn(t, `{"input":"hi"}`, ruled(``))
	request(t, turn)
	must.Do(t, turn.ReadAnswer([]byte(strings.Replace(called("memory_insert", "c-1"), `}]}],"`, `},{"name":"memory_insert","arguments":"{\"label\":\"human\",\"new_string\":\"y\",\"insert_line\":0}","tool_call_id":"c-2"}]}],"`, 1))))
	q, more := turn.NextSideRequest()
	if !more || q.EscapedPath != "/v1/agents/agent-1" || q.Query != "include=agent.blocks" {
		t.Fatalf("%+v %v", q, more)
	}
	expect.Error(t, turn.ReadSideReply(memproxy.Reply{Status: 503}), "calls are ruled on although nobody knows what they write to")
	must.Do(t, turn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(`{"blocks":[{"label":"human","value":"a\tb","description":null,"read_only":false}]}`)}))
	var got []string
	for _, c := range turn.PendingCalls() {
		size := 0
		for i := range c.Operation.Items {
			size += c.Operation.Items[i].Characters()
		}
		got = append(got, fmt.Sprint(said(c.Operation), " ", size))
	}
	expect.List(t, got, []string{`learn human="x"; human="" 11`, `learn human="y"; human="" 13`})
}

// Proves EDGE-5, EDGE-16: a call in a conversation changes the conversation's own
// block: that block's author counts, and the call is not made directly, which would
// change the agent's block.
func TestBlocksOfAConversationsOwn(t *testing.T) {
	for _, tc := range []struct{ arguments, target, text, flaw string }{
		{`{"label":"human","old_string":"Ann","new_string":"Eve"}`, "block-9", "Eve B.", ""},
		{`{"label":"persona","old_string":"a","new_string":"x"}`, "agent-1/persona", "x", ""},
		{`{"label":"human","old_string":"Ann","new_string":"Eve","memproxy_trust":"system"}`, "", "", "/memproxy_trust"},
	} {
		turn := newTurnIn(t, "conv-1", `{"input":"hi"}`)
		for _, side := range [][2]string{
			{"agents/agent-1", `{"agent_type":"letta_v1_agent","tools":[{"name":"memory_replace"}]}`},
			{"conversations/conv-1/messages", fmt.Sprintf(`[{"id":"m-1","message_type":"approval_request_message","tool_calls":[{"name":"memory_replace","arguments":%q,"tool_call_id":"c-1"}]}]`, tc.arguments)},
			{"agents/agent-1", `{"blocks":[{"label":"human","value":"a"},{"label":"persona","value":"a"}]}`},
			{"conversations/conv-1", `{"isolated_block_ids":["block-9"]}`},
			{"blocks/block-9", `{"label":"human","value":"Ann B."}`},
		} {
			q, _ := turn.NextSideRequest()
			must.Equal(t, q.EscapedPath, "/v1/"+side[0], tc.arguments)
			must.Do(t, turn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(side[1])}))
		}
		if q, more := turn.NextSideRequest(); more {
			t.Errorf("%s: also asks for %s", tc.arguments, q.EscapedPath)
		}
		c := turn.PendingCalls()[0]
		switch {
		case tc.flaw != "":
			if c.Flaw == nil || c.Flaw.Pointer != tc.flaw {
				t.Errorf("%s: %+v", tc.arguments, c.Flaw)
			}
		case c.Flaw != nil || (c.Direct == nil) != (tc.target == "block-9") ||
			!slices.ContainsFunc(c.Operation.Items, func(it memproxy.Item) bool { return it.Target == tc.target && it.Text == tc.text }):
			t.Errorf("%s: %+v %+v %v", tc.arguments, c.Flaw, c.Operation, c.Direct)
		}
	}
}
