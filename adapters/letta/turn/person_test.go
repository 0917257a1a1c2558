package turn_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/internal/cache"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

const asking = `{"type":"requires_approval","tool_name":"memory_insert"}`

// handed rules on every call that a person would be asked about, and returns the events
// that are then released.
func handed(tb testing.TB, t *turn.Turn, verdict memproxy.Verdict, only ...string) string {
	tb.Helper()
	for q, more := t.NextSideRequest(); more; q, more = t.NextSideRequest() {
		must.Do(tb, t.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(`{"id":"` + q.EscapedPath + `","blocks":[]}`)}))
	}
	for _, c := range t.ApprovalCalls() {
		if verdict.Stops() && (only == nil || slices.Contains(only, c.ID)) {
			t.Rule(c.ID, memproxy.Decision{ID: "d-" + c.ID, Verdict: verdict, Reasons: []memproxy.Reason{{Detail: "not to be written"}}})
		}
	}
	var all strings.Builder
	for more := true; more; {
		var out [][]byte
		out, more = t.ReleasePause()
		for _, e := range out {
			all.Write(e)
		}
	}
	return all.String()
}

// callsOfInsert returns an answer that ends in calls of memory_insert with these ids.
func callsOfInsert(ids ...string) string {
	var list []string
	for _, id := range ids {
		name, id, found := strings.Cut(id, "=")
		if !found {
			name, id = "memory_insert", name
		}
		list = append(list, fmt.Sprintf(`{"name":%q,"arguments":"{\"label\":\"human\",\"new_string\":\"x\"}","tool_call_id":%q}`, name, id))
	}
	return `{"messages":[{"message_type":"reasoning_message"},{"id":"m-1","message_type":"approval_request_message","tool_calls":[` + strings.Join(list, ",") +
		`]}],"stop_reason":{"stop_reason":"requires_approval"},"usage":{"step_count":1}}`
}

// Proves EDGE-16, EDGE-1: a call that the policy refuses is refused without asking a
// person; any other is left to the person.
func TestAPersonIsNotAskedForWhatIsRefused(t *testing.T) {
	turn := newTurn(t, `{"input":"hi"}`, ruled(asking))
	request(t, turn)
	must.Do(t, turn.ReadAnswer([]byte(callsOfInsert("c-1", "c-2"))))
	if got := turn.ApprovalCalls(); len(got) != 2 || got[0].Operation == nil || got[0].Operation.Items[0].Text != "x" {
		t.Fatalf("%+v is ruled on before the person is asked", got)
	}
	handed(t, turn, memproxy.Deny)
	if !turn.Paused() || len(turn.PendingCalls()) != 0 {
		t.Fatal("the person is asked for what is refused")
	}
	expect.Text(t, request(t, turn), "the agent is told").Times(3, `"approve":false`).Has("not to be written (memproxy decision d-c-1)")
	must.Do(t, turn.ReadAnswer([]byte(`{"messages":[{"message_type":"assistant_message","content":"done"}],"stop_reason":{"stop_reason":"end_turn"}}`)))
	expect.Text(t, string(turn.Answer())).Lacks("approval_request_message").Has(`[{"message_type":"reasoning_message"},{"id":"m-1","message_type":"tool_call_message"`)
}

// If one of several calls is refused, the person is asked about the rest; the refusal
// is sent with the person's answer, ruled on again.
func TestAPersonIsAskedForTheRest(t *testing.T) {
	turn := newTurn(t, `{"input":"hi"}`, ruled(asking))
	request(t, turn)
	must.Do(t, turn.ReadAnswer([]byte(callsOfInsert("c-1", "c-2", "c-3"))))
	handed(t, turn, memproxy.Deny, "c-2")
	if turn.Paused() {
		t.Fatal("answered without the person")
	}
	answer := turn.Answer()
	before, after, found := strings.Cut(string(answer), `"approval_request_message"`)
	if !found || !strings.Contains(before, "c-2") || strings.Contains(before, "c-1") || strings.Contains(after, "c-2") || !strings.Contains(after, "c-1") || !strings.Contains(after, "c-3") {
		t.Errorf("asked for %s: want c-1 and c-3 alone", answer)
	}
	pending := strings.Replace(ruled(asking), "{", `{"pending_approval":`+strings.TrimSuffix(strings.SplitN(callsOfInsert("c-1", "c-2", "c-3"), `},`, 2)[1], `],"stop_reason":{"stop_reason":"requires_approval"},"usage":{"step_count":1}}`)+`,`, 1)
	both := `{"messages":[{"type":"approval","approvals":[{"type":"approval","tool_call_id":"c-1","approve":true},{"type":"approval","tool_call_id":"c-3","approve":false}]}]}`
	for verdict, want := range map[memproxy.Verdict]bool{memproxy.Deny: true, memproxy.Allow: false} {
		turn := newTurn(t, both, pending)
		handed(t, turn, verdict, "c-2")
		if turn.Paused() != want {
			t.Fatalf("%s: paused is %v", verdict, turn.Paused())
		}
		if !want {
			continue
		}
		if got := turn.PendingCalls(); len(got) != 1 || got[0].ID != "c-1" {
			t.Fatalf("%+v waits for a ruling, want what the person approved", got)
		}
		turn.Rule("c-1", memproxy.Decision{ID: "d-1"})
		body := request(t, turn)
		for _, one := range []string{`{"type":"approval","tool_call_id":"c-1","approve":true}`, `"approve":false,"reason":"not to be written (memproxy decision d-c-2)","tool_call_id":"c-2"`, `{"type":"approval","tool_call_id":"c-3","approve":false}`} {
			expect.Text(t, body, "no").Has(one)
		}
	}
	older := newTurn(t, `{"messages":[{"type":"approval","approval_request_id":"m-1","approve":true}]}`, pending)
	handed(t, older, memproxy.Allow, "c-2")
	for _, c := range older.PendingCalls() {
		older.Rule(c.ID, memproxy.Decision{ID: "d-1"})
	}
	expect.Text(t, request(t, older), "the person's approval is sent as memproxy's").Times(3, `{"approve":true,"tool_call_id":`).Lacks("(memproxy decision")
}

