package turn

import (
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
)

// maxOwn bounds the blocks that a conversation has of its own.
const maxOwn = 64

// A look is a side request about the blocks that calls write to.
type look struct {
	request memproxy.Request
	take    func(*Turn, *jsondoc.Doc)
}

// writesBlocks reports whether calls of a tool change blocks.
func writesBlocks(name string) bool {
	switch tool := memoryTools()[name]; {
	case tool.search, tool.read != nil, tool.kind == "", name == "archival_memory_insert", name == "store_memories":
		return false
	}
	return true
}

// look asks for the agent's blocks, and for those that the conversation has in
// place of them.
func (t *Turn) look() {
	t.blocks, t.there, t.looked, t.looking = nil, nil, false, true
	t.looks = []look{{get(t.opt.Prefix+"/agents/"+t.agent, "include=agent.blocks"), agentBlocks}}
	if c := t.opt.Conversation; c != "" && c != "default" {
		t.looks = append(t.looks, look{get(t.opt.Prefix+"/conversations/"+c, ""), isolated})
	}
}

// seen takes the answer to a look. What cannot be looked at is not ruled on.
func (t *Turn) seen(r memproxy.Reply) error {
	if len(t.looks) == 0 {
		return fmt.Errorf("letta: an answer to nothing that was asked")
	}
	if r.Status < 200 || r.Status > 299 {
		return fmt.Errorf("letta: asked for what an agent remembers, the server answers %d", r.Status)
	}
	doc, err := jsondoc.Parse(r.Body, 0)
	if err != nil {
		return err
	}
	take := t.looks[0].take
	t.looks = t.looks[1:]
	take(t, doc)
	t.looked = len(t.looks) == 0
	t.looking = t.looking && !t.looked
	return nil
}

// whole asks what waits as the server has it. A stream may leave out fragments
// of a call, those that came before its id: what is put together of the rest is
// not what would run.
func whole(t *Turn) look {
	if c := t.opt.Conversation; c != "" && c != "default" {
		return look{get(t.opt.Prefix+"/conversations/"+c+"/messages", "order=desc&limit=20"), func(t *Turn, doc *jsondoc.Doc) { confirm(t, pauseOf(doc.Root)) }}
	}
	return look{get(t.opt.Prefix+"/agents/"+t.agent, "include=agent.pending_approval"), func(t *Turn, doc *jsondoc.Doc) { confirm(t, doc.Root.Get("pending_approval")) }}
}

// confirm takes the arguments of the calls that wait. Calls that are not those
// of the stream have none, which is refused.
func confirm(t *Turn, pause *jsondoc.Value) {
	var waiting []*call
	if pause != nil && pause.Kind == jsondoc.Object {
		waiting = callsOf(pause)
	}
	for _, c := range t.calls {
		i := slices.IndexFunc(waiting, func(w *call) bool { return w.id == c.id && w.name == c.name })
		if c.arguments = ""; i >= 0 && len(waiting) == len(t.calls) {
			c.arguments = waiting[i].arguments
		}
	}
}

func agentBlocks(t *Turn, doc *jsondoc.Doc) {
	list := doc.Root.Get("blocks")
	if list == nil || list.Kind != jsondoc.Array {
		list = doc.Root.Get("memory").Get("blocks")
	}
	if list == nil {
		return
	}
	for _, e := range list.Elems {
		t.block(doc, e)
	}
}

func isolated(t *Turn, doc *jsondoc.Doc) {
	list := doc.Root.Get("isolated_block_ids")
	if list == nil {
		return
	}
	for _, e := range list.Elems {
		if id := e.Text(); plainID(id) && len(t.looks) < maxOwn {
			t.looks = append(t.looks, look{get(t.opt.Prefix+"/blocks/"+id, ""), ownBlock})
		}
	}
}

func ownBlock(t *Turn, doc *jsondoc.Doc) { t.block(doc, doc.Root) }

// block takes a block. A later one of the same label stands in the place of
// the first.
func (t *Turn) block(doc *jsondoc.Doc, v *jsondoc.Value) {
	m := t.opt.memory(doc, v, t.agent)
	b := selfedit.Block{
		Label: v.Get("label").Text(), Value: v.Get("value").Text(), Description: v.Get("description").Text(),
		ReadOnly: v.Get("read_only") != nil && v.Get("read_only").Kind == jsondoc.Bool && v.Get("read_only").End-v.Get("read_only").Start == len("true"),
	}
	for i := range t.blocks {
		if t.blocks[i].Label == b.Label {
			t.blocks[i], t.there[i] = b, m
			return
		}
	}
	t.blocks, t.there = append(t.blocks, b), append(t.there, m)
}
