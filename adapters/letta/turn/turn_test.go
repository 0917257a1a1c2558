package turn_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// newTurnIn returns a turn of agent-1 in a conversation, or in its own.
func newTurnIn(t testing.TB, conversation, body string) *turn.Turn {
	return must.Get(turn.New(turn.Options{Prefix: "/v1", Memory: remember, Agent: "agent-1", Conversation: conversation, Body: []byte(body)}))(t)
}

func newTurn(t *testing.T, body string, agent string) *turn.Turn {
	t.Helper()
	turn := newTurnIn(t, "", body)
	if q, more := turn.NextSideRequest(); !more || q.EscapedPath != "/v1/agents/agent-1" {
		t.Fatalf("%+v %v", q, more)
	}
	must.Do(t, turn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(agent)}))
	return turn
}

// remember reads a block or a passage.
func remember(_ *jsondoc.Doc, v *jsondoc.Value, _ string) memproxy.Memory {
	return memproxy.Memory{ID: v.Get("id").Text(), Field: v.Get("label").Text(), Text: v.Get("value").Text() + v.Get("text").Text()}
}

const attached = `{"id":"agent-1","agent_type":"letta_v1_agent","tools":[
	{"name":"memory_insert","description":"d","json_schema":{"name":"memory_insert","description":"inserts","parameters":{"type":"object"}}},
	{"name":"web_search","tool_type":"letta_builtin","json_schema":{"name":"web_search"}}]}`

func request(t *testing.T, turn *turn.Turn) string {
	t.Helper()
	return string(turn.Next())
}

// The first request is the caller's body with the memory tools named; all other bytes
// are unchanged.
//
// Proves EDGE-1, EDGE-13.
func TestTheFirstRequestNamesMemoryTools(t *testing.T) {
	got := request(t, newTurn(t, `{"input":"hi", "max_steps":50,"seed":1.50,"include_return_message_types":["assistant_message"]}`, attached))
	expect.Equal(t, got, `{"input":"hi", "max_steps":50,"seed":1.50,"client_tools":[{"name":"memory_insert","description":"inserts","parameters":{"type":"object"}}]}`)
	// A list that the server cannot read is sent, for it to refuse, without leaving out the pause.
	for types, sent := range map[string]string{
		`["assistant_message","bogus",1]`: `"event_message","assistant_message","bogus",1]}`, `"assistant_message"`: `"include_return_message_types":"assistant_message"}`,
	} {
		got = request(t, newTurn(t, `{"input":"hi","include_return_message_types":`+types+`}`, attached))
		expect.Text(t, got).Has(`"client_tools":[{"name":"memory_insert"`, sent)
	}
	// A client tool of the same name replaces the server's: it writes nothing in the
	// server.
	got = request(t, newTurn(t, `{"input":"hi","client_tools":[{"name":"memory_insert"}]}`, attached))
	expect.Equal(t, got, `{"input":"hi","client_tools":[{"name":"memory_insert"}]}`)
	// Only the member in lower case counts: the server reads no other.
	named := `[{"name":"mine","NAME":"memory_insert","Name":"memory_insert"}`
	got = request(t, newTurn(t, `{"input":"hi","client_tools":`+named+`]}`, attached))
	expect.Text(t, got).Has(named + `,{"name":"memory_insert","description":"inserts"`)
	// Without memory tools the body is the caller's, byte for byte.
	body := `{ "input":"hi" }`
	expect.Equal(t, request(t, newTurn(t, body, `{"agent_type":"memgpt_agent","tools":[{"name":"web_search","tool_type":"letta_builtin"}]}`)), body)
}

