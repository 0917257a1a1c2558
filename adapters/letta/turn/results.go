package turn

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
)

type toolReturn struct {
	Type   string  `json:"type"`
	Return string  `json:"tool_return"`
	Status string  `json:"status"`
	ID     string  `json:"tool_call_id"`
	Stdout *string `json:"stdout"`
	Stderr *string `json:"stderr"`

	name, message string
}

// missingReturns returns the results of calls that the server does not run, if the server
// omits them: its token stream has no results if no call runs, but the caller saw the calls
// and expects their results. runs reports whether a call runs.
func (by *caller) missingReturns(calls []*call) (missing []toolReturn, runs bool) {
	for _, c := range calls {
		switch {
		case c.denied():
			missing = append(missing, toolReturn{
				Type: "tool", Status: "error", ID: c.id, name: c.name, message: "message-" + cmp.Or(c.decision.ID, c.id),
				Return: "Error: request to call tool denied. User reason: " + reasonOf(c.decision),
			})
		case c.byGate && c.result != nil:
			missing = append(missing, *c.result)
		default:
			runs = runs || by.lets(c)
		}
	}
	if runs || !by.root.LaxTrue(by.root.Root.Get("stream_tokens")) {
		missing = nil
	}
	return missing, runs
}

// missingReturnEvent returns the missing results as an event, to be sent before the given
// one. It returns nil if the given event is itself a result.
func (s *stitched) missingReturnEvent(kind string, doc *jsondoc.Doc) [][]byte {
	if len(s.missingReturns) == 0 || kind == "ping" {
		return nil
	}
	missing := s.missingReturns
	s.missingReturns = nil
	if kind == "tool_return_message" {
		return nil
	}
	first := missing[0]
	var seq any
	if n, ok := numberOf(doc); ok {
		// The result takes the number of the event that follows it; later events shift by one.
		seq = n + s.shift
		s.shift++
	}
	raw := marshal(map[string]any{
		"id": first.message, "date": doc.Root.Get("date").Text(), "name": first.name, "message_type": "tool_return_message",
		"otid": strings.TrimPrefix(first.message, "message-"), "sender_id": nil, "step_id": nil, "is_err": nil, "seq_id": seq, "run_id": s.run(doc.Root.Get("run_id").Text()),
		"tool_return": first.Return, "status": first.Status, "tool_call_id": first.ID, "stdout": nil, "stderr": nil, "tool_returns": missing,
	})
	return streamEvents(s.wanted("tool_return_message", raw))
}

// reserved returns the arguments that only memproxy may write: its own keys, and tags
// with its prefix, which would look like provenance.
func reserved(root *jsondoc.Value) []string {
	var out []string
	for _, m := range root.Members {
		if strings.HasPrefix(m.Name, memproxy.StampPrefix) {
			out = append(out, jsondoc.Child("", m.Name))
		}
	}
	for i, e := range root.Get("tags").List() {
		if strings.HasPrefix(e.Text(), memproxy.StampPrefix) {
			out = append(out, jsondoc.Index("/tags", i))
		}
	}
	return out
}

// direct returns a request to the server's route that runs a tool, for the same call
// without reserved arguments.
func (c *call) direct(prefix, agent string) *memproxy.SideRequest {
	args := []byte(c.arguments)
	if doc, err := jsondoc.Parse(args, 0); err == nil && doc.Root.Kind == jsondoc.Object {
		e := doc.Edit()
		e.Object(doc.Root, func(m *jsondoc.Member) bool {
			return selfedit.ReadByLoop(m.Name) || strings.HasPrefix(m.Name, memproxy.StampPrefix)
		}, nil)
		if tags := doc.Root.Get("tags"); tags != nil && tags.Kind == jsondoc.Array {
			e.Array(tags, func(i int) bool { return strings.HasPrefix(tags.Elems[i].Text(), memproxy.StampPrefix) })
		}
		args = e.Apply()
	}
	return &memproxy.SideRequest{
		Request: memproxy.Request{Method: "POST", EscapedPath: Get(prefix, "", "agents", agent, "tools", c.name, "run").EscapedPath},
		Body:    slices.Concat([]byte(`{"args":`), args, []byte("}")),
	}
}

// Result implements memproxy.Turn. The agent gets the result of a search as JSON, where
// the server would format it in Python.
func (t *Turn) Result(id string, found memproxy.Reply) {
	for _, c := range t.pause.calls {
		if c.id == id {
			c.result = resultOf(c, found)
		}
	}
}

func resultOf(c *call, found memproxy.Reply) *toolReturn {
	r := &toolReturn{Type: "tool", Status: "error", ID: c.id, Return: "Error executing function " + c.name + ": the call failed", name: c.name, message: "message-" + c.decision.ID}
	doc, err := jsondoc.Parse(found.Body, 0)
	if found.Status != 200 || err != nil {
		return r
	}
	if doc.Root.Get("status").Text() != "success" {
		for _, why := range doc.Root.Get("stderr").List() {
			r.Return = cmp.Or(why.Text(), r.Return) // begins with "Error executing function", too
		}
		return r
	}
	r.Status = "success"
	switch v := doc.Root.Get("func_return"); {
	case v == nil || v.Kind == jsondoc.Null:
		r.Return = "None" // the server's text for no result
	case v.Kind == jsondoc.String:
		r.Return = v.Text()
	default:
		r.Return = string(doc.Raw(v))
	}
	return r
}
