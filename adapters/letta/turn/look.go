package turn

import (
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
)

// maxOwn bounds the isolated blocks of a conversation.
const maxOwn = 64

// look is a side request for an agent's memory, and the function that takes its answer.
type look struct {
	request memproxy.Request
	take    func(*jsondoc.Doc)
}

// WritesBlocks reports whether calls of a tool change blocks.
func WritesBlocks(name string) bool {
	return memoryTools[name].writes() && name != "archival_memory_insert" && name != "store_memories"
}

// view holds the blocks that the waiting calls write to.
type view struct {
	opt     *Options
	agent   string
	looks   []look // side requests that precede the rulings
	blocks  []selfedit.Block
	there   []memproxy.Memory // the same blocks, as gate memories
	own     map[string]string // ids of the conversation's isolated blocks, which replace the agent's, by label
	looked  bool              // the blocks are known
	looking bool              // they are being requested
}

// look requests the agent's blocks, and the conversation's isolated blocks, which
// replace them.
func (v *view) look(o *Options, agent string) {
	v.opt, v.agent, v.blocks, v.there, v.looked, v.looking = o, agent, nil, nil, false, true
	v.own = map[string]string{}
	v.looks = []look{{Get(o.Prefix+"/agents/"+agent, "include=agent.blocks"), v.agentBlocks}}
	if c := o.Conversation; c != "" && c != "default" {
		v.looks = append(v.looks, look{Get(o.Prefix+"/conversations/"+c, ""), v.isolated})
	}
}

// seen takes the answer to a look. Calls are not ruled on if it fails.
func (v *view) seen(r memproxy.Reply) error {
	if len(v.looks) == 0 {
		return fmt.Errorf("letta: an answer to nothing that was asked")
	}
	if r.Status < 200 || r.Status > 299 {
		return fmt.Errorf("letta: asked for what an agent remembers, the server answers %d", r.Status)
	}
	doc, err := jsondoc.Parse(r.Body, 0)
	if err != nil {
		return err
	}
	take := v.looks[0].take
	v.looks = v.looks[1:]
	take(doc)
	v.looked = len(v.looks) == 0
	v.looking = v.looking && !v.looked
	return nil
}

// whole requests the waiting calls as the server stores them. A stream may omit
// fragments of a call that precede its id, so that the arguments put together from it
// differ from those that would run.
func (p *pause) whole(o *Options, agent string) look {
	if c := o.Conversation; c != "" && c != "default" {
		return look{Get(o.Prefix+"/conversations/"+c+"/messages", "order=desc&limit=20"), func(doc *jsondoc.Doc) { p.confirm(pauseOf(doc.Root)) }}
	}
	return look{Get(o.Prefix+"/agents/"+agent, "include=agent.pending_approval"), func(doc *jsondoc.Doc) { p.confirm(doc.Root.Get("pending_approval")) }}
}

// confirm sets the arguments of the waiting calls to the stored ones. Calls that differ
// from the stream's get none, which is refused. An agent that makes no calls in parallel
// streams all that its model makes, and has only the first: the others do not wait.
func (p *pause) confirm(told *jsondoc.Value) {
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
		if c.arguments = ""; alike {
			c.arguments = waiting[stored(c)].arguments
		}
	}
}

// agentBlocks takes the agent's blocks.
func (v *view) agentBlocks(doc *jsondoc.Doc) {
	list := doc.Root.Get("blocks")
	if list == nil || list.Kind != jsondoc.Array {
		list = doc.Root.Get("memory").Get("blocks")
	}
	for _, e := range list.List() {
		v.block(doc, e)
	}
}

// isolated requests the conversation's isolated blocks.
func (v *view) isolated(doc *jsondoc.Doc) {
	for _, e := range doc.Root.Get("isolated_block_ids").List() {
		if id := e.Text(); plainID(id) && len(v.looks) < maxOwn {
			v.looks = append(v.looks, look{Get(v.opt.Prefix+"/blocks/"+id, ""), func(doc *jsondoc.Doc) {
				v.block(doc, doc.Root)
				v.own[doc.Root.Get("label").Text()] = id
			}})
		}
	}
}

// place makes a call change the conversation's isolated blocks, where there are any,
// and reports whether there are.
func (v *view) place(op *memproxy.Operation) (own bool) {
	for i := range op.Items {
		it := &op.Items[i]
		id, here := v.own[it.Field]
		if own = own || here; here && it.Target != "" {
			it.Target = id
		}
	}
	return own
}

// block records a block. It replaces an earlier one with the same label.
func (v *view) block(doc *jsondoc.Doc, e *jsondoc.Value) {
	m := v.opt.Memory(doc, e, v.agent)
	b := selfedit.Block{
		Label: e.Get("label").Text(), Value: e.Get("value").Text(), Description: e.Get("description").Text(),
		ReadOnly: doc.True(e.Get("read_only")),
	}
	for i := range v.blocks {
		if v.blocks[i].Label == b.Label {
			v.blocks[i], v.there[i] = b, m
			return
		}
	}
	v.blocks, v.there = append(v.blocks, b), append(v.there, m)
}
