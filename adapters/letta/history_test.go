package letta_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// pauses has the adapter see a run of an agent with memory_insert pause for a call of it and
// for one of my_tool. The caller answers the one that is its own client tool.
func pauses(t testing.TB, a *letta.Adapter, own, message, call string) {
	rt, req := routed(t, a, "POST", "/v1/agents/agent-1/messages")
	run := must.Get(a.Turn(rt, req, []byte(`{"input":"hi","client_tools":[{"name":"`+own+`"}]}`)))(t)
	must.Do(t, run.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(`{"agent_type":"letta_v1_agent","tools":[{"name":"memory_insert"}]}`)}))
	run.Next()
	must.Do(t, run.ReadAnswer(fmt.Appendf(nil, `{"messages":[{"id":%q,"message_type":"approval_request_message","tool_calls":[{"name":"memory_insert","arguments":"{}","tool_call_id":%q},
		{"name":"my_tool","arguments":"{}","tool_call_id":"own"}]}],"stop_reason":{"stop_reason":"requires_approval"}}`, message, call)))
}

// Proves EDGE-1: history shows tool calls and not the gate's approvals; a person's
// approvals stay, and a page is never emptied.
func TestHistoryShowsNoApprovalsOfTheGate(t *testing.T) {
	const (
		asked    = `{"id":"message-1","message_type":"approval_request_message","tool_calls":[{"name":"memory_insert","arguments":"{}","tool_call_id":"c1"}]}`
		called   = `{"id":"message-1","message_type":"tool_call_message","tool_calls":[{"name":"memory_insert","arguments":"{}","tool_call_id":"c1"}]}`
		yes      = `{"id":"message-2","message_type":"approval_response_message","approvals":[{"type":"approval","tool_call_id":"c1","approve":true,"reason":"(memproxy decision d0)"}]}`
		person   = `{"id":"message-2","message_type":"approval_response_message","approvals":[{"type":"approval","tool_call_id":"c1","approve":true,"reason":"fine (memproxy held it before)"}]}`
		later    = `{"id":"message-8","date":"2026-01-01T00:00:09+00:00","message_type":"assistant_message","content":"done"}`
		no       = `{"id":"message-3","message_type":"approval_response_message","approvals":[{"type":"approval","tool_call_id":"c9","approve":false,"reason":"no (memproxy decision d1)"}]}`
		theirs   = `{"id":"message-4","message_type":"approval_request_message","tool_calls":[{"name":"my_tool","arguments":"{}","tool_call_id":"c2"}]}`
		theirYes = `{"id":"message-5","message_type":"approval_response_message","approvals":[{"type":"approval","tool_call_id":"c2","approve":true}]}`
		mixed    = `{"id":"message-6","message_type":"approval_request_message","tool_calls":[{"name":"memory_insert","tool_call_id":"c3"},{"name":"my_tool","tool_call_id":"c4"}]}`
		mixedOwn = `{"id":"message-6","message_type":"approval_request_message","tool_calls":[{"name":"my_tool","tool_call_id":"c4"}]}`
		mixedOur = `{"id":"message-6","message_type":"tool_call_message","tool_calls":[{"name":"memory_insert","tool_call_id":"c3"}]}`
		mixedYes = `{"id":"message-13","message_type":"approval_response_message","approve":true,"approval_request_id":"c3","reason":"(memproxy decision d3)","approvals":[{"type":"tool","tool_call_id":"c4","tool_return":"42"},{"type":"approval","tool_call_id":"c3","approve":true,"reason":"(memproxy decision d3)"}]}`
		ownYes   = `{"id":"message-13","message_type":"approval_response_message","approve":null,"approval_request_id":null,"reason":null,"approvals":[{"type":"tool","tool_call_id":"c4","tool_return":"42"}]}`
		looked   = `{"id":"message-9","message_type":"approval_request_message","tool_calls":[{"name":"conversation_search","arguments":"{}","tool_call_id":"c5"}]}`
		found    = `{"id":"message-10","message_type":"approval_response_message","approvals":[{"type":"tool","tool_call_id":"c5","tool_return":"[]"}]}`
		result   = `{"id":"message-11","name":null,"message_type":"tool_return_message","tool_call_id":"c5","tool_returns":[{"tool_call_id":"c5"}]}`
		own      = `{"id":"message-12","name":null,"message_type":"tool_return_message","tool_call_id":"c2","tool_returns":[{"tool_call_id":"c2"}]}`
		first    = `{"id":"message-14","date":"2026-01-01T00:00:01+00:00","message_type":"approval_request_message","tool_calls":[{"name":"memory_insert","tool_call_id":"c0"}]}`
		firstYes = `{"id":"message-15","message_type":"approval_response_message","approvals":[{"type":"approval","tool_call_id":"c0","approve":true,"reason":"(memproxy)"}]}`
		again    = `{"id":"message-16","date":"2026-01-01T00:00:02+00:00","message_type":"approval_request_message","tool_calls":[{"name":"my_tool","tool_call_id":"c0"}]}`
		againYes = `{"id":"message-17","message_type":"approval_response_message","approvals":[{"type":"tool","tool_call_id":"c0","tool_return":"42"}]}`
		shown    = `{"id":"message-18","message_type":"approval_request_message","tool_calls":[{"name":"memory_insert","tool_call_id":"c6"}]}`
		did      = `{"id":"message-19","message_type":"approval_response_message","approvals":[{"type":"tool","tool_call_id":"c6","tool_return":"I did it."}]}`
		said     = `{"id":"message-7","message_type":"assistant_message","content":"done"}`
	)
	firstCall := strings.Replace(first, "approval_request", "tool_call", 1)
	a := adapter(t)
	pauses(t, a, "memory_insert", "message-18", "c6")
	rt, req := routed(t, a, "GET", "/v1/agents/agent-1/messages")
	list := func(ms ...string) string { return "[" + strings.Join(ms, ",") + "]" }
	for name, tc := range map[string]struct{ stored, shown string }{
		"a turn":                  {list(said, yes, asked), list(said, called)},
		"a search":                {list(said, result, found, looked), list(said, strings.Replace(result, "null", `"conversation_search"`, 1), strings.Replace(looked, "approval_request", "tool_call", 1))},
		"in one second, upward":   {list(looked, result, said), list(strings.Replace(looked, "approval_request", "tool_call", 1), strings.Replace(result, "null", `"conversation_search"`, 1), said)},
		"a caller's result":       {list(said, own, theirYes, theirs), list(said, own, theirYes, theirs)},
		"a person's own result":   {list(said, did, shown), list(said, did, shown)},
		"a person's approval":     {list(said, person, asked), list(said, person, asked)},
		"nobody answered yet":     {list(asked), list(asked)},
		"a question beside older": {list(asked, `{"message_type":"user_message"}`, `{"message_type":"system_message","date":"2026-01-01T00:00:09+00:00"}`), list(asked, `{"message_type":"user_message"}`, `{"message_type":"system_message","date":"2026-01-01T00:00:09+00:00"}`)},
		"answered elsewhere":      {list(later, asked), list(later, called)},
		"a denial of elsewhere":   {list(said, no), list(said)},
		"the caller's own":        {list(said, theirYes, theirs), list(said, theirYes, theirs)},
		"a pause of both":         {list(said, mixed), list(said, mixedOwn, mixedOur)},
		"both are answered":       {list(mixedYes, mixed), list(ownYes, mixedOwn, mixedOur)},
		"an id used again":        {list(againYes, again, firstYes, first), list(againYes, again, firstCall)},
		"the same, oldest first":  {list(first, firstYes, again, againYes), list(firstCall, again, againYes)},
		"the first elsewhere":     {list(again, firstYes), list(again)},
		"nothing else":            {list(no), list(no)},
		"no pause, byte by byte":  {"[ " + said + " ]", "[ " + said + " ]"},
	} {
		reply := memproxy.Reply{Status: 200, Body: []byte(tc.stored)}
		rd := must.Get(a.Read(rt, req, reply))(t)
		expect.Equal(t, string(must.Get(a.Rewrite(rt, req, reply, rd))(t)), tc.shown, name)
	}
}

