package letta

import (
	"encoding/json"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// listener hears a run, whole, by messages or by tokens.
type listener struct {
	rt    memproxy.Route
	shape shape
	names map[string]string // of the tools, by the calls' ids
	// parts are the arguments of calls that are being told of, by the calls' ids
	// in order, and how long all of them are.
	parts map[string]string
	order []string
	size  int
}

// What is kept of a run's calls is bounded: what comes after is reported as
// unclear.
const (
	maxHeardCalls = 1024
	maxHeardParts = 1 << 20 // bytes
)

// Listen implements the gate's observer: it hears what an agent said to tools, and
// what they said, as the results of the calls that the server ran. What a caller
// gives as the result of a tool of its own is in its request, and the gate knows.
func (a *Adapter) Listen(rt memproxy.Route) memproxy.Listener {
	l := &listener{rt: rt, names: map[string]string{}, parts: map[string]string{}}
	if r := a.Row(rt.ID); r != nil {
		l.shape = r.shape
	} else {
		l.rt.Kind = memproxy.Other
	}
	return l
}

// Hear implements memproxy.Listener.
func (l *listener) Hear(body []byte) (calls, results []memproxy.ToolWords) {
	if l.rt.Kind != memproxy.Run || len(body) == 0 {
		return nil, nil
	}
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return nil, nil
	}
	if v := doc.Root.Get("func_return"); l.shape == toolRun && v != nil {
		if doc.Root.Get("status").Text() == "success" && speaks(l.rt.Params["tool_name"]) {
			results = append(results, memproxy.ToolWords{Texts: texts(nil, v, false)})
		}
		return nil, results
	}
	messages := []*jsondoc.Value{doc.Root}
	if list := doc.Root.Get("messages"); list != nil && list.Kind == jsondoc.Array {
		messages = list.Elems
	}
	for _, m := range messages {
		told := callsOf(m)
		for _, c := range told {
			l.part(c)
		}
		// By tokens, a call comes in one object at a time, and the next message
		// of another kind ends it; by messages, a list of calls is whole.
		if list := m.Get("tool_calls"); len(told) == 0 && m.Get("message_type").Text() != "ping" || list != nil && list.Kind == jsondoc.Array {
			calls = l.told(calls)
		}
	}
	if len(messages) != 1 || messages[0] != doc.Root {
		calls = l.told(calls) // there is no next one
	}
	for _, m := range messages {
		if m.Kind != jsondoc.Object || m.Get("message_type").Text() != "tool_return_message" {
			continue
		}
		list := m.Get("tool_returns").List()
		for _, e := range list {
			name := l.names[e.Get("tool_call_id").Text()]
			if name == "" && len(list) == 1 {
				name = m.Get("name").Text()
			}
			results = result(results, name, e)
		}
		if len(list) == 0 {
			results = result(results, m.Get("name").Text(), m)
		}
	}
	return calls, results
}

// part takes a call in, or a part of one: the name comes with the first, and a
// part without an id belongs to the last call.
func (l *listener) part(c *jsondoc.Value) {
	id := c.Get("tool_call_id").Text()
	if id == "" && len(l.order) > 0 {
		id = l.order[len(l.order)-1]
	}
	more := c.Get("arguments").Text()
	if name := c.Get("name").Text(); name != "" && l.names[id] == "" && len(l.names) < maxHeardCalls {
		l.names[id] = name
	}
	if _, known := l.parts[id]; !known {
		if len(l.order) == maxHeardCalls {
			return
		}
		l.order = append(l.order, id)
	}
	if l.size += len(more); l.size <= maxHeardParts {
		l.parts[id] += more
	} else {
		l.parts[id] = ""
	}
}

// told appends the calls of which no more will come.
func (l *listener) told(calls []memproxy.ToolWords) []memproxy.ToolWords {
	for _, id := range l.order {
		calls = append(calls, told(id, l.parts[id]))
	}
	clear(l.parts)
	l.order, l.size = nil, 0
	return calls
}

// callsOf are the calls of tools that a message tells of: once each, though the
// server tells of a single one twice.
func callsOf(m *jsondoc.Value) []*jsondoc.Value {
	if list := m.Get("tool_calls").List(); len(list) > 0 {
		return list
	}
	if c := m.Get("tool_call"); c != nil && c.Kind == jsondoc.Object {
		return []*jsondoc.Value{c}
	}
	return nil
}

// told are the strings in a call's arguments, and the names of its members. Arguments of
// which a part is missing cannot be read.
func told(id, arguments string) memproxy.ToolWords {
	doc, err := jsondoc.Parse([]byte(arguments), 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return memproxy.ToolWords{Call: id, Unclear: true}
	}
	return memproxy.ToolWords{Call: id, Texts: texts(nil, doc.Root, true)}
}

// speaks reports whether what a tool gives back is said by another than the
// caller and its agents. Of the server's own tools those do that fetch something:
// code computes what an agent wrote, other agents are the caller's, and memories
// are looked at where they are read.
func speaks(name string) bool {
	switch name {
	case "":
		return false
	case "web_search", "fetch_webpage", "grep_files", "semantic_search_files":
		return true
	}
	return !builtIn(name) && !turn.Gated(name) && memoryTool(name).kind == ""
}

// result appends what one call gave back, unless it failed: what it says then
// may be its own argument.
func result(out []memproxy.ToolWords, name string, v *jsondoc.Value) []memproxy.ToolWords {
	id := v.Get("tool_call_id").Text()
	if id == "" || !speaks(name) || v.Get("status").Text() != "success" {
		return out
	}
	return append(out, memproxy.ToolWords{Call: id, Texts: texts(nil, v.Get("tool_return"), false)})
}

// texts appends the strings of a value, and with names those of its members; of a
// string that is JSON, the strings in it.
func texts(out []string, v *jsondoc.Value, names bool) []string {
	switch {
	case v == nil:
	case v.Kind == jsondoc.String:
		text := v.Text()
		if inner := []byte(text); len(text) > 0 && (text[0] == '{' || text[0] == '[') && json.Valid(inner) {
			if doc, err := jsondoc.Parse(inner, 0); err == nil {
				return texts(out, doc.Root, names)
			}
		}
		out = append(out, text)
	case v.Kind == jsondoc.Array:
		for _, e := range v.Elems {
			out = texts(out, e, names)
		}
	case v.Kind == jsondoc.Object:
		for _, m := range v.Members {
			if names {
				out = append(out, m.Name)
			}
			out = texts(out, m.Value, names)
		}
	}
	return out
}
