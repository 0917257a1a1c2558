package turn

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// maxKept bounds the buffered bytes of a streaming pause. If a pause is longer the turn
// fails; the agent stays paused, and the next turn requests the calls from the server.
const maxKept = 8 << 20

var errPieces = errors.New("letta: the streamed approval request exceeds the buffer limit")

// Event reads one server-sent event of a request and returns the events to send to the
// caller now. The events that end a request are held back, because only those of the last
// request end the stream.
func (t *Turn) Event(event []byte) ([][]byte, error) {
	t.out.numbered = false
	data, others := memproxy.SplitStreamEvent(event)
	switch {
	case memproxy.HasEventName(others): // an error or a cancellation
		return namedEvent(t, event, data, others)
	case len(data) == 0: // a comment
		return [][]byte{event}, nil
	}
	if bytes.Equal(data, []byte("[DONE]")) {
		t.out.done = true
		return nil, nil
	}
	doc, err := jsondoc.Parse(data, 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return [][]byte{event}, nil // another format, which cannot be a pause
	}
	kind := doc.Root.Get("message_type").Text()
	if t.out.startsRun(kind, doc) {
		return nil, nil
	}
	missing := t.out.missingReturnEvent(kind, doc)
	if numbered := t.out.number(doc); numbered != doc {
		doc, event = numbered, memproxy.JoinStreamEvent(numbered.Src)
	}
	out, err := unnamedEvent(t, event, kind, doc)
	return append(missing, out...), err
}

// unnamedEvent returns the events to send for a numbered event without a name.
func unnamedEvent(t *Turn, event []byte, kind string, doc *jsondoc.Doc) ([][]byte, error) {
	switch kind {
	case "stop_reason":
		reason := doc.Root.Get("stop_reason").Text()
		if fixed := t.tools.rules.fixStopReason(doc, doc.Root); fixed != doc {
			event = memproxy.JoinStreamEvent(fixed.Src)
		}
		held := streamEvents(t.ended(reason))
		t.out.stopEvent = event
		return held, nil
	case "usage_statistics":
		t.out.usageEvent = doc
		t.out.addUsage(doc)
		return nil, nil
	case "ping":
		return [][]byte{event}, nil
	}
	t.out.refusable = false
	shown, err := t.out.message(doc, false)
	if kind != "approval_request_message" && len(shown) > 0 {
		return [][]byte{event}, nil
	}
	return streamEvents(shown), err
}

// stopped ends a request and returns the calls of its pause and the id of their
// message.
func (s *stitched) stopped() (calls []*call, request string) {
	s.requests++
	calls, request = s.order, s.request
	for _, c := range calls {
		c.arguments, c.pieces = string(c.pieces), nil
	}
	s.partial, s.order, s.request, s.heldBytes = nil, nil, "", 0
	return calls, request
}

// message reads a message of an answer or of a stream, where the messages of a pause can
// arrive in fragments. It returns what the caller sees of it now.
func (s *stitched) message(doc *jsondoc.Doc, inAnswer bool) ([][]byte, error) {
	if doc.Root.Get("message_type").Text() != "approval_request_message" {
		return s.shown(doc), nil
	}
	if s.partial == nil {
		s.partial = map[string]*call{}
	}
	s.request = doc.Root.Get("id").Text()
	list := doc.Root.Get("tool_calls")
	whole := inAnswer || list != nil && list.Kind == jsondoc.Array
	l := heldPart{doc: doc, fragment: !whole, inAnswer: inAnswer}
	s.pieces = s.pieces || l.fragment
	for _, c := range callsOf(doc.Root) {
		l.calls = append(l.calls, s.fragment(c))
	}
	late := len(s.held) > 0 || slices.ContainsFunc(l.calls, s.tools.needsPerson)
	if late {
		s.heldBytes += len(doc.Src)
	}
	if s.heldBytes > maxKept && !inAnswer {
		return nil, errPieces
	}
	if late {
		s.held = append(s.held, l)
		return nil, nil
	}
	return s.shownPart(l), nil
}

// shownPart returns a message or a fragment of a pause as the caller sees it.
func (s *stitched) shownPart(l heldPart) [][]byte {
	doc := l.doc
	switch {
	case !l.fragment:
		return s.shown(doc)
	case !slices.ContainsFunc(l.calls, s.tools.gateAnswers):
		return s.wanted("approval_request_message", doc.Src)
	}
	// A fragment belongs to one call. Only the first fragment has the tool's name.
	e := doc.Edit()
	e.Replace(doc.Root.Get("message_type"), jsondoc.Quote("tool_call_message"))
	return s.wanted("tool_call_message", e.Apply())
}

// fragment appends a fragment to its call and returns the call.
func (s *stitched) fragment(f *call) *call {
	id := f.id
	if id == "" && len(s.order) > 0 {
		id = s.order[len(s.order)-1].id
	}
	c := s.partial[id]
	if c == nil {
		c = &call{id: id}
		s.partial[id] = c
		s.order = append(s.order, c)
	}
	c.name = cmp.Or(c.name, f.name)
	c.pieces = append(c.pieces, f.arguments...)
	s.heldBytes += len(f.arguments)
	return c
}

func streamEvents(raws [][]byte) [][]byte {
	var out [][]byte
	for _, raw := range raws {
		out = append(out, memproxy.JoinStreamEvent(raw))
	}
	return out
}

// namedEvent returns a named event with the turn's run and number. If it ends the turn, the
// held events that end the request precede it: the server sends the stop reason before the
// error, and clients stop reading at the error. The server writes a step's metrics in the
// background, after the pause, and reads them before it makes the step's calls
// (letta/agents/letta_agent_v3.py).
func namedEvent(t *Turn, event, data []byte, others [][]byte) (out [][]byte, err error) {
	if doc, bad := jsondoc.Parse(data, 0); bad == nil && doc.Root.Kind == jsondoc.Object {
		if numbered := t.out.number(doc); numbered != doc {
			event = memproxy.JoinStreamEvent(numbered.Src, others...)
		}
		if t.out.refusable && strings.HasPrefix(doc.Root.Get("detail").Text(), "StepMetrics not found") {
			err = memproxy.ErrNotStored
			t.out.shift, t.out.started = t.out.seq, false
		}
	}
	if !t.Paused() { // a paused turn continues
		out = t.Tail()
		t.out.stopEvent, t.out.usageEvent, t.out.done = nil, nil, false
	}
	return append(out, event), err
}

// Tail returns the events that end the stream: those of the last request, with the usage
// of all requests.
func (t *Turn) Tail() [][]byte {
	var out [][]byte
	if t.out.stopEvent != nil {
		out = append(out, t.out.stopEvent)
	}
	if usage := t.out.usageEvent; usage != nil {
		e := usage.Edit()
		if t.out.requests > 1 {
			Sum(e, usage.Root, t.out.usage)
		}
		out = append(out, memproxy.JoinStreamEvent(e.Apply()))
	}
	if t.out.done {
		out = append(out, memproxy.JoinStreamEvent([]byte("[DONE]")))
	}
	return out
}
