package turn

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// maxKept bounds what is kept of a pause that streams, in bytes. Over it the turn
// breaks off: the agent waits, and the next turn asks the server what for.
const maxKept = 8 << 20

var errPieces = errors.New("letta: a pause streams more than can be kept of it")

// Event takes one server-sent event of a request and returns what the caller sees
// of it now. The ends of requests are kept back: only the last one ends the stream.
func (t *Turn) Event(event []byte) ([][]byte, error) {
	t.out.said = false
	name, data := fieldsOf(event)
	if name != "" || len(data) == 0 {
		return [][]byte{event}, nil // an error, a cancellation, a comment
	}
	if bytes.Equal(data, []byte("[DONE]")) {
		t.out.done = true
		return nil, nil
	}
	doc, err := jsondoc.Parse(data, 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return [][]byte{event}, nil // not the format: nothing in it is a pause
	}
	kind := doc.Root.Get("message_type").Text()
	owed := t.returned(kind, doc)
	numbered, err := t.number(doc)
	if err != nil {
		return nil, err
	}
	if numbered != doc {
		doc, data, event = numbered, numbered.Src, dataEvent(numbered.Src)
	}
	out, err := t.event(event, data, kind, doc)
	return append(owed, out...), err
}

func (t *Turn) event(event, data []byte, kind string, doc *jsondoc.Doc) ([][]byte, error) {
	switch kind {
	case "stop_reason":
		reason := doc.Root.Get("stop_reason").Text()
		ended, err := t.ruledOut(doc, doc.Root)
		if err == nil && ended != doc {
			event = dataEvent(ended.Src)
		}
		t.stopped(event, reason)
		if err != nil || t.asking() {
			return nil, err
		}
		return t.untold()
	case "usage_statistics":
		t.out.use = data
		t.out.add(doc, doc.Root)
		return nil, nil
	case "approval_request_message":
		return t.pause(event, doc)
	case "ping":
		return [][]byte{event}, nil
	default:
		if t.reminds(doc, doc.Root) {
			return nil, nil
		}
		if kind == "tool_return_message" {
			t.rules.last = doc.Root.Get("tool_return").Text()
			t.let.returns(doc.Root)
		}
		if t.types != nil && !slices.Contains(t.types, kind) {
			return nil, nil
		}
		return [][]byte{event}, nil
	}
}

// fieldsOf are an event's name and data (WHATWG HTML, section 9.2.6).
func fieldsOf(event []byte) (name string, data []byte) {
	lines := 0
	for line := range bytes.Lines(event) {
		line = bytes.TrimRight(line, "\r\n")
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if lines++; lines > 1 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(rest, []byte(" "))...)
		} else if rest, ok := bytes.CutPrefix(line, []byte("event:")); ok {
			name = string(bytes.TrimSpace(rest))
		}
	}
	return name, data
}

func dataEvent(data []byte) []byte {
	return append(append([]byte("data: "), data...), "\n\n"...)
}

// stopped ends a request.
func (t *Turn) stopped(event []byte, reason string) {
	t.out.requests++
	t.out.stop, t.out.shift = event, t.out.seq
	calls := make([]*call, len(t.out.order))
	for i, id := range t.out.order {
		calls[i] = t.out.partial[id]
		calls[i].arguments, calls[i].pieces = string(calls[i].pieces), nil
	}
	request := t.out.request
	t.out.partial, t.out.order, t.out.request, t.out.kept = nil, nil, "", 0
	t.calls = nil
	if reason == "requires_approval" {
		t.paused(calls, request)
	}
	t.out.pieces = false
}

// pause passes a pause on as the caller sees it, whole or a fragment of one.
func (t *Turn) pause(event []byte, doc *jsondoc.Doc) ([][]byte, error) {
	if t.out.partial == nil {
		t.out.partial = map[string]*call{}
	}
	t.out.request = doc.Root.Get("id").Text()
	list := doc.Root.Get("tool_calls")
	whole := list != nil && list.Kind == jsondoc.Array
	l := late{doc: doc, message: doc.Root, fragment: !whole}
	t.out.pieces = t.out.pieces || l.fragment
	for _, c := range callsOf(doc.Root) {
		l.calls = append(l.calls, t.fragment(c))
	}
	late := len(t.out.late) > 0 || slices.ContainsFunc(l.calls, t.asks)
	if late {
		t.out.kept += len(doc.Src)
	}
	if t.out.kept > maxKept {
		return nil, errPieces
	}
	if late {
		t.out.late = append(t.out.late, l)
		return nil, nil
	}
	shown, err := t.tell(l)
	return events(shown), err
}

// tell is a message or a fragment of a pause as the caller sees it.
func (t *Turn) tell(l late) ([]json.RawMessage, error) {
	doc := l.doc
	switch {
	case !l.fragment:
		return t.shown(doc, l.message)
	case !slices.ContainsFunc(l.calls, t.hides):
		return t.wanted("approval_request_message", doc.Src), nil
	}
	// A fragment of one call, whose name came in the first.
	e := doc.Edit()
	e.Replace(doc.Root.Get("message_type"), strconv.AppendQuote(nil, "tool_call_message"))
	return t.wanted("tool_call_message", e.Apply()), nil
}

// fragment adds a fragment to its call and returns that.
func (t *Turn) fragment(f *call) *call {
	id := f.id
	if id == "" && len(t.out.order) > 0 {
		id = t.out.order[len(t.out.order)-1]
	}
	c := t.out.partial[id]
	if c == nil {
		c = &call{id: id}
		t.out.partial[id] = c
		t.out.order = append(t.out.order, id)
	}
	if c.name == "" {
		c.name = f.name
	}
	c.pieces = append(c.pieces, f.arguments...)
	t.out.kept += len(f.arguments)
	return c
}

func events(raws []json.RawMessage) [][]byte {
	var out [][]byte
	for _, raw := range raws {
		out = append(out, dataEvent(raw))
	}
	return out
}

// Tail are the events that end the stream: the last request's, with the usage of
// all.
func (t *Turn) Tail() [][]byte {
	var out [][]byte
	if t.out.stop != nil {
		out = append(out, t.out.stop)
	}
	if t.out.use != nil {
		total, err := t.out.total(t.out.use)
		if err != nil {
			total = t.out.use
		}
		out = append(out, dataEvent(total))
	}
	if t.out.done {
		out = append(out, dataEvent([]byte("[DONE]")))
	}
	return out
}
