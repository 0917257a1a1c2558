package embedded

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

func (l *answer) usage() map[string]any {
	var runs any
	if l.follows != nil {
		runs = l.follows
	}
	return map[string]any{
		"message_type": "usage_statistics", "completion_tokens": 5 * l.steps, "prompt_tokens": 10 * l.steps,
		"total_tokens": 15 * l.steps, "step_count": l.steps, "run_ids": runs, "context_tokens": 15,
	}
}

func (l *answer) wanted() []message {
	if l.q.Types == nil {
		return l.messages
	}
	return slices.DeleteFunc(slices.Clone(l.messages), func(m message) bool { return !slices.Contains(l.q.Types, m.Type) })
}

func (l *answer) whole() map[string]any {
	return map[string]any{
		"messages": l.wanted(), "stop_reason": map[string]string{"message_type": "stop_reason", "stop_reason": l.stop},
		"usage": l.usage(), "logprobs": nil, "turns": nil,
	}
}

// fragment is the size of the pieces in which a token stream sends arguments.
const fragment = 16

// stream begins with the ping that names the run.
func (l *answer) stream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	send := func(v any) {
		b, _ := json.Marshal(v) // plain structs always marshal
		fmt.Fprintf(w, "data: %s\n\n", b)
		_ = http.NewResponseController(w).Flush()
	}
	ping := map[string]any{"message_type": "ping", "id": "ping-" + l.run, "run_id": l.run}
	if n := l.number(); n != nil {
		ping["seq_id"] = n
	}
	send(ping)
	for _, m := range l.wanted() {
		if l.q.Tokens && m.Type == "tool_return_message" && !m.ran {
			continue // the server's token streams report only executed calls
		}
		if l.q.Tokens && (m.Type == "tool_call_message" || m.Type == "approval_request_message") {
			l.tokens(m, send)
			continue
		}
		m.Seq = l.number()
		send(m)
	}
	send(map[string]string{"message_type": "stop_reason", "stop_reason": l.stop})
	send(l.usage())
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// tokens sends calls in fragments: first the name, then pieces of the arguments. A fragment
// has its call in an object, and a whole message has its calls in a list.
func (l *answer) tokens(m message, send func(any)) {
	part := func(id string, name, args any) {
		c := map[string]any{"name": name, "arguments": args, "tool_call_id": id}
		send(map[string]any{"id": m.ID, "date": m.Date, "message_type": m.Type, "run_id": m.RunID, "tool_call": c, "tool_calls": c, "seq_id": l.number()})
	}
	for _, c := range m.ToolCalls {
		part(c.ID, c.Name, nil)
		for rest := c.Arguments; rest != ""; {
			n := min(fragment, len(rest))
			part(c.ID, nil, rest[:n])
			rest = rest[n:]
		}
	}
}
