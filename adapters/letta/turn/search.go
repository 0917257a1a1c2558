package turn

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
)

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
		Request: memproxy.Request{
			Method: "POST", Path: prefix + "/agents/" + agent + "/tools/" + c.name + "/run",
			EscapedPath: prefix + "/agents/" + agent + "/tools/" + c.name + "/run",
		},
		Body: slices.Concat([]byte(`{"args":`), args, []byte("}")),
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
	r := &toolReturn{Type: "tool", Status: "error", ID: c.id, Return: "Error executing function " + c.name + ": the search failed", name: c.name, message: "message-" + c.decision.ID}
	doc, err := jsondoc.Parse(found.Body, 0)
	if found.Status != 200 || err != nil || doc.Root.Get("status").Text() != "success" {
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