// Proves EDGE-1: while a run waits for a client tool of the caller, neither the history nor
// the agent shows the caller a call that memproxy answers. A call of a memory tool that the
// caller is asked about stays in the request, and so does a request without a client tool.
func TestWaitingCallsOfBoth(t *testing.T) {
	const (
		call = `{"name":"%s","arguments":"{}","tool_call_id":"%s"}`
		asks = `{"id":"message-1","message_type":"%s","date":"2026-01-01T00:00:01+00:00","tool_call":%s,"tool_calls":[%s]}`
	)
	memory, own := fmt.Sprintf(call, "memory_insert", "c1"), fmt.Sprintf(call, "my_tool", "c2")
	message := func(kind string, calls ...string) string {
		return fmt.Sprintf(asks, kind+"_message", calls[0], strings.Join(calls, ","))
	}
	both := message("approval_request", memory, own)
	said := `{"id":"message-0","message_type":"user_message","date":"2026-01-01T00:00:00+00:00","content":"x"}`
	for name, tc := range map[string]struct {
		path, query, stored, shown string
		asked                      bool
	}{
		"newest first":   {"/v1/agents/agent-1/messages", "", "[" + both + "," + said + "]", "[" + message("approval_request", own) + "," + message("tool_call", memory) + "," + said + "]", false},
		"oldest first":   {"/v1/conversations/conv-1/messages", "order=asc", "[" + said + "," + both + "]", "[" + said + "," + message("tool_call", memory) + "," + message("approval_request", own) + "]", false},
		"calls alone":    {"/v1/agents/agent-1/messages", "include_return_message_types=tool_call_message", "[" + both + "," + said + "]", "[" + message("tool_call", memory) + "]", false},
		"asked by a run": {"/v1/agents/agent-1/messages", "", "[" + both + "," + said + "]", "[" + both + "," + said + "]", true},
		"no client tool": {"/v1/agents/agent-1/messages", "", "[" + message("approval_request", memory) + "]", "[" + message("approval_request", memory) + "]", false},
		"an agent":       {"/v1/agents/agent-1", "", `{"id":"agent-1","pending_approval":` + both + `}`, `{"id":"agent-1","pending_approval":` + message("approval_request", own) + `}`, false},
		"agents":         {"/v1/agents/", "", `[{"id":"agent-1","pending_approval":` + both + `}]`, `[{"id":"agent-1","pending_approval":` + message("approval_request", own) + `}]`, false},
		"the other's":    {"/v1/agents/agent-1", "", `{"id":"agent-1","pending_approval":` + message("approval_request", own) + `}`, `{"id":"agent-1","pending_approval":` + message("approval_request", own) + `}`, false},
		"asked, agents":  {"/v1/agents/", "before=agent-9", `[{"id":"agent-1","pending_approval":` + both + `}]`, `[{"id":"agent-1","pending_approval":` + both + `}]`, true},
		"asked, earlier": {"/v1/agents/agent-1/messages", "before=message-9", "[" + both + "," + said + "]", "[" + both + "," + said + "]", true},
		"by a rule":      {"/v1/agents/agent-1", "", `{"id":"agent-1","tool_rules":[{"type":"requires_approval","tool_name":"memory_insert"}],"pending_approval":` + both + `}`, `{"id":"agent-1","tool_rules":[{"type":"requires_approval","tool_name":"memory_insert"}],"pending_approval":` + both + `}`, false},
		"another rule":   {"/v1/agents/agent-1", "", `{"id":"agent-1","tool_rules":[{"type":"run_first","tool_name":"memory_insert"}],"pending_approval":` + both + `}`, `{"id":"agent-1","tool_rules":[{"type":"run_first","tool_name":"memory_insert"}],"pending_approval":` + message("approval_request", own) + `}`, false},
		"refused by us":  {"/v1/agents/agent-1", "", `{"id":"agent-1","tool_rules":[{"type":"requires_approval","tool_name":"memory_insert"}],"pending_approval":` + both + `}`, `{"id":"agent-1","tool_rules":[{"type":"requires_approval","tool_name":"memory_insert"}],"pending_approval":` + message("approval_request", own) + `}`, false},
		"asked, agent":   {"/v1/agents/agent-1", "", `{"id":"agent-1","pending_approval":` + both + `}`, `{"id":"agent-1","pending_approval":` + both + `}`, true},
	} {
		a := adapter(t)
		if name == "refused by us" { // this process saw the pause and does not ask the caller
			pauses(t, a, "my_tool", "message-1", "c1")
		}
		if tc.asked {
			pauses(t, a, "memory_insert", "message-1", "c1")
		}
		rt, req := routed(t, a, "GET", tc.path)
		req.Query = tc.query
		reply := memproxy.Reply{Status: 200, Body: []byte(tc.stored)}
		expect.Equal(t, string(must.Get(a.Rewrite(rt, req, reply, must.Get(a.Read(rt, req, reply))(t)))(t)), tc.shown, name)
	}
}

