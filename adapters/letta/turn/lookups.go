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

type lookup struct {
	request memproxy.Request
	take    func(*jsondoc.Doc)
}

// view holds the blocks that the waiting calls write to.
type view struct {
	opt      *Options
	agent    string
	lookups  []lookup // side requests to send before the rulings
	blocks   []selfedit.Block
	memories []memproxy.Memory // the same blocks, as gate memories
	isolated map[string]string // ids of the conversation's isolated blocks, which replace the agent's, by label
	loaded   bool              // the blocks are known
	loading  bool              // they are being requested
}

// requestBlocks requests the agent's blocks, and the conversation's isolated blocks, which
// replace agent blocks of the same label.
func (v *view) requestBlocks(o *Options, agent string) {
	v.opt, v.agent, v.blocks, v.memories, v.loaded, v.loading = o, agent, nil, nil, false, true
	v.isolated = map[string]string{}
	v.lookups = []lookup{{Get(o.Prefix, "include=agent.blocks", "agents", agent), func(doc *jsondoc.Doc) {
		for _, e := range Blocks(doc.Root).List() {
			v.setBlock(doc, e)
		}
	}}}
	if c := o.Conversation; c != "" {
		v.lookups = append(v.lookups, lookup{Get(o.Prefix, "", "conversations", c), v.requestIsolated})
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

// takeReply reads the answer to the first lookup. If it fails, no waiting call is ruled on.
func (v *view) takeReply(r memproxy.Reply) error {
	if r.Status < 200 || r.Status > 299 {
		return fmt.Errorf("letta: the request for the agent's memory returned status %d", r.Status)
	}
	doc, err := jsondoc.Parse(r.Body, 0)
	if err != nil {
		return err
	}
	take := v.lookups[0].take
	v.lookups = v.lookups[1:]
	take(doc)
	v.loaded = len(v.lookups) == 0
	v.loading = v.loading && !v.loaded
	return nil
}

// requestStored requests the waiting calls as the server stores them. A stream may omit
// fragments of a call that precede its id; the arguments joined from the stream then
// differ from the stored ones, which the server would run.
func (p *pause) requestStored(o *Options, agent string) lookup {
	if c := o.Conversation; c != "" {
		return lookup{Get(o.Prefix, "order=desc&limit=20", "conversations", c, "messages"), func(doc *jsondoc.Doc) { p.setStored(pauseOf(doc.Root)) }}
	}
	return lookup{Get(o.Prefix, "include=agent.pending_approval", "agents", agent), func(doc *jsondoc.Doc) { p.setStored(doc.Root.Get("pending_approval")) }}
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
		if c.arguments = ""; alike {
			c.arguments = waiting[stored(c)].arguments
		}
	}
}

// requestIsolated requests the isolated blocks that the answer with the conversation lists.
func (v *view) requestIsolated(doc *jsondoc.Doc) {
	for _, e := range doc.Root.Get("isolated_block_ids").List() {
		if id := e.Text(); plainID(id) && len(v.lookups) < maxIsolated {
			v.lookups = append(v.lookups, lookup{Get(v.opt.Prefix, "", "blocks", id), func(doc *jsondoc.Doc) {
				v.setBlock(doc, doc.Root)
				v.isolated[doc.Root.Get("label").Text()] = id
			}})
		}
	}
}

// retarget sets the targets of a call to the conversation's isolated blocks. It reports
// whether the call writes to at least one of them.
func (v *view) retarget(op *memproxy.Operation) (own bool) {
	for i := range op.Items {
		it := &op.Items[i]
		id, here := v.isolated[it.Field]
		if own = own || here; here && it.Target != "" {
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
func (v *view) setBlock(doc *jsondoc.Doc, e *jsondoc.Value) {
	m := v.opt.Memory(doc, e, v.agent)
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