// An approval with the message's id in place of the call's, which the server accepts,
// is ruled on as well.
//
// Proves EDGE-1, EDGE-13.
func TestApprovalsOfTheMessageAreRuledOn(t *testing.T) {
	const body = `{"client_tools":[{"name":"memory_insert"}],"messages":[{"type":"approval","approvals":[{"type":"approval","tool_call_id":"message-1","approve":%s}]}]}`
	waits := strings.Replace(attached, "{", `{"pending_approval":{"id":"message-1","tool_calls":[{"name":"memory_insert","arguments":"{\"label\":\"human\",\"new_string\":\"x\"}","tool_call_id":"c-1"}]},`, 1)
	turn := newTurn(t, fmt.Sprintf(body, "true"), waits)
	if calls := turn.PendingCalls(); len(calls) != 1 || calls[0].ID != "c-1" {
		t.Fatalf("%+v", calls)
	}
	turn.Rule("c-1", memproxy.Decision{ID: "d-1", Verdict: memproxy.Deny})
	expect.Text(t, request(t, turn)).Has(`"approve":false`).Lacks(`"tool_call_id":"message-1"`)
	turn = newTurn(t, `{"input":null,"messages":[{"role":"user","content":"hi"}]}`, waits) // some clients send null
	turn.Rule("c-1", memproxy.Decision{ID: "d-1", Verdict: memproxy.Deny})
	expect.Text(t, request(t, turn)).Has(`{"role":"user","content":"hi"}]`).Lacks(`"content":null`)
	turn = newTurnIn(t, "conv-1", fmt.Sprintf(body, "true"))
	must.Do(t, turn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(attached)}))
	must.Do(t, turn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(`[{"id":"message-1","message_type":"assistant_message"},
		{"id":"message-1","message_type":"approval_request_message","tool_calls":[{"name":"memory_insert","arguments":"{\"label\":\"human\",\"new_string\":\"x\"}","tool_call_id":"c-1"}]}]`)}))
	if calls := turn.PendingCalls(); len(calls) != 1 || calls[0].ID != "c-1" { // text that the model wrote with the call is listed before
		t.Errorf("%+v", calls)
	}
	if calls := newTurn(t, fmt.Sprintf(body, "false"), waits).PendingCalls(); len(calls) > 0 { // a declined call writes nothing
		t.Errorf("%+v", calls)
	}
}

// A conversation runs its own agent, even if the body names another: the server ignores
// that.
//
// Proves EDGE-1, EDGE-13.
func TestAConversationRunsItsOwnAgent(t *testing.T) {
	turn := must.Get(turn.New(turn.Options{Prefix: "/v1", Memory: remember, Conversation: "conv-1", Body: []byte(`{"agent_id":"agent-2","input":"hi"}`)}))(t)
	for _, want := range []string{"/v1/conversations/conv-1", "/v1/agents/agent-1"} {
		q, more := turn.NextSideRequest()
		if !more || q.EscapedPath != want {
			t.Fatalf("%+v %v, want %s", q, more, want)
		}
		must.Do(t, turn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(strings.Replace(attached, "{", `{"agent_id":"agent-1",`, 1))}))
	}
	expect.Text(t, request(t, turn)).Has(`"client_tools":[{"name":"memory_insert"`)
}

func TestOlderLoopsAreUngated(t *testing.T) {
	err := newTurnIn(t, "", `{"input":"hi"}`).ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(strings.Replace(attached, "letta_v1_agent", "memgpt_agent", 1))})
	expect.Is(t, err, memproxy.ErrUngated)
	for _, more := range []string{`"enable_sleeptime":true`, `"managed_group":{"id":"group-1"}`, `"multi_agent_group":{"id":"group-1"}`} {
		turn := newTurnIn(t, "", `{"input":"hi"}`)
		expect.Is(t, turn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(strings.Replace(attached, "{", "{"+more+",", 1))}), memproxy.ErrUngated, more)
	}
}

const pausedAnswer = `{"messages":[{"id":"m-1","message_type":"approval_request_message","tool_call":{"name":"memory_insert","arguments":"{\"label\":\"human\",\"new_string\":\"x\"}","tool_call_id":"c-1"},"tool_calls":[{"name":"memory_insert","arguments":"{\"label\":\"human\",\"new_string\":\"x\"}","tool_call_id":"c-1"}]}],"stop_reason":{"stop_reason":"requires_approval"},"usage":{"step_count":2,"context_tokens":7}}`

// The answer is for exactly the waiting calls, with the rulings, and has the rest of
// the caller's step budget.
func TestTheNextRequestAnswers(t *testing.T) {
	turn := newTurn(t, `{"messages":[{"role":"user","content":"hi"}],"max_steps":3}`, attached)
	request(t, turn)
	must.Do(t, turn.ReadAnswer([]byte(pausedAnswer)))
	calls := turn.PendingCalls()
	if len(calls) != 1 || calls[0].Operation == nil || calls[0].Tool != "memory_insert" {
		t.Fatalf("%+v", calls)
	}
	turn.Rule("c-1", memproxy.Decision{ID: "d-1", Verdict: memproxy.Deny, Reasons: []memproxy.Reason{{Detail: "no"}}})
	expect.Len(t, turn.PendingCalls(), 0, "a call waits after it was ruled on")
	got := request(t, turn)
	for _, want := range []string{`"tool_call_id":"c-1"`, `"approve":false`, `no (memproxy decision d-1)`, `"approval_request_id":"m-1"`, `"max_steps":1`, `"client_tools"`} {
		expect.Text(t, got, "no").Has(want)
	}
	expect.Text(t, got, "the caller's message is sent again").Lacks(`"role":"user"`)
}

