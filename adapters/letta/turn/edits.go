package turn

import (
	"bytes"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
)

// NewestPassages is the query for an agent's newest passages. Its limit is low because each
// may come with an embedding of 4096 numbers.
const NewestPassages = "ascending=false&limit=10"

// allowedCall is an allowed call with its predicted changes and the result that the
// server reported.
type allowedCall struct {
	id     string
	effect selfedit.Effect
	blocks bool // the call writes blocks, not passages

	ended, failed bool // according to the server's result
	output        string
}

// confirmed reports whether the server's result confirms the prediction: block tools
// return the block's new text. Changed labels must be read back, and so must new blocks
// and passages, because the server assigns their ids.
func (c *allowedCall) confirmed() bool {
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
	return ch.Kind == selfedit.Written && becomes == ch.After && ch.After.Value == c.output
}

// predictsLabel reports whether the call is predicted to change a block with this label.
func (c *allowedCall) predictsLabel(label string) bool {
	return slices.ContainsFunc(c.effect.Changes, func(ch selfedit.Change) bool { return ch.Before.Label == label || ch.After.Label == label })
}

// allowedCalls are the calls that one request allows.
type allowedCalls struct {
	calls     []*allowedCall
	before    []memproxy.Memory // the blocks before the request
	archive   []memproxy.Memory // the newest passages after it
	requested bool              // the side requests for the results were added
	readBack  bool              // the blocks must be requested again
}

// predict predicts the memory changes of the calls that are about to run, in order.
func predict(calls []*call, by *caller, s *view) (l allowedCalls) {
	l.before = s.memories
	blocks := s.blocks
	for _, c := range calls {
		if !selfedit.Tools[c.name].Writes() || !c.byGate || !by.lets(c) {
			continue
		}
		p := &allowedCall{id: c.id, blocks: selfedit.Tools[c.name].Uses == selfedit.Blocks}
		if args, fits := c.args(); fits {
			p.effect = selfedit.Simulate(c.name, args, blocks)
			blocks = p.effect.Blocks
		}
		l.calls = append(l.calls, p)
		if c.result != nil { // memproxy made the call itself
			l.setResult(c.id, c.result.Status, c.result.Return)
		}
	}
	return l
}

// allow records the calls that the next request allows.
func allow(t *Turn, calls []*call) {
	t.allowed = predict(calls, &t.caller, &t.view)
	t.view.requested = false // the calls change the blocks
}

// args returns the arguments of a call. fits is false if the server would not run the
// tool with them.
func (c *call) args() (args selfedit.Args, fits bool) {
	doc, err := jsondoc.Parse([]byte(c.arguments), 0)
	if err == nil && doc.Root.Kind == jsondoc.Object {
		args, fits, err = selfedit.Read(c.name, doc)
	}
	return args, fits && err == nil
}

func (l *allowedCalls) setResult(id, status, said string) {
	for _, p := range l.calls {
		if p.id == id {
			p.ended, p.failed, p.output = true, status != "success", said
		}
	}
}

func (l *allowedCalls) setResults(m *jsondoc.Value) {
	said := []*jsondoc.Value{m}
	if list := m.Get("tool_returns"); list != nil {
		said = list.Elems
	}
	for _, e := range said {
		l.setResult(e.Get("tool_call_id").Text(), e.Get("status").Text(), e.Get("tool_return").Text())
	}
}

// requestResults requests the memory that the allowed calls changed, unless their results
// already confirm the predictions.
func requestResults(t *Turn) {
	t.allowed.requested, t.allowed.readBack = true, slices.ContainsFunc(t.allowed.calls, func(p *allowedCall) bool { return p.blocks && !p.confirmed() })
	if t.allowed.readBack && !t.view.requested {
		requestBlocks(t)
	}
	if slices.ContainsFunc(t.allowed.calls, (*allowedCall).addedPassages) {
		requestMemory(t, Get(t.opt.Prefix, NewestPassages, "agents", t.agent, "archival-memory"), func(doc *jsondoc.Doc) {
			for _, e := range doc.Root.Elems {
				t.allowed.archive = append(t.allowed.archive, t.opt.Memory(doc, e, t.agent))
			}
		})
	}
}

// addedPassages reports whether a call succeeded and added passages.
func (c *allowedCall) addedPassages() bool { return c.ended && !c.failed && len(c.effect.Passages) > 0 }

// TakeEdits implements memproxy.Edits.
func (t *Turn) TakeEdits() []memproxy.Edit {
	l, archive := t.allowed, t.allowed.archive
	t.view.requested = blocksKnown(t)
	t.allowed, t.lookups = allowedCalls{}, Lookups{} // what could not be read back is not asked for again
	out := make([]memproxy.Edit, len(l.calls))
	for i, c := range l.calls {
		out[i].Call = c.id
	}
	switch {
	case !l.readBack:
		l.report(l.before, true, out)
	case t.view.requested:
		l.report(t.view.memories, false, out)
	}
	for i, c := range slices.Backward(l.calls) { // newest first, in the order of the archive
		if !c.addedPassages() {
			continue
		}
		for _, p := range slices.Backward(c.effect.Passages) {
			at := slices.IndexFunc(archive, func(m memproxy.Memory) bool { return m.Text == p.Text })
			if at < 0 {
				continue // newer passages filled the listed page
			}
			out[i].Memories = append(out[i].Memories, archive[at])
			archive = archive[at+1:]
		}
	}
	return out
}

