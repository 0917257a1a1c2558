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

// missingReturns returns the results of calls that the server does not run, and reports
// whether other calls run. If no call runs, the server's token stream has no results, but
// the caller saw the calls and expects their results. In all other cases the server sends
// them, and owed is nil.
func (by *caller) missingReturns(calls []*call) (owed []toolReturn, runs bool) {
	for _, c := range calls {
		if c.byGate && c.result != nil && !c.decision.Verdict.Stops() {
			owed = append(owed, *c.result)
			continue
		}
		if !c.byGate || !c.decision.Verdict.Stops() {
			answer := by.answerOf(c.id)
			runs = runs || answer == nil || answer.approves
			continue
		}
		owed = append(owed, toolReturn{
			Type: "tool", Status: "error", ID: c.id, name: c.name, message: "message-" + c.decision.ID,
			Return: "Error: request to call tool denied. User reason: " + reasonOf(c.decision),
		})
	}
	if runs || !by.root.LaxTrue(by.root.Root.Get("stream_tokens")) {
		owed = nil
	}
	return owed, runs
}

// missingReturnEvent returns the missing results as an event, to be sent before the given
// one. It returns nil if the given event is itself a result.
func (s *stitched) missingReturnEvent(kind string, doc *jsondoc.Doc) [][]byte {
	if len(s.missingReturns) == 0 || kind == "ping" {
		return nil
	}
	owed := s.missingReturns
	s.missingReturns = nil
	if kind == "tool_return_message" {
		return nil
	}
	first := owed[0]
	var seq any
	if n, ok := numberOf(doc); ok {
		// The result takes the number of the event that follows it; later events shift by one.
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