// Proves CARD-1: an error of a later request belongs to the turn's run and continues its
// numbers, like all events of a turn.
func TestErrorsBelongToTheTurn(t *testing.T) {
	turn := newTurn(t, `{"input":"hi","streaming":true}`, attached)
	var got string
	for _, e := range []string{
		`data: {"message_type":"approval_request_message","id":"m-1","run_id":"run-1","seq_id":3,"tool_calls":[{"name":"memory_insert","arguments":"{}","tool_call_id":"c-1"}]}`,
		`data: {"message_type":"stop_reason","stop_reason":"requires_approval","run_id":"run-1","seq_id":4}`, "",
		`data: {"message_type":"stop_reason","stop_reason":"error","run_id":"run-2","seq_id":1}`,
		"event: error\ndata: {\"message_type\":\"error_message\",\"run_id\":\"run-2\",\"seq_id\":2}",
	} {
		if e == "" {
			for _, c := range turn.PendingCalls() {
				turn.Rule(c.ID, memproxy.Decision{ID: "d-1"})
			}
			request(t, turn)
			continue
		}
		got = string(bytes.Join(must.Get(turn.Event([]byte(e+"\n\n")))(t), nil))
	}
	expect.Equal(t, got, `data: {"message_type":"stop_reason","stop_reason":"error","run_id":"run-1","seq_id":5}`+
		"\n\nevent: error\ndata: {\"message_type\":\"error_message\",\"run_id\":\"run-1\",\"seq_id\":6}\n\n")
	if seq, said := turn.Seq(); seq != 6 || !said {
		t.Errorf("number %d, %v", seq, said)
	}
}

// Proves CARD-1: the result of a call that memproxy answers has its tool's name, as the
// server's own results have; a client tells by it which tool it is of. The results of the
// caller's tools have none, as without memproxy.
func TestResultsHaveTheirToolsName(t *testing.T) {
	result := func(id, name string) string {
		return fmt.Sprintf(`{"id":"m-2","name":%s,"message_type":"tool_return_message","tool_return":"x","tool_call_id":%q}`, name, id)
	}
	for sent, want := range map[string]string{
		result("c-1", "null"):    result("c-1", `"memory_insert"`),
		result("c-1", `"other"`): result("c-1", `"other"`),
		result("call-9", "null"): result("call-9", "null"),
		`{"id":"m-2","name":null,"message_type":"assistant_message","tool_call_id":"c-1"}`: `{"id":"m-2","name":null,"message_type":"assistant_message","tool_call_id":"c-1"}`,
	} {
		for _, streams := range []bool{false, true} {
			turn := newTurn(t, `{"input":"hi"}`, attached)
			request(t, turn)
			must.Do(t, turn.ReadAnswer([]byte(pausedAnswer)))
			turn.Rule("c-1", memproxy.Decision{ID: "d-1", Verdict: memproxy.Deny})
			request(t, turn)
			var got string
			if streams {
				got = string(bytes.Join(must.Get(turn.Event([]byte("data: "+sent+"\n\n")))(t), nil))
			} else {
				must.Do(t, turn.ReadAnswer([]byte(`{"messages":[`+sent+`],"stop_reason":{"stop_reason":"end_turn"}}`)))
				got = string(turn.Answer())
			}
			expect.Text(t, got, "streams", streams).Has(want)
		}
	}
}

// Proves CARD-1: the agent reads why a call that memproxy made for it failed, as the server says it.
func TestFailedCallsSayWhy(t *testing.T) {
	for answer, want := range map[string]string{
		`{"status":"error","func_return":null,"stderr":["Error executing function memory_insert: KeyError: 'no block'"]}`: `"tool_return":"Error executing function memory_insert: KeyError: 'no block'","status":"error"`,
		`{"status":"error","func_return":null,"stderr":null}`:                                                             `"tool_return":"Error executing function memory_insert: the call failed","status":"error"`,
		`null`: `"tool_return":"Error executing function memory_insert: the call failed","status":"error"`,
	} {
		turn := newTurn(t, `{"input":"hi"}`, attached)
		request(t, turn)
		must.Do(t, turn.ReadAnswer([]byte(pausedAnswer)))
		turn.Rule("c-1", memproxy.Decision{ID: "d-1", Verdict: memproxy.Amend})
		turn.Result("c-1", memproxy.Reply{Status: 200, Body: []byte(answer)})
		expect.Text(t, request(t, turn), answer).Has(want)
	}
}

// Streams may be cut anywhere; events of another format pass.
func TestEventsThatAreNotOurs(t *testing.T) {
	turn := newTurn(t, `{"input":"hi"}`, attached)
	for _, ev := range []string{": comment\n\n", "event: error\ndata: {\"x\":1}\n\n", "data: not json\n\n", "data: {\"message_type\":\"response_state\"}\n\n", "data:{\"message_type\":\"ping\"}\r\n\r\n", "event: cancelled\n\n"} {
		out, err := turn.Event([]byte(ev))
		if err != nil || len(out) != 1 || string(out[0]) != ev {
			t.Errorf("%q became %q, %v", ev, out, err)
		}
	}
}

