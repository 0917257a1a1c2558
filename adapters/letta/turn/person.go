package turn

import (
	"encoding/json"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// A rule of the agent's own may have a person approve the calls of a memory
// tool. Such a pause is kept from the caller until the request has stopped and its
// calls are ruled on, so that nobody is asked for what is refused anyhow.

// late is a message of a pause that the caller has not been told of, or a
// fragment of one with the calls that it is about.
type late struct {
	doc      *jsondoc.Doc
	message  *jsondoc.Value
	fragment bool
	calls    []*call
	at       int // its place in an answer in one piece
}

// asks reports whether a person is to be asked about a call before the server
// runs a memory tool. A tool that the caller brought along is the caller's; a
// search is ruled on when it is made.
func (s *toolset) asks(c *call) bool {
	gated, shadowed := s.gated[c.name]
	return shadowed && !gated && s.server[c.name] && !s.memory[c.name].search && !s.recovers
}

// hides reports whether a call is answered by memproxy, so that the caller sees
// no question.
func (s *toolset) hides(c *call) bool { return s.gated[c.name] || s.refused[c.id] }

// asking reports whether calls wait to be ruled on before a person is asked.
func (p *pause) asking() bool {
	return slices.ContainsFunc(p.calls, func(c *call) bool { return c.person })
}

// Asked implements memproxy.Turn.
func (t *Turn) Asked() []memproxy.ToolCall {
	return t.unruled(func(c *call) bool { return c.person })
}

// Handed implements memproxy.Turn. In one pause all calls are answered at once:
// where the caller has a say in any of them, the refused ones wait for that.
func (t *Turn) Handed() ([][]byte, bool, error) {
	if t.pause.asking() {
		t.hand()
	}
	if len(t.out.late) == 0 {
		return nil, false, nil
	}
	l := t.out.late[0]
	if l.message != l.doc.Root {
		return nil, false, t.out.told()
	}
	t.out.late = t.out.late[1:]
	if n, ok := numberOf(l.doc); ok {
		t.out.seq, t.out.said = n, true
	}
	shown, err := t.out.tell(l)
	return events(shown), len(t.out.late) > 0, err
}

// hand takes the rulings on what a person would be asked about.
func (t *Turn) hand() {
	others := false
	for _, c := range t.pause.calls {
		if c.person && c.ruled {
			c.mine = true
			t.tools.refused[c.id] = true
		}
		c.person = false
		others = others || !c.mine && (t.requests > 0 || t.caller.answerOf(c.id) == nil)
	}
	switch {
	case others:
		t.pause.calls, t.pause.request, t.pause.left = nil, "", ""
	case t.requests > 0:
		t.tools.constrain(t.pause.calls)
	}
}

// told puts what was not told yet of a pause in its place in the answer.
func (s *stitched) told() error {
	for i := len(s.late) - 1; i >= 0; i-- {
		l := s.late[i]
		shown, err := s.tell(l)
		if err != nil {
			return err
		}
		s.messages = slices.Insert(s.messages, l.at, shown...)
	}
	s.late = nil
	return nil
}

// untold are the events that were kept back of what is no pause.
func (s *stitched) untold() ([][]byte, error) {
	var all []json.RawMessage
	for _, l := range s.late {
		shown, err := s.tell(l)
		if err != nil {
			return nil, err
		}
		all = append(all, shown...)
	}
	s.late = nil
	return events(all), nil
}
