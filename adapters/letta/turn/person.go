package turn

import (
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// A tool rule of the agent can require a person's approval for a memory tool. The
// caller sees such a pause only once its calls are ruled on, so that nobody is asked
// about a call that is refused anyway.

// late is a message of a pause, or a fragment of one, that is held back from the
// caller.
type late struct {
	doc      *jsondoc.Doc
	fragment bool
	calls    []*call
	at       int // index in the messages of a JSON answer; -1 in a stream
}

// asks reports whether a person must approve a call of a memory tool. Client tools that
// the caller named are the caller's, and searches are ruled on when they are made.
func (s *toolset) asks(c *call) bool {
	gated, shadowed := s.gated[c.name]
	return shadowed && !gated && s.server[c.name] && !memoryTools[c.name].search && !s.recovers
}

// hides reports whether memproxy answers a call, so that the caller is not asked.
func (s *toolset) hides(c *call) bool { return s.gated[c.name] || s.refused[c.id] }

// asking reports whether calls need a ruling before a person is asked about them.
func (p *pause) asking() bool {
	return slices.ContainsFunc(p.calls, func(c *call) bool { return c.person })
}

// Asked implements memproxy.Turn.
func (t *Turn) Asked() []memproxy.ToolCall {
	return t.unruled(func(c *call) bool { return c.person })
}

// Handed implements memproxy.Turn. All calls of a pause are answered at once: if the
// caller must answer one of them, the refused ones wait for that.
func (t *Turn) Handed() ([][]byte, bool, error) {
	if t.pause.asking() {
		t.hand()
	}
	if len(t.out.late) == 0 {
		return nil, false, nil
	}
	l := t.out.late[0]
	if l.at >= 0 {
		t.out.told()
		return nil, false, nil
	}
	t.out.late = t.out.late[1:]
	if n, ok := numberOf(l.doc); ok {
		t.out.seq, t.out.said = n, true
	}
	return events(t.out.tell(l)), len(t.out.late) > 0, nil
}

// hand applies the rulings on calls that a person would be asked about.
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

// told inserts the held back messages of a pause at their place in the answer.
func (s *stitched) told() {
	for _, l := range slices.Backward(s.late) {
		s.messages = slices.Insert(s.messages, l.at, s.tell(l)...)
	}
	s.late = nil
}

// untold returns the held back events as the caller sees them.
func (s *stitched) untold() [][]byte {
	var all [][]byte
	for _, l := range s.late {
		all = append(all, s.tell(l)...)
	}
	s.late = nil
	return events(all)
}
