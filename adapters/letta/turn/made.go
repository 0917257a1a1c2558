package turn

import (
	"bytes"
	"net/url"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
)

// Newest is the query for an agent's newest passages. Its limit is low because each may
// come with an embedding of 4096 numbers.
const Newest = "ascending=false&limit=10"

// Events of a memory, as the gate names them.
const (
	added   = "ADD"
	updated = "UPDATE"
	kept    = "NONE" // its text is unchanged
)

// passed is an allowed call: its predicted changes, and the result that the server
// reported.
type passed struct {
	id     string
	effect selfedit.Effect
	blocks bool // it writes blocks, not passages

	ended, failed bool // as the server reported
	said          string
}

// sure reports whether the server's result confirms the prediction: block tools return
// the block's new text. New blocks and passages, whose ids the server assigns, and
// changed labels must be read back.
func (c *passed) sure() bool {
	switch {
	case !c.ended:
		return false
	case c.failed:
		return c.effect.Refused && len(c.effect.Changes) == 0
	case len(c.effect.Changes) != 1:
		return false
	}
	ch := c.effect.Changes[0]
	becomes := ch.Before
	becomes.Value = ch.After.Value
	return ch.Kind == selfedit.Written && becomes == ch.After && ch.After.Value == c.said
}

// names reports whether a call is predicted to change a block with this label.
func (c *passed) names(label string) bool {
	return slices.ContainsFunc(c.effect.Changes, func(ch selfedit.Change) bool { return ch.Before.Label == label || ch.After.Label == label })
}

// following holds the calls that the last request allowed.
type following struct {
	calls   []*passed
	was     []memproxy.Memory // the blocks before the request
	archive []memproxy.Memory // the newest passages after it
	settled bool              // the side requests for the results are known
	unsure  bool              // the blocks must be read back
}

// foresee predicts the memory changes of the calls that are about to run, in order.
func foresee(calls []*call, by *caller, s *view) (l following) {
	l.was = s.there
	blocks := s.blocks
	for _, c := range calls {
		if own := by.answerOf(c.id); !memoryTools[c.name].writes() || !c.mine || c.decision.Verdict.Stops() || own != nil && !own.approves {
			continue
		}
		p := &passed{id: c.id, blocks: WritesBlocks(c.name)}
		if args, fits := c.args(); fits {
			p.effect = selfedit.Run(c.name, args, blocks)
			blocks = p.effect.Blocks
		}
		if l.calls = append(l.calls, p); c.result != nil { // memproxy made the call itself
			l.hear(c.id, c.result.Status, c.result.Return)
		}
	}
	return l
}

// args returns the arguments of a call. Fits is false if the server would not run the
// tool with them.
func (c *call) args() (args selfedit.Args, fits bool) {
	doc, err := jsondoc.Parse([]byte(c.arguments), 0)
	if err == nil && doc.Root.Kind == jsondoc.Object {
		args, fits, err = selfedit.Read(c.name, doc)
	}
	return args, fits && err == nil
}

// hear records the result of a call that the server ran.
func (l *following) hear(id, status, said string) {
	for _, p := range l.calls {
		if p.id == id {
			p.ended, p.failed, p.said = true, status != "success", said
		}
	}
}

// returns records the results in a message.
func (l *following) returns(m *jsondoc.Value) {
	said := []*jsondoc.Value{m}
	if list := m.Get("tool_returns"); list != nil {
		said = list.Elems
	}
	for _, e := range said {
		l.hear(e.Get("tool_call_id").Text(), e.Get("status").Text(), e.Get("tool_return").Text())
	}
}

// settle requests the memory that the calls changed, as far as their results do not
// show it.
func settle(t *Turn) {
	t.let.settled, t.let.unsure = true, slices.ContainsFunc(t.let.calls, func(p *passed) bool { return p.blocks && !p.sure() })
	if t.let.unsure && !t.view.looking {
		others := t.view.looks
		t.view.look(&t.opt, t.agent)
		t.view.looks = append(t.view.looks, others...)
	}
	if slices.ContainsFunc(t.let.calls, (*passed).adds) {
		t.view.looks = append(t.view.looks, look{Get(t.opt.Prefix+"/agents/"+url.PathEscape(t.agent)+"/archival-memory", Newest), func(doc *jsondoc.Doc) {
			for _, e := range doc.Root.Elems {
				t.let.archive = append(t.let.archive, t.opt.Memory(doc, e, t.agent))
			}
		}})
	}
}

// adds reports whether a call added passages.
func (c *passed) adds() bool { return c.ended && !c.failed && len(c.effect.Passages) > 0 }