// Events of a pause are held back until its calls are ruled on, keep their order and
// their numbers, and are shown as calls or as a question.
func TestFragmentsOfAQuestionAreKeptBack(t *testing.T) {
	part := func(seq int, id, name, args string) string {
		c := fmt.Sprintf(`{"name":%s,"arguments":%s,"tool_call_id":%q}`, name, args, id)
		return fmt.Sprintf("data: {\"id\":\"m-1\",\"message_type\":\"approval_request_message\",\"seq_id\":%d,\"tool_call\":%s,\"tool_calls\":%s}\n\n", seq, c, c)
	}
	stream := []string{
		part(3, "c-1", `"memory_insert"`, `null`), part(4, "c-1", `null`, `"{\"label\":\"human\","`), part(5, "c-1", `null`, `"\"new_string\":\"x\"}"`),
		part(6, "c-2", `"memory_insert"`, `"{\"label\":\"human\",\"new_string\":\"y\"}"`),
		"data: {\"message_type\":\"stop_reason\",\"stop_reason\":\"requires_approval\",\"seq_id\":7}\n\n",
	}
	for name, tc := range map[string]struct {
		verdict memproxy.Verdict
		only    []string
		want    string
	}{
		"allowed":      {memproxy.Allow, nil, "approval_request 3 approval_request 4 approval_request 5 approval_request 6"},
		"refused":      {memproxy.Deny, nil, "tool_call 3 tool_call 4 tool_call 5 tool_call 6"},
		"one of them":  {memproxy.Deny, []string{"c-1"}, "tool_call 3 tool_call 4 tool_call 5 approval_request 6"},
		"held as well": {memproxy.Hold, []string{"none"}, "approval_request 3 approval_request 4 approval_request 5 approval_request 6"},
	} {
		turn := newTurn(t, `{"input":"hi","streaming":true,"stream_tokens":true}`, ruled(asking))
		request(t, turn)
		for _, e := range stream {
			must.Len(t, must.Get(turn.Event([]byte(e)))(t), 0, name, "told")
		}
		out := handed(t, turn, tc.verdict, tc.only...)
		var got []string
		for _, e := range strings.SplitAfter(strings.TrimSpace(out), "\n\n") {
			_, kind, _ := strings.Cut(e, `"message_type":"`)
			kind, rest, _ := strings.Cut(kind, `_message"`)
			_, seq, _ := strings.Cut(rest, `"seq_id":`)
			seq, _, _ = strings.Cut(seq, ",")
			got = append(got, kind+" "+seq)
		}
		expect.Equal(t, strings.Join(got, " "), tc.want, name)
		if asked, _ := turn.Seq(); asked != 6 {
			t.Errorf("%s: the last number told is %d", name, asked)
		}
	}
	// Events that do not end in a pause are no question, and are released.
	turn := newTurn(t, `{"input":"hi","streaming":true}`, ruled(asking))
	request(t, turn)
	must.Len(t, must.Get(turn.Event([]byte(stream[0])))(t), 0)
	if out, err := turn.Event([]byte(strings.Replace(stream[4], "requires_approval", "cancelled", 1))); err != nil || len(out) != 1 || !strings.Contains(string(out[0]), "memory_insert") {
		t.Errorf("%q, %v", out, err)
	}
	if turn.Paused() || len(turn.ApprovalCalls()) > 0 {
		t.Error("what was cancelled is asked about")
	}
}