// Proves EDGE-1: a message that is read alone, without its answer, is shown as in a history:
// a memory call as a call, and what the caller is asked about as a request.
func TestMessagesReadAlone(t *testing.T) {
	const asks = `[{"id":"message-00000000-0000-4000-8000-000000000001","message_type":"%s_message","date":"2026-01-01T00:00:01+00:00","tool_call":{"name":"%[2]s","arguments":"{}","tool_call_id":"c1"},"tool_calls":[{"name":"%[2]s","arguments":"{}","tool_call_id":"c1"}]}]`
	const id = "message-00000000-0000-4000-8000-000000000001"
	for name, tc := range map[string]struct {
		tool, shown string
		asked       bool
	}{
		"a memory call":               {"memory_insert", "tool_call", false},
		"one that the caller answers": {"memory_insert", "approval_request", true},
		"a tool of the caller's":      {"my_tool", "approval_request", false},
	} {
		a := adapter(t)
		if tc.asked {
			pauses(t, a, "memory_insert", id, "c1")
		}
		rt, req := routed(t, a, "GET", "/v1/messages/"+id)
		reply := memproxy.Reply{Status: 200, Body: fmt.Appendf(nil, asks, "approval_request", tc.tool)}
		got := must.Get(a.Rewrite(rt, req, reply, must.Get(a.Read(rt, req, reply))(t)))(t)
		expect.Equal(t, string(got), fmt.Sprintf(asks, tc.shown, tc.tool), name)
	}
}

