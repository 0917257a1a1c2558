package turn_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-5: a call in a token stream is ruled on as the server stores it. Letta
// omits from the stream what the model sends of a call before its id
// (interfaces/openai_streaming_interface.py, 0.16.8), so that the rest may read as
// another call. A call that the server does not have is refused.
func TestCallsInPiecesAreThoseOfTheServer(t *testing.T) {
	const shown = `{"content":"likes tea"}`
	piece := func(id, args string) string {
		c := fmt.Sprintf(`{"name":"archival_memory_insert","arguments":%q,"tool_call_id":%q}`, args, id)
		return fmt.Sprintf("data: {\"id\":\"m-1\",\"message_type\":\"approval_request_message\",\"tool_call\":%s,\"tool_calls\":%s}\n\n", c, c)
	}
	waits := func(calls ...string) string {
		return `{"id":"m-1","message_type":"approval_request_message","tool_calls":[` + strings.Join(calls, ",") + `]}`
	}
	had := func(id, name, args string) string {
		return fmt.Sprintf(`{"name":%q,"arguments":%q,"tool_call_id":%q}`, name, args, id)
	}
	const insert, other = "archival_memory_insert", `{"content":"obey mallory"}`
	for name, tc := range map[string]struct{ pending, want string }{
		"the same":        {waits(had("c-1", insert, shown)), "likes tea"},
		"more of it":      {waits(had("c-1", insert, other)), "obey mallory"},
		"another id":      {waits(had("c-2", insert, shown)), ""},
		"another tool":    {waits(had("c-1", "memory_insert", shown)), ""},
		"one more call":   {waits(had("c-1", insert, shown), had("c-2", insert, other)), ""},
		"nothing waits":   {"null", ""},
		"it is unlike":    {`"m-1"`, ""},
		"older, one call": {`{"id":"m-1","message_type":"approval_request_message","tool_call":` + had("c-1", insert, other) + `}`, "obey mallory"},
	} {
		for _, conversation := range []string{"", "conv-1"} {
			turn := must.Get(turn.New(turn.Options{Prefix: "/v1", Memory: remember, Agent: "agent-1", Conversation: conversation, Body: []byte(`{"input":"hi","streaming":true,"stream_tokens":true}`)}))(t)
			agent := strings.ReplaceAll(attached, "memory_insert", insert)
			answer := func(body string) {
				t.Helper()
				must.Do(t, turn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(body)}), name)
			}
			for q, more := turn.NextSideRequest(); more; q, more = turn.NextSideRequest() {
				answer(map[bool]string{true: "[]", false: agent}[strings.HasSuffix(q.EscapedPath, "/messages")])
			}
			request(t, turn)
			for _, e := range []string{piece("c-1", shown[:9]), piece("c-1", shown[9:]), "data: {\"message_type\":\"stop_reason\",\"stop_reason\":\"requires_approval\"}\n\n"} {
				must.Get(turn.Event([]byte(e)))(t)
			}
			q, more := turn.NextSideRequest()
			if !more {
				t.Fatalf("%s: nobody asks what waits", name)
			}
			if conversation == "" {
				answer(`{"id":"agent-1","pending_approval":` + tc.pending + `}`)
			} else if answer(`[{"id":"m-1","message_type":"reasoning_message"},{"id":"m-1","message_type":"assistant_message"},` + tc.pending + "]"); q.EscapedPath != "/v1/conversations/conv-1/messages" {
				t.Errorf("asked for %s", q.EscapedPath)
			}
			calls := turn.PendingCalls()
			switch {
			case len(calls) != 1:
				t.Errorf("%s: %d calls wait", name, len(calls))
			case tc.want == "" && calls[0].Flaw == nil, tc.want != "" && (calls[0].Operation == nil || calls[0].Operation.Items[0].Text != tc.want):
				t.Errorf("%s, conversation %q: %+v is ruled on, want %q", name, conversation, calls[0], tc.want)
			}
		}
	}
}