// report adds the differences between the blocks before and after the calls to out; if there
// are the blocks before, the predicted differences. If the predictions lead to the new text of a
// block, each call gets its own change; otherwise the last call gets the whole change. A
// detached block is not reported, because its text still exists.
func (l *allowedCalls) report(there []memproxy.Memory, predicted bool, out []memproxy.Edit) {
	report := func(m memproxy.Memory) { // adds it to the last call that names the block, else to the last that writes blocks
		last := -1
		for i, c := range l.calls {
			if c.blocks && (last < 0 || c.predictsLabel(m.Field) || !l.calls[last].predictsLabel(m.Field)) {
				last = i
			}
		}
		out[last].Memories = append(out[last].Memories, m)
	}
	for _, m := range there {
		i := slices.IndexFunc(l.before, func(b memproxy.Memory) bool { return b.ID == m.ID })
		if i < 0 {
			m.Event = memproxy.MemoryAdded
			report(m)
			continue
		}
		was := l.before[i]
		if was.Members != nil && m.Members != nil && !bytes.Equal(was.Members, m.Members) {
			members := m
			members.Event, members.PreviousMembers = memproxy.MemoryUnchanged, was.Members
			report(members)
		}
		now := m.Text
		m.Text, m.Event, m.Members = was.Text, memproxy.MemoryUpdated, nil
		changes := make([][]memproxy.Memory, len(l.calls))
		for i, c := range l.calls {
			for _, ch := range c.effect.Changes {
				if ch.Before.Label == was.Field && ch.Before.Value == m.Text && ch.After.Value != m.Text {
					m.Before, m.Text = m.Text, ch.After.Value
					changes[i] = append(changes[i], m)
				}
			}
		}
		if predicted || m.Text == now && was.Text != now {
			for i := range changes {
				out[i].Memories = append(out[i].Memories, changes[i]...)
			}
		} else if was.Text != now {
			m.Before, m.Text = was.Text, now
			report(m)
		}
	}
}

// ToolRun is one call of a memory tool that a request makes on behalf of an agent,
// outside of any turn. It implements memproxy.ToolRun.
type ToolRun struct {
	*Turn
	call *call
}

// NewToolRun returns the call, or nil if the call does not write the agent's memory.
func NewToolRun(opt Options, tool, arguments string) memproxy.ToolRun {
	if !selfedit.Tools[tool].Writes() || opt.Agent == "" {
		return nil
	}
	r := &ToolRun{&Turn{opt: opt, agent: opt.Agent}, &call{name: tool, arguments: arguments, byGate: true}}
	if selfedit.Tools[tool].Uses == selfedit.Blocks {
		requestBlocks(r.Turn)
	}
	return r
}

// ReadSideReply implements memproxy.Edits. If the server refuses to show the agent, it also
// refuses the call, so that nothing needs to be known.
func (r *ToolRun) ReadSideReply(reply memproxy.Reply) error {
	if slices.Contains([]int{401, 403, 404, 422}, reply.Status) && r.view.requested {
		r.lookups, r.view.requested = Lookups{}, false
		return nil
	}
	return r.Turn.ReadSideReply(reply)
}

// Current implements memproxy.ToolRun.
func (r *ToolRun) Current() map[string]memproxy.Memory {
	calls := predict([]*call{r.call}, &r.caller, &r.view).calls
	return r.view.named(r.agent, func(label string) bool { return len(calls) > 0 && calls[0].predictsLabel(label) })
}

// AddContent implements memproxy.ToolRun. If the arguments cannot be read it adds nothing;
// the adapter's decoder already made them content of op.
func (r *ToolRun) AddContent(op *memproxy.Operation) {
	args, fits := r.call.args()
	if !fits || !blocksKnown(r.Turn) {
		return
	}
	c, blocks, n := toolCall{name: r.call.name, args: args, op: op}, r.view.blocks, len(op.Items)
	c.addEffects(&blocks)
	c.replaces(r.agent, n)
	for i := n; i < len(op.Items); i++ {
		op.Items[i].Role, op.Items[i].Inferred = "", false // the caller wrote the text, and no model
	}
}

// ReadAnswer reads the response body with the call's result. Without a result that can be
// read, what the call changed is read back.
func (r *ToolRun) ReadAnswer(body []byte) error {
	allow(r.Turn, []*call{r.call})
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return err
	}
	r.allowed.setResult("", doc.Root.Get("status").Text(), doc.Root.Get("func_return").Text())
	return nil
}
