package letta

import (
	"encoding/json"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// toolObserver extracts tool calls and results from a run's response, whole or streamed by
// message or by token.
type toolObserver struct {
	rt    memproxy.Route
	shape shape
	names map[string]string // of the tools, by call id
	// fragments are the arguments of unfinished calls by call id, order their ids, and size
	// their total length in bytes. over reports that a bound was exceeded.
	fragments map[string]string
	order     []string
	size      int
	over      bool
}

// Bounds of the buffered unfinished calls. Calls beyond them are reported as one unclear
// call.
const (
	maxObservedCalls = 1024
	maxObservedParts = 1 << 20 // bytes
)

// ObserveTools implements the gate's AgentRunner: it extracts the texts of tool calls, and of
// the results of calls that the server ran. Results of the caller's own tools are in the
// caller's requests, which the gate reads.
func (a *Adapter) ObserveTools(rt memproxy.Route) memproxy.ToolObserver {
	return &toolObserver{rt: rt, shape: a.Row(rt.ID).Shape, names: map[string]string{}, fragments: map[string]string{}}
}

// Observe implements memproxy.ToolObserver.
func (o *toolObserver) Observe(body []byte) (calls, results []memproxy.ToolTexts) {
	if o.rt.Kind != memproxy.Run || len(body) == 0 {
		return nil, nil
	}
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return nil, nil
	}
	if v := doc.Root.Get("func_return"); o.shape == toolRun && v != nil {
		if doc.Root.Get("status").Text() == "success" && isThirdPartyTool(o.rt.Params["tool_name"]) {
			results = append(results, memproxy.ToolTexts{Texts: appendTexts(nil, v, false)})
		}
		return nil, results
	}
	messages := []*jsondoc.Value{doc.Root}
	if list := doc.Root.Get("messages"); list != nil && list.Kind == jsondoc.Array {
		messages = list.Elems
	}
	for _, m := range messages {
		fragments := turn.CallValues(m)
		for _, c := range fragments {
			o.addFragment(c)
		}
		// In a token stream a call arrives in fragments, and the next message of
		// another kind ends it. Otherwise a list of calls is complete.
		if list := m.Get("tool_calls"); len(fragments) == 0 && m.Get("message_type").Text() != "ping" || list != nil && list.Kind == jsondoc.Array {
			calls = o.completed(calls)
		}
	}
	if len(messages) != 1 || messages[0] != doc.Root {
		calls = o.completed(calls) // a whole answer, so no further message follows
	}
	for _, m := range messages {
		if m.Kind != jsondoc.Object || m.Get("message_type").Text() != "tool_return_message" {
			continue
		}
		list := m.Get("tool_returns").List()
		for _, e := range list {
			name := o.names[e.Get("tool_call_id").Text()]
			if name == "" && len(list) == 1 {
				name = m.Get("name").Text()
			}
			results = appendResult(results, name, e)
		}
		if len(list) == 0 {
			results = appendResult(results, m.Get("name").Text(), m)
		}
	}
	return calls, results
}

// addFragment records a call or a fragment of one. The first fragment has the tool's name. A
// fragment without an id belongs to the last call.
func (o *toolObserver) addFragment(c *jsondoc.Value) {
	id := c.Get("tool_call_id").Text()
	if id == "" && len(o.order) > 0 {
		id = o.order[len(o.order)-1]
	}
	more := c.Get("arguments").Text()
	if name := c.Get("name").Text(); name != "" && o.names[id] == "" && len(o.names) < maxObservedCalls {
		o.names[id] = name
	}
	if _, known := o.fragments[id]; !known {
		if len(o.order) == maxObservedCalls {
			o.over = true
			return
		}
		o.order = append(o.order, id)
	}
	if o.size += len(more); o.size <= maxObservedParts {
		o.fragments[id] += more
	} else {
		o.fragments[id], o.over = "", true
	}
}

// completed appends the buffered calls, which are complete, and clears the buffer.
func (o *toolObserver) completed(calls []memproxy.ToolTexts) []memproxy.ToolTexts {
	for _, id := range o.order {
		calls = append(calls, callText(id, o.fragments[id]))
	}
	if o.over {
		calls = append(calls, memproxy.ToolTexts{Unclear: true})
	}
	clear(o.fragments)
	o.order, o.size, o.over = nil, 0, false
	return calls
}

// callText returns the strings and member names in a call's arguments. Arguments are
// unclear if they are incomplete, or if only the server's lenient parser accepts them.
func callText(id, arguments string) memproxy.ToolTexts {
	if arguments == "" {
		return memproxy.ToolTexts{Call: id}
	}
	doc, err := jsondoc.Parse([]byte(arguments), 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return memproxy.ToolTexts{Call: id, Unclear: true}
	}
	return memproxy.ToolTexts{Call: id, Texts: appendTexts(nil, doc.Root, true)}
}

// isThirdPartyTool reports whether a tool's result comes from a third party. Of the server's
// own tools only those that fetch pages or files count: run_code executes code that the agent
// wrote, other agents belong to the caller, and memories are checked when they are read.
func isThirdPartyTool(name string) bool {
	tool, own := selfedit.Tools[name]
	return name != "" && (!own || tool.Uses == selfedit.Outside)
}

// appendResult appends the result of a call, unless the call failed: an error may repeat the
// arguments.
func appendResult(out []memproxy.ToolTexts, name string, v *jsondoc.Value) []memproxy.ToolTexts {
	id := v.Get("tool_call_id").Text()
	if id == "" || !isThirdPartyTool(name) || v.Get("status").Text() != "success" {
		return out
	}
	return append(out, memproxy.ToolTexts{Call: id, Texts: appendTexts(nil, v.Get("tool_return"), false)})
}

// appendTexts appends the strings in a value, and its member names if names is set. It parses
// strings that contain JSON.
func appendTexts(out []string, v *jsondoc.Value, names bool) []string {
	if v == nil {
		return out
	}
	if v.Kind == jsondoc.String {
		text := v.Text()
		if inner := []byte(text); len(text) > 0 && (text[0] == '{' || text[0] == '[') && json.Valid(inner) {
			if doc, err := jsondoc.Parse(inner, 0); err == nil {
				return appendTexts(out, doc.Root, names)
			}
		}
		return append(out, text)
	}
	for _, e := range v.Elems {
		out = appendTexts(out, e, names)
	}
	for _, m := range v.Members {
		if names {
			out = append(out, m.Name)
		}
		out = appendTexts(out, m.Value, names)
	}
	return out
}