// Proves EDGE-1: a list of some types of messages has the memory calls, and none of the
// gate's approvals.
func TestHistoryByType(t *testing.T) {
	const (
		asked  = `{"id":"message-1","message_type":"approval_request_message","tool_calls":[{"name":"memory_insert","arguments":"{}","tool_call_id":"c1"}]}`
		yes    = `{"id":"message-2","message_type":"approval_response_message","approvals":[{"type":"approval","tool_call_id":"c1","approve":true,"reason":"(memproxy decision d0)"}]}`
		theirs = `{"id":"message-4","message_type":"approval_request_message","tool_calls":[{"name":"my_tool","arguments":"{}","tool_call_id":"c2"}]}`
		said   = `{"id":"message-7","message_type":"assistant_message","content":"done"}`
		all    = "[" + said + "," + theirs + "," + yes + "," + asked + "]"
	)
	called := strings.Replace(asked, "approval_request", "tool_call", 1)
	a := adapter(t)
	const only = "include_return_message_types="
	for _, path := range []string{"/v1/agents/agent-1/messages", "/v1/conversations/conv-1/messages", "/v1/groups/group-1/messages", "/v1/messages/"} {
		rt, req := routed(t, a, "GET", path)
		for _, tc := range []struct{ query, sent, stored, shown string }{
			{only + "tool_call_message&limit=9", "limit=9", all, "[" + called + "]"},
			{"after=message-0&" + only + "tool_call_message&" + only + "assistant_message", "after=message-0", all, "[" + said + "," + called + "]"},
			{only + "approval_request_message", "", all, "[" + theirs + "]"},
			{only + "approval_response_message", "", all, "[]"},
			{only + "tool_call_message", "", "[" + said + "]", "[]"},
			{only + "other", only + "other", "[" + said + "]", "[" + said + "]"}, // the server refuses it
		} {
			req.Query = tc.query
			reply := memproxy.Reply{Status: 200, Body: []byte(tc.stored)}
			_, sent, err := a.Encode(rt, req, nil, &memproxy.Operation{Kind: memproxy.Recall})
			got, failed := a.Rewrite(rt, req, reply, must.Get(a.Read(rt, req, reply))(t))
			if err != nil || failed != nil || sent != tc.sent || string(got) != tc.shown {
				t.Errorf("%s?%s: sent %q, %v %v\n got  %s\n want %s", path, tc.query, sent, err, failed, got, tc.shown)
			}
		}
	}
}

// Proves EDGE-1: on a page that others follow no call is an open question.
func TestPagesThatGoOn(t *testing.T) {
	a := adapter(t)
	rt, req := routed(t, a, "GET", "/v1/agents/agent-1/messages")
	for query, open := range map[string]bool{
		"": true, "order=desc&limit=2": true, "before=message-9": false, "order=asc&limit=2": false, "order=asc&limit=3": true, "order=asc": true, "%zz": true,
	} {
		page := []string{
			`{"id":"message-1","message_type":"approval_request_message","tool_calls":[{"name":"memory_insert","arguments":"{}","tool_call_id":"c1"}]}`, `{"id":"message-0","message_type":"user_message"}`,
		}
		if strings.Contains(query, "asc") {
			slices.Reverse(page)
		}
		req.Query = query
		reply := memproxy.Reply{Status: 200, Body: []byte("[" + strings.Join(page, ",") + "]")}
		shown := string(must.Get(a.Rewrite(rt, req, reply, must.Get(a.Read(rt, req, reply))(t)))(t))
		expect.Equal(t, strings.Contains(shown, "approval_request_message"), open, query, shown)
	}
}