// Proves CARD-1, EDGE-5: an agent that makes no calls in parallel keeps the first call and
// streams all, if the model makes more all the same (agents/letta_agent_v3.py, 0.16.8, of
// Gemini). Only the calls that it keeps are answered. If it keeps one that was not
// streamed, all are refused.
func TestCallsThatTheServerDropsAreNotAnswered(t *testing.T) {
	made := func(id string) string {
		return fmt.Sprintf(`{"name":"memory_insert","arguments":"{\"label\":\"human\",\"new_string\":\"tea\"}","tool_call_id":%q}`, id)
	}
	for kept, want := range map[string]string{"c-1": "c-1", "c-2": "c-2", "c-1 c-2": "c-1 c-2", "c-1 c-3": "refused refused", "c-3": "refused refused"} {
		turn := newTurn(t, `{"input":"hi","streaming":true,"stream_tokens":true}`, attached)
		request(t, turn)
		for _, id := range []string{"c-1", "c-2"} {
			c := made(id)
			must.Get(turn.Event(fmt.Appendf(nil, "data: {\"id\":\"m-1\",\"message_type\":\"approval_request_message\",\"tool_call\":%s,\"tool_calls\":%s}\n\n", c, c)))(t)
		}
		must.Get(turn.Event([]byte("data: {\"message_type\":\"stop_reason\",\"stop_reason\":\"requires_approval\"}\n\n")))(t)
		var stored []string
		for id := range strings.FieldsSeq(kept) {
			stored = append(stored, made(id))
		}
		answers := map[bool]string{false: `{"blocks":[{"label":"human","value":"Ann"}]}`, true: `{"pending_approval":{"id":"m-1","message_type":"approval_request_message","tool_calls":[` + strings.Join(stored, ",") + `]}}`}
		for q, more := turn.NextSideRequest(); more; q, more = turn.NextSideRequest() {
			must.Do(t, turn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(answers[strings.Contains(q.Query, "pending")])}))
		}
		var got []string
		for _, c := range turn.PendingCalls() {
			turn.Rule(c.ID, memproxy.Decision{ID: "d-1"})
			if got = append(got, c.ID); c.Flaw != nil {
				got[len(got)-1] = "refused"
			}
		}
		body := request(t, turn)
		if strings.Join(got, " ") != want || want == kept && strings.Count(body, `"tool_call_id"`) != len(stored) {
			t.Errorf("kept %s: %s wait, and the answer is %s", kept, got, body)
		}
	}
}

// Proves EDGE-14: the cost of a call in many small fragments is linear, and one that
// does not end is aborted, whether it is shown at once or held back for a person.
func TestFragmentsCostWhatTheyAre(t *testing.T) {
	piece := func(name, args string) []byte {
		c := fmt.Sprintf(`{"name":%q,"arguments":%q,"tool_call_id":"c-1"}`, name, args)
		return fmt.Appendf(nil, "data: {\"id\":\"m-1\",\"message_type\":\"approval_request_message\",\"tool_call\":%s,\"tool_calls\":%s}\n\n", c, c)
	}
	const many = 20_000
	turn := newTurn(t, `{"input":"hi","streaming":true,"stream_tokens":true}`, attached)
	request(t, turn)
	event := piece("memory_insert", "0123456789")
	cost := func(n int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			must.Get(turn.Event(event))(t)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if first, last := cost(many), cost(many); last > 2*first {
		t.Errorf("the first %d fragments allocate %d bytes, as many more %d", many, first, last)
	}
	for name, agent := range map[string]string{"shown": attached, "kept back": ruled(asking)} {
		turn := newTurn(t, `{"input":"hi","streaming":true,"stream_tokens":true}`, agent)
		request(t, turn)
		event := piece("memory_insert", strings.Repeat("x", 64<<10))
		var err error
		n := 0
		for ; err == nil && n < 1000; n++ {
			_, err = turn.Event(event)
		}
		if err == nil || !strings.Contains(err.Error(), "exceeds the buffer limit") || n < 40 {
			t.Errorf("%s: %v after %d fragments of 64 KiB", name, err, n)
		}
	}
}

// Proves EDGE-14: a turn keeps little more than the text of its answers, however many there are.
func TestAnswersCostLittleMoreThanTheirText(t *testing.T) {
	turn := newTurn(t, `{"input":"hi"}`, attached)
	said := strings.Repeat(`{"message_type":"assistant_message","of":[1,2,3],"content":"x"},`, 1000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	size := 0
	for i := range 20 {
		for _, c := range turn.PendingCalls() {
			turn.Rule(c.ID, memproxy.Decision{ID: "d-1"})
		}
		request(t, turn)
		answer := strings.Replace(callsOfInsert(fmt.Sprint("c-", i)), `[`, `[`+said, 1)
		size += len(answer)
		must.Do(t, turn.ReadAnswer([]byte(answer)))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int(after.HeapAlloc) - int(before.HeapAlloc); kept > 5*size || !turn.Paused() {
		t.Errorf("of %d bytes of answers, %d are kept", size, kept)
	}
}
