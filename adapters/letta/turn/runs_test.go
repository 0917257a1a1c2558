package turn

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
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
