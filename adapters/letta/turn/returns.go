package turn

import (
	"encoding/json"

	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// toolReturn is the result of a call.
type toolReturn struct {
	Type   string  `json:"type"`
	Return string  `json:"tool_return"`
	Status string  `json:"status"`
	ID     string  `json:"tool_call_id"`
	Stdout *string `json:"stdout"`
	Stderr *string `json:"stderr"`

	name, message string
}

// owe collects the results of calls that the server does not run, and reports whether
// other calls run. A token stream of the server has results only if something ran, but
// the caller saw the calls and expects their results.
func (by *caller) owe(calls []*call) (owed []toolReturn, runs bool) {
	for _, c := range calls {
		if c.mine && c.result != nil && !c.decision.Verdict.Stops() {
			owed = append(owed, *c.result)
			continue
		}
		if !c.mine || !c.decision.Verdict.Stops() {
			answer := by.answerOf(c.id)
			runs = runs || answer == nil || answer.approves
			continue
		}
		owed = append(owed, toolReturn{
			Type: "tool", Status: "error", ID: c.id, name: c.name, message: "message-" + c.decision.ID,
			Return: "Error: request to call tool denied. User reason: " + reasonOf(c.decision),
		})
	}
	if runs || !by.root.Yes(by.root.Root.Get("stream_tokens")) {
		owed = nil
	}
	return owed, runs
}

// returned returns the owed results as an event, unless the server's next event is a
// result.
func (s *stitched) returned(kind string, doc *jsondoc.Doc) [][]byte {
	if len(s.owed) == 0 || kind == "ping" {
		return nil
	}
	owed := s.owed
	s.owed = nil
	if kind == "tool_return_message" {
		return nil
	}
	first := owed[0]
	var seq any
	if n, ok := numberOf(doc); ok {
		// It takes the number of the event that follows it.
		seq = n + s.shift
		s.shift++
	}
	raw, err := json.Marshal(map[string]any{
		"id": first.message, "date": doc.Root.Get("date").Text(), "name": first.name, "message_type": "tool_return_message",
		"otid": first.message, "sender_id": nil, "step_id": nil, "is_err": nil, "seq_id": seq, "run_id": s.run(doc.Root.Get("run_id").Text()),
		"tool_return": first.Return, "status": first.Status, "tool_call_id": first.ID, "stdout": nil, "stderr": nil, "tool_returns": owed,
	})
	if err != nil {
		return nil // plain strings always marshal
	}
	return events(s.wanted("tool_return_message", raw))
}
