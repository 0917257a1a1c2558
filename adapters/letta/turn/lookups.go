package turn

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
)

// maxIsolated bounds the isolated blocks of a conversation that are requested.
const maxIsolated = 64

// Lookups are side requests, in order, each with the function that reads its answer. They
// implement memproxy.SideRequests.
type Lookups struct{ queue []lookup }

type lookup struct {
	request memproxy.Request
	read    func(memproxy.Reply) error
}

// Add adds a request.
func (l *Lookups) Add(q memproxy.Request, read func(memproxy.Reply) error) {
	l.queue = append(l.queue, lookup{q, read})
}

// NextSideRequest implements memproxy.SideRequests.
func (l *Lookups) NextSideRequest() (memproxy.Request, bool) {
	if len(l.queue) == 0 {
		return memproxy.Request{}, false
	}
	return l.queue[0].request, true
}

// ReadSideReply implements memproxy.SideRequests. A request whose answer cannot be read stays
// the next one.
func (l *Lookups) ReadSideReply(r memproxy.Reply) error {
	if err := l.queue[0].read(r); err != nil {
		return err
	}
	l.queue = l.queue[1:]
	return nil
}

// Request adds a request for a document; what names it in errors. If the server answers 404,
// missing is called; if missing is nil, that is an error.
func (l *Lookups) Request(q memproxy.Request, what string, missing func(), read func(*jsondoc.Doc) error) {
	l.Add(q, func(r memproxy.Reply) error {
		switch {
		case r.Status == 404 && missing != nil:
			missing()
			return nil
		case !memproxy.IsSuccess(r.Status):
			return fmt.Errorf("letta: the request for %s returned status %d", what, r.Status)
		}
		doc, err := jsondoc.Parse(r.Body, 0)
		if err != nil {
			return err
		}
		return read(doc)
	})
}

// view holds the blocks that the waiting calls write to.
type view struct {
	blocks    []selfedit.Block
	memories  []memproxy.Memory // the same blocks, as gate memories
	isolated  map[string]string // ids of the conversation's isolated blocks, which replace the agent's, by label
	requested bool              // the blocks were requested
}

// blocksKnown reports whether the blocks were requested and read.
func blocksKnown(t *Turn) bool { return t.view.requested && len(t.lookups.queue) == 0 }

// requestMemory requests something of the agent's memory. If it cannot be read, no waiting call is ruled on.
func requestMemory(t *Turn, q memproxy.Request, read func(*jsondoc.Doc)) {
	t.lookups.Request(q, "the agent's memory", nil, func(doc *jsondoc.Doc) error { read(doc); return nil })
}

// requestBlocks requests the agent's blocks, and the conversation's isolated blocks, which
// replace agent blocks of the same label.
func requestBlocks(t *Turn) {
	t.view = view{isolated: map[string]string{}, requested: true}
	requestMemory(t, Get(t.opt.Prefix, "include=agent.blocks", "agents", t.agent), func(doc *jsondoc.Doc) {
		for _, e := range Blocks(doc.Root).List() {
			setBlock(t, doc, e)
		}
	})
	if c := t.opt.Conversation; c != "" {
		requestMemory(t, Get(t.opt.Prefix, "", "conversations", c), func(doc *jsondoc.Doc) { requestIsolated(t, doc) })
	}
}

// requestIsolated requests the isolated blocks that the answer with the conversation lists.
func requestIsolated(t *Turn, doc *jsondoc.Doc) {
	for _, e := range doc.Root.Get("isolated_block_ids").List() {
		if id := e.Text(); plainID(id) && len(t.lookups.queue) <= maxIsolated {
			requestMemory(t, Get(t.opt.Prefix, "", "blocks", id), func(doc *jsondoc.Doc) {
				setBlock(t, doc, doc.Root)
				t.view.isolated[doc.Root.Get("label").Text()] = id
			})
		}
	}
}

// requestStored requests the waiting calls as the server stores them. A stream may omit
// fragments of a call that precede its id; the arguments joined from the stream then
// differ from the stored ones, which the server would run.
func requestStored(t *Turn) {
	if c := t.opt.Conversation; c != "" {
		requestMemory(t, Get(t.opt.Prefix, newestMessages, "conversations", c, "messages"), func(doc *jsondoc.Doc) { t.pause.setStored(pauseOf(doc.Root)) })
		return
	}
	requestMemory(t, Get(t.opt.Prefix, "include=agent.pending_approval", "agents", t.agent), func(doc *jsondoc.Doc) { t.pause.setStored(doc.Root.Get("pending_approval")) })
}

// setStored sets the arguments of the waiting calls to the stored ones. If the stored
// calls are not a subset of the streamed ones, all get empty arguments, which are refused.
// An agent without parallel calls streams every call of its model and stores only the
// first; the others are dropped.
func (p *pause) setStored(told *jsondoc.Value) {
	var waiting []*call
	if told != nil && told.Kind == jsondoc.Object {
		waiting = callsOf(told)
	}
	stored := func(c *call) int {
		return slices.IndexFunc(waiting, func(w *call) bool { return w.id == c.id && w.name == c.name })
	}
	kept := slices.DeleteFunc(slices.Clone(p.calls), func(c *call) bool { return stored(c) < 0 })
	alike := len(kept) > 0 && len(kept) == len(waiting)
	if alike {
		p.calls = kept
	}
	for _, c := range p.calls {
		c.arguments = ""
		if alike {
			c.arguments = waiting[stored(c)].arguments
		}
	}
}

// named returns the blocks whose labels are wanted, by the names that targets have.
func (v *view) named(agent string, wanted func(label string) bool) map[string]memproxy.Memory {
	blocks := map[string]memproxy.Memory{}
	for _, m := range v.memories {
		if wanted(m.Field) {
			blocks[cmp.Or(v.isolated[m.Field], Target(agent, m.Field))] = m
		}
	}
	return blocks
}

// retarget sets the targets of a call to the conversation's isolated blocks. It reports
// whether the call writes to at least one of them.
func (v *view) retarget(op *memproxy.Operation) (own bool) {
	for i := range op.Items {
		it := &op.Items[i]
		id, here := v.isolated[it.Field]
		own = own || here
		if here && it.Target != "" {
			it.Target = id
		}
	}
	return own
}

// refresh takes over the blocks that the gate fetched once it had locked them for an admitted call.
func (v *view) refresh(op *memproxy.Operation) {
	if op == nil {
		return
	}
	for _, now := range op.Current {
		for i := range v.memories {
			if m := &v.memories[i]; m.ID == now.ID {
				m.Text, m.Members, v.blocks[i].Value = now.Text, now.Members, now.Text
			}
		}
	}
}

// setBlock records a block. It replaces an earlier block with the same label.
func setBlock(t *Turn, doc *jsondoc.Doc, e *jsondoc.Value) {
	m, v := t.opt.Memory(doc, e, t.agent), &t.view
	b := selfedit.Block{
		Label: e.Get("label").Text(), Value: e.Get("value").Text(), Description: e.Get("description").Text(),
		ReadOnly: doc.True(e.Get("read_only")),
	}
	for i := range v.blocks {
		if v.blocks[i].Label == b.Label {
			v.blocks[i], v.memories[i] = b, m
			return
		}
	}
	v.blocks, v.memories = append(v.blocks, b), append(v.memories, m)
}