// The reconciler's turn is no caller's: it asks no person.
func TestTheReconcilerDoesNotForesee(t *testing.T) {
	waits := strings.Replace(ruled(asking), "{", `{"pending_approval":{"id":"m-1","tool_calls":[{"name":"memory_insert","arguments":"{}","tool_call_id":"c-1"}]},`, 1)
	turn := must.Get(turn.New(turn.Options{Prefix: "/v1", Memory: remember, Agent: "agent-1", Body: []byte(`{"messages":[]}`), RecoveryOnly: true}))(t)
	must.Do(t, turn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(waits)}))
	if turn.Paused() || len(turn.ApprovalCalls()) > 0 {
		t.Error("the reconciler answers what a person was asked")
	}
}

// Proves EDGE-1: what the caller is asked about is remembered for the history: a call that a
// rule has a person approve, and one of its own tool with a memory tool's name. Calls that
// memproxy answers are not.
func TestCallsThatTheCallerIsAskedAbout(t *testing.T) {
	for name, tc := range map[string]struct {
		agent, own string
		refused    bool
		want       []string
	}{
		"a rule asks a person":     {ruled(asking), "my_tool", false, []string{"m-1/c-1"}},
		"the policy refuses it":    {ruled(asking), "my_tool", true, nil},
		"a tool of its own":        {attached, "memory_insert", false, []string{"m-1/c-1"}},
		"memproxy answers a call":  {attached, "my_tool", false, nil},
		"the agent has no such":    {`{"id":"agent-1","agent_type":"letta_v1_agent","tools":[]}`, "memory_insert", false, []string{"m-1/c-1"}},
		"nothing but other's tool": {`{"id":"agent-1","agent_type":"letta_v1_agent","tools":[]}`, "my_tool", false, []string{"m-1/c-1"}},
	} {
		asked := cache.NewGenerations[string, struct{}](8)
		turn := must.Get(turn.New(turn.Options{Prefix: "/v1", Memory: remember, Agent: "agent-1", Body: []byte(`{"input":"hi","client_tools":[{"name":"` + tc.own + `"}]}`), CallerCalls: asked}))(t)
		must.Do(t, turn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(tc.agent)}))
		request(t, turn)
		must.Do(t, turn.ReadAnswer([]byte(callsOfInsert("c-1", "my_tool=c-2"))))
		if tc.refused {
			handed(t, turn, memproxy.Deny)
		} else {
			handed(t, turn, memproxy.Allow)
		}
		if n := asked.Len(); n != len(tc.want)+1 { // and the pause
			t.Errorf("%s: %d calls are remembered, want %v", name, n, tc.want)
		}
		for _, key := range tc.want {
			if _, there := asked.Get(key); !there {
				t.Errorf("%s: %s is not remembered", name, key)
			}
		}
	}
}

// Proves EDGE-1: a caller that answers a call of a memory tool that it is not asked about does
// not replace the server's result. It may deny the call.
func TestAnswersToCallsThatMemproxyAnswers(t *testing.T) {
	waits := strings.Replace(attached, "{", `{"pending_approval":{"id":"m-1","tool_calls":[{"name":"memory_insert","arguments":"{}","tool_call_id":"c-1"},{"name":"my_tool","arguments":"{}","tool_call_id":"c-2"}]},`, 1)
	const approved = `{"approve":true,"reason":"(memproxy decision d-1)","tool_call_id":"c-1","type":"approval"}`
	for given, want := range map[string]string{
		`{"type":"tool","tool_call_id":"c-1","status":"error","tool_return":"unknown tool"}`:           approved,
		`{"type":"tool","tool_call_id":"c-1","status":"error","tool_return":"no","approve":false}`:     approved,
		`{"type":"approval","tool_call_id":"c-1","approve":true,"reason":"mine"}`:                      approved,
		`{"type":"approval","tool_call_id":"c-1","approve":false,"reason":"mine"}`:                     `{"type":"approval","tool_call_id":"c-1","approve":false,"reason":"mine"}`,
		`{"type":"approval","tool_call_id":"c-1","approve":false,"tool_return":"no"}`:                  `{"type":"approval","tool_call_id":"c-1","approve":false,"tool_return":"no"}`,
		`{"type":"tool","tool_call_id":"c-2","status":"success","tool_return":"its own, given twice"}`: approved,
	} {
		own := `{"type":"tool","tool_call_id":"c-2","status":"success","tool_return":"42"}`
		turn := newTurn(t, `{"messages":[{"type":"approval","approvals":[`+own+`,`+given+`]}],"client_tools":[{"name":"my_tool"}]}`, waits)
		handed(t, turn, memproxy.Allow)
		for _, c := range turn.PendingCalls() {
			turn.Rule(c.ID, memproxy.Decision{ID: "d-1", Verdict: memproxy.Allow})
		}
		expect.Text(t, request(t, turn), given, "is sent as").Has(want, own).Times(2, `"tool_call_id"`)
	}
}
