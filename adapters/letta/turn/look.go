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
	take    func(*jsondoc.Doc)
}

// writesBlocks reports whether calls of a tool change blocks.
func writesBlocks(name string) bool {
	switch tool := memoryTools()[name]; {
	case tool.search, tool.read != nil, tool.kind == "", name == "archival_memory_insert", name == "store_memories":
		return false
	}
	return true
}

// sight is what is known of the blocks that calls write to.
type sight struct {
	opt     *Options
	agent   string
	looks   []look // what is to be asked for before the calls are ruled on
	blocks  []selfedit.Block
	there   []memproxy.Memory // the blocks, as the gate knows them
	looked  bool              // the blocks are known
	looking bool              // they are asked for
}

// look asks for the agent's blocks, and for those that the conversation has in
// place of them.
func (s *sight) look(o *Options, agent string) {
	s.opt, s.agent, s.blocks, s.there, s.looked, s.looking = o, agent, nil, nil, false, true
	s.looks = []look{{get(o.Prefix+"/agents/"+agent, "include=agent.blocks"), s.ofAgent}}
	if c := o.Conversation; c != "" && c != "default" {
		s.looks = append(s.looks, look{get(o.Prefix+"/conversations/"+c, ""), s.isolated})
	}
}

// seen takes the answer to a look. What cannot be looked at is not ruled on.
func (s *sight) seen(r memproxy.Reply) error {
	if len(s.looks) == 0 {
		return fmt.Errorf("letta: an answer to nothing that was asked")
	}
	if r.Status < 200 || r.Status > 299 {
		return fmt.Errorf("letta: asked for what an agent remembers, the server answers %d", r.Status)
	}
	doc, err := jsondoc.Parse(r.Body, 0)
	if err != nil {
		return err
	}
	take := s.looks[0].take
	s.looks = s.looks[1:]
	take(doc)
	s.looked = len(s.looks) == 0
	s.looking = s.looking && !s.looked
	return nil
}

// whole asks what waits as the server has it. A stream may leave out fragments
// of a call, those that came before its id: what is put together of the rest is
// not what would run.
func (p *pause) whole(o *Options, agent string) look {
	if c := o.Conversation; c != "" && c != "default" {
		return look{get(o.Prefix+"/conversations/"+c+"/messages", "order=desc&limit=20"), func(doc *jsondoc.Doc) { p.confirm(pauseOf(doc.Root)) }}
	}
	return look{get(o.Prefix+"/agents/"+agent, "include=agent.pending_approval"), func(doc *jsondoc.Doc) { p.confirm(doc.Root.Get("pending_approval")) }}
}

// confirm takes the arguments of the calls that wait. Calls that are not those
// of the stream have none, which is refused.
func (p *pause) confirm(as *jsondoc.Value) {
	var waiting []*call
	if as != nil && as.Kind == jsondoc.Object {
		waiting = callsOf(as)
	}
	for _, c := range p.calls {
		i := slices.IndexFunc(waiting, func(w *call) bool { return w.id == c.id && w.name == c.name })
		if c.arguments = ""; i >= 0 && len(waiting) == len(p.calls) {
			c.arguments = waiting[i].arguments
		}
	}
}

// ofAgent takes the agent's blocks.
func (s *sight) ofAgent(doc *jsondoc.Doc) {
	list := doc.Root.Get("blocks")
	if list == nil || list.Kind != jsondoc.Array {
		list = doc.Root.Get("memory").Get("blocks")
	}
	if list == nil {
		return
	}
	for _, e := range list.Elems {
		s.block(doc, e)
	}
}

// isolated asks for the blocks that the conversation has of its own.
func (s *sight) isolated(doc *jsondoc.Doc) {
	list := doc.Root.Get("isolated_block_ids")
	if list == nil {
		return
	}
	for _, e := range list.Elems {
		if id := e.Text(); plainID(id) && len(s.looks) < maxOwn {
			s.looks = append(s.looks, look{get(s.opt.Prefix+"/blocks/"+id, ""), func(doc *jsondoc.Doc) { s.block(doc, doc.Root) }})
		}
	}
}

// block takes a block. A later one of the same label stands in the place of
// the first.
func (s *sight) block(doc *jsondoc.Doc, v *jsondoc.Value) {
	m := s.opt.memory(doc, v, s.agent)
	b := selfedit.Block{
		Label: v.Get("label").Text(), Value: v.Get("value").Text(), Description: v.Get("description").Text(),
		ReadOnly: v.Get("read_only") != nil && v.Get("read_only").Kind == jsondoc.Bool && v.Get("read_only").End-v.Get("read_only").Start == len("true"),
	}
	for i := range s.blocks {
		if s.blocks[i].Label == b.Label {
			s.blocks[i], s.there[i] = b, m
			return
		}
	}
	s.blocks, s.there = append(s.blocks, b), append(s.there, m)
}
