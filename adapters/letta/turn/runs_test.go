package turn_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-1: the events of a turn of several runs are numbered as those of one: the ping
// with which a later run starts is left out, and the pings that keep a stream alive repeat the
// last number.
func TestEventsAreNumberedAsOfOneRun(t *testing.T) {
	turn := newTurn(t, `{"input":"hi","background":true,"streaming":true}`, attached)
	var shown []string
	send := func(events ...string) {
		t.Helper()
		for _, e := range events {
			for _, out := range must.Get(turn.Event([]byte("data: " + e + "\n\n")))(t) {
				_, kind, _ := strings.Cut(string(out), `"message_type":"`)
				kind, _, _ = strings.Cut(kind, `"`)
				_, number, numbered := strings.Cut(string(out), `"seq_id":`)
				if number, _, _ = strings.Cut(number, ","); !numbered {
					number = "none"
				}
				shown = append(shown, kind+" "+number)
			}
		}
	}
	event := func(kind string, n int, run, more string) string {
		return fmt.Sprintf(`{"message_type":%q,"seq_id":%d,"run_id":%q%s}`, kind, n, run, more)
	}
	const call = `,"id":"m-1","tool_calls":[{"name":"memory_insert","arguments":"{}","tool_call_id":"c-1"}]`
	request(t, turn)
	send(event("ping", 1, "run-1", ""), event("ping", 1, "run-1", ""), event("approval_request_message", 2, "run-1", call), `{"message_type":"stop_reason","stop_reason":"requires_approval"}`)
	for _, c := range turn.PendingCalls() {
		turn.Rule(c.ID, memproxy.Decision{ID: "d-1"})
	}
	request(t, turn)
	send(event("ping", 1, "run-2", ""), event("ping", 1, "run-2", ""), event("tool_return_message", 2, "run-2", ""), event("ping", 2, "run-2", ""), event("assistant_message", 3, "run-2", ""))
	expect.List(t, shown, []string{"ping 1", "ping 1", "tool_call_message 2", "ping 2", "tool_return_message 3", "ping 3", "assistant_message 4"})
	if runs := turn.Runs(); !slices.Equal(runs, []string{"run-1", "run-2"}) {
		t.Errorf("the turn has the runs %q", runs)
	}
}

// Proves EDGE-1: the usage of a turn has the sums over its requests, also in its nested
// objects, but the last size of the context and, in a stream, its own number.
func TestUsageIsOfAllRequests(t *testing.T) {
	const first = `"step_count":1,"context_tokens":7,"run_ids":["run-1"],"details":{"cached":3},"other":null`
	const second = `"step_count":2,"context_tokens":9,"run_ids":["run-2"],"details":{"cached":4},"other":{"n":5}`
	const sum = `"step_count":3,"context_tokens":9,"run_ids":["run-1","run-2"],"details":{"cached":7},"other":{"n":5}`
	rule := func(turn *turn.Turn) {
		for _, c := range turn.PendingCalls() {
			turn.Rule(c.ID, memproxy.Decision{ID: "d-1"})
		}
	}
	turn := newTurn(t, `{"input":"hi"}`, attached)
	request(t, turn)
	must.Do(t, turn.ReadAnswer([]byte(strings.Replace(pausedAnswer, `"step_count":2,"context_tokens":7`, first, 1))))
	rule(turn)
	request(t, turn)
	must.Do(t, turn.ReadAnswer([]byte(`{"messages":[],"stop_reason":{"stop_reason":"end_turn"},"usage":{`+second+`}}`)))
	if got := string(turn.Answer()); !strings.Contains(got, `"usage":{`+sum+`}`) {
		t.Errorf("%s, want the usage %s", got, sum)
	}

	turn = newTurn(t, `{"input":"hi","background":true,"streaming":true}`, attached)
	send := func(run, usage string, events ...string) {
		t.Helper()
		request(t, turn)
		for i, e := range append(events, `{"message_type":"usage_statistics",`+usage) {
			must.Get(turn.Event(fmt.Appendf(nil, "data: %s,\"seq_id\":%d,\"run_id\":%q}\n\n", e, i+1, run)))(t)
		}
	}
	send("run-1", first, `{"message_type":"approval_request_message","id":"m-1","tool_calls":[{"name":"memory_insert","arguments":"{}","tool_call_id":"c-1"}]`,
		`{"message_type":"stop_reason","stop_reason":"requires_approval"`)
	rule(turn)
	send("run-2", second, `{"message_type":"stop_reason","stop_reason":"end_turn"`)
	tail := turn.Tail()
	if got, want := string(tail[len(tail)-1]), `data: {"message_type":"usage_statistics",`+sum+`,"seq_id":5,"run_id":"run-1"}`; strings.TrimSpace(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
