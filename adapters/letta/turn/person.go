package turn

import (
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
)

// A tool rule of the agent can require a person's approval for a memory tool. memproxy
// holds such a pause back from the caller until its calls are ruled on, so that a person
// is never asked about a call that policy refuses.

// heldPart is a message of a pause, or a fragment of one, that is held back from the
// caller.
type heldPart struct {
	doc      *jsondoc.Doc
	fragment bool
	calls    []*call
	inAnswer bool // the message is in a JSON answer, not in a stream
}

// needsPerson reports whether a person must approve a call of a memory tool. It is false
// for client tools of the caller, which the caller runs, and for searches, which are ruled
// on when they are made.
func (s *toolset) needsPerson(c *call) bool {
	gated, shadowed := s.gated[c.name]
	return shadowed && !gated && s.server[c.name] && selfedit.Tools[c.name].Uses != selfedit.Memories && !s.recovers
}

// gateAnswers reports whether memproxy answers a call, so that the caller is not asked.
func (s *toolset) gateAnswers(c *call) bool { return s.gated[c.name] || s.refused[c.id] }

// asksPerson reports whether some call needs a ruling before a person is asked about it.
func (p *pause) asksPerson() bool {
	return slices.ContainsFunc(p.calls, func(c *call) bool { return c.needsPerson })
}

// ApprovalCalls implements memproxy.Turn.
func (t *Turn) ApprovalCalls() []memproxy.ToolCall {
	return t.unruled(func(c *call) bool { return c.needsPerson })
}

// ReleasePause implements memproxy.Turn. All calls of a pause are answered in one request: if
// the caller must answer one of them, the refused ones wait for the caller's answer.
func (t *Turn) ReleasePause() (shown [][]byte, more bool) {
	if t.pause.asksPerson() {
		applyPersonRulings(t)
	}
	if len(t.out.held) == 0 {
		return nil, false
	}
	l := t.out.held[0]
	t.out.held = t.out.held[1:]
	shown, more = t.out.shownPart(l), len(t.out.held) > 0
	if l.inAnswer {
		t.out.messages = append(t.out.messages, shown...)
		return nil, more
	}
	if n, ok := numberOf(l.doc); ok {
		t.out.seq, t.out.numbered = n, true
	}
	return streamEvents(shown), more
}

// applyPersonRulings applies the rulings on calls that a person would be asked about:
// memproxy answers the refused ones, and the caller answers the others.
func applyPersonRulings(t *Turn) {
	byCaller := false
	for _, c := range t.pause.calls {
		if c.needsPerson && c.ruled {
			c.byGate = true
			t.tools.refused[c.id] = true
		}
		c.needsPerson = false
		byCaller = byCaller || !c.byGate && (t.requests > 0 || t.caller.answerOf(c.id) == nil)
	}
	switch {
	case byCaller:
		recordCallerPause(t, t.pause.calls, t.pause.messageID)
		t.pause.calls, t.pause.messageID = nil, ""
	case t.requests > 0:
		t.tools.constrain(t.pause.calls)
	}
}