// Made implements memproxy.Edits.
func (t *Turn) Made() []memproxy.Edit {
	l, archive := t.let, t.let.archive
	t.let = following{}
	out := make([]memproxy.Edit, len(l.calls))
	for i, c := range l.calls {
		out[i].Call = c.id
	}
	switch {
	case !l.unsure:
		l.foreseen(nil, out)
	case t.view.looked:
		l.seen(t.view.there, out)
	}
	for i, c := range slices.Backward(l.calls) { // newest first, as the archive is listed
		if !c.adds() {
			continue
		}
		for _, p := range slices.Backward(c.effect.Passages) {
			at := slices.IndexFunc(archive, func(m memproxy.Memory) bool { return m.Text == p.Text })
			if at < 0 {
				continue // newer passages have pushed it out of the list
			}
			out[i].Memories = append(out[i].Memories, archive[at])
			archive = archive[at+1:]
		}
	}
	return out
}

// foreseen reports the predicted changes of text, of one block or, if of is nil, of
// all.
func (l *following) foreseen(of *memproxy.Memory, out []memproxy.Edit) {
	for i, c := range l.calls {
		for _, ch := range c.effect.Changes {
			at := slices.IndexFunc(l.was, func(m memproxy.Memory) bool { return m.Field == ch.Before.Label })
			if at < 0 || ch.After.Value == ch.Before.Value || of != nil && l.was[at].ID != of.ID {
				continue
			}
			m := l.was[at]
			m.Text, m.Before, m.Event, m.Members = ch.After.Value, ch.Before.Value, updated, nil
			out[i].Memories = append(out[i].Memories, m)
		}
	}
}

// seen reports the changes of blocks that were read before and after the calls. If
// several calls changed a block and their predictions lead to its text, each call gets
// its own change; otherwise the last call gets all of it. A detached block is not
// reported: its text still exists.
func (l *following) seen(there []memproxy.Memory, out []memproxy.Edit) {
	tell := func(m memproxy.Memory) { // to the last call that names the block, else to the last that writes blocks
		last := -1
		for i, c := range l.calls {
			if c.blocks && (last < 0 || c.names(m.Field) || !l.calls[last].names(m.Field)) {
				last = i
			}
		}
		out[last].Memories = append(out[last].Memories, m)
	}
	for _, m := range there {
		i := slices.IndexFunc(l.was, func(b memproxy.Memory) bool { return b.ID == m.ID })
		if i < 0 {
			m.Event = added
			tell(m)
			continue
		}
		was := l.was[i]
		if was.Members != nil && m.Members != nil && !bytes.Equal(was.Members, m.Members) {
			members := m
			members.Event, members.Was = kept, was.Members
			tell(members)
		}
		if was.Text == m.Text {
			continue
		}
		becomes, makers := was.Text, 0
		for _, c := range l.calls {
			for _, ch := range c.effect.Changes {
				if ch.Before.Label == was.Field && ch.Before.Value == becomes && ch.After.Value != becomes {
					becomes, makers = ch.After.Value, makers+1
				}
			}
		}
		if becomes == m.Text && makers > 1 {
			l.foreseen(&m, out)
			continue
		}
		m.Event, m.Before, m.Members = updated, was.Text, nil
		tell(m)
	}
}

// ToolRun is one call of a memory tool that a request makes on behalf of an agent,
// outside of any turn. It implements memproxy.ToolRun.
type ToolRun struct {
	*Turn
	call *call
}

// NewToolRun returns the call, or nil if it writes no memory of the agent.
func NewToolRun(opt Options, tool, arguments string) *ToolRun {
	if !memoryTools[tool].writes() || opt.Agent == "" {
		return nil
	}
	r := &ToolRun{&Turn{opt: opt, agent: opt.Agent, known: true, asked: true}, &call{name: tool, arguments: arguments, mine: true}}
	if WritesBlocks(tool) {
		r.view.look(&r.opt, r.agent)
	}
	return r
}

// Prepared implements memproxy.Edits. The server refuses the call itself if it does not
// show the agent.
func (r *ToolRun) Prepared(reply memproxy.Reply) error {
	if slices.Contains([]int{401, 403, 404, 422}, reply.Status) && r.view.looking {
		r.view.looks, r.view.looking = nil, false
		return nil
	}
	return r.Turn.Prepared(reply)
}

// Makes implements memproxy.ToolRun. Arguments that cannot be read are content as they
// are.
func (r *ToolRun) Makes(op *memproxy.Operation) {
	args, fits := r.call.args()
	if !fits || !r.view.looked {
		return
	}
	c, blocks, n := toolCall{name: r.call.name, args: args, op: op}, r.view.blocks, len(op.Items)
	c.makes(&blocks)
	c.replaces(r.agent, n)
	for i := n; i < len(op.Items); i++ {
		op.Items[i].Role, op.Items[i].Inferred = "", false // the caller says it, and no model
	}
}

// Whole takes the response body.
func (r *ToolRun) Whole(body []byte) error {
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return err
	}
	r.let = foresee([]*call{r.call}, &r.caller, &r.view)
	r.let.hear("", doc.Root.Get("status").Text(), doc.Root.Get("func_return").Text())
	return nil
}