// Proves CARD-1: the reason for which a run stopped comes before its error, as the server
// sends them, and a pause that the gate answers is not shown as the reason.
func TestErrorsFollowTheReason(t *testing.T) {
	const failed, asks, bad, answered = "data: {\"message_type\":\"stop_reason\",\"stop_reason\":\"llm_api_error\"}\n\n",
		"data: {\"message_type\":\"stop_reason\",\"stop_reason\":\"requires_approval\"}\n\n", "event: error\ndata: {\"detail\":\"x\"}\n\n", "answered\n\n"
	const call = "data: {\"id\":\"m-1\",\"message_type\":\"approval_request_message\",\"tool_calls\":[{\"name\":\"memory_insert\",\"arguments\":\"{}\",\"tool_call_id\":\"c-1\"}]}\n\n"
	for name, tc := range map[string]struct{ sent, want string }{
		"at once":                   {failed + bad + "data: [DONE]\n\n", failed + bad + "data: [DONE]\n\n"},
		"a pause before":            {call + asks + answered + failed + bad, failed + bad},
		"a pause, and no reason":    {call + asks + answered + bad, bad},
		"in the pause":              {call + asks + bad, bad},
		"a comment between the two": {failed + ": x\n\n" + bad, ": x\n\n" + failed + bad},
	} {
		turn := newTurn(t, `{"input":"hi","streaming":true,"include_return_message_types":["assistant_message"]}`, attached)
		var got []byte
		for e := range strings.SplitAfterSeq(tc.sent, "\n\n") {
			switch e {
			case "":
			case answered:
				for _, c := range turn.PendingCalls() {
					turn.Rule(c.ID, memproxy.Decision{ID: "d-1"})
				}
				request(t, turn)
			default:
				got = append(got, bytes.Join(must.Get(turn.Event([]byte(e)))(t), nil)...)
			}
		}
		if !turn.Paused() {
			got = append(got, bytes.Join(turn.Tail(), nil)...)
		}
		expect.Equal(t, string(got), tc.want, name)
	}
}

// A pause is one in every form of lines that clients read.
func TestAPauseInLinesThatEndInCarriageReturns(t *testing.T) {
	pause := "data: {\"message_type\":\"approval_request_message\",\rdata: \"tool_calls\":[{\"name\":\"memory_insert\",\"arguments\":\"{}\",\"tool_call_id\":\"c\"}]}\r\n\r\n"
	turn := newTurn(t, `{"input":"hi"}`, attached)
	request(t, turn)
	out := must.Get(turn.Event([]byte(pause)))(t)
	expect.Text(t, string(bytes.Join(out, nil))).Lacks("approval_request_message")
}

func FuzzEvent(f *testing.F) {
	f.Add("data: {\"message_type\":\"approval_request_message\",\"id\":\"m\",\"tool_calls\":{\"name\":\"memory_insert\",\"arguments\":null,\"tool_call_id\":\"c\"}}\n\n")
	f.Add("data: {\"message_type\":\"approval_request_message\",\"tool_calls\":[{\"name\":\"memory_insert\"},{\"name\":\"x\"}]}\n\n")
	f.Add("data: {\"message_type\":\"stop_reason\",\"stop_reason\":\"requires_approval\"}\n\n")
	f.Add("data: {\"message_type\":\"usage_statistics\",\"step_count\":1}\n\n")
	f.Add("data: [DONE]\n\n")
	f.Fuzz(func(t *testing.T, ev string) {
		run := newTurn(t, `{"input":"hi"}`, attached)
		for range 2 {
			out, err := run.Event([]byte(ev))
			if err != nil {
				return
			}
			for _, o := range out {
				// A pause that the gate answers is never shown as one.
				data, _ := memproxy.SplitStreamEvent(o)
				doc, err := jsondoc.Parse(data, 0)
				if err != nil || doc.Root.Get("message_type").Text() != "approval_request_message" {
					continue
				}
				calls := []*jsondoc.Value{doc.Root.Get("tool_call")}
				if list := doc.Root.Get("tool_calls"); list != nil && list.Kind == jsondoc.Array {
					calls = list.Elems
				}
				for _, c := range calls {
					if c.Get("name").Text() == "memory_insert" {
						t.Errorf("%q shows %q", ev, o)
					}
				}
			}
		}
		for range run.PendingCalls() {
		}
		run.Tail()
		run.Next()
	})
}
