package letta

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// Images implements the gate's imager: the blocks that an agent has before it,
// for the tools that write them, and the newest of its archive.
func (a *Adapter) Images(rt memproxy.Route, req memproxy.Request, agent string, tc memproxy.ToolCall) []memproxy.Image {
	if agent == "" || !turn.Gated(tc.Tool) || turn.Searches(tc.Tool) {
		return nil
	}
	at := image{prefix: prefixOf(req), agent: agent, of: a.image}
	switch t := memoryTool(tc.Tool); {
	case t.kind == memproxy.Learn && len(t.args) == 0:
		at.name = "archive of " + agent
		return []memproxy.Image{at.begin(step{at.get("ascending=false&limit="+lookedAt, "agents", agent, "archival-memory"), (*image).archive})}
	case t.kind == memproxy.Correct:
		at.name = "blocks of " + agent
		first := []step{{at.get("include=agent.blocks", "agents", agent), (*image).agentBlocks}}
		if c := rt.Params["conversation_id"]; KindOf(c) == TargetConversation {
			// Some blocks may be the conversation's own.
			at.name += " in " + c
			first = append(first, step{at.get("", "conversations", c), (*image).isolated})
		}
		return []memproxy.Image{at.begin(first...)}
	}
	return nil // a message to another agent becomes that one's, and is told as such
}

// Called implements the gate's imager: a tool that is run from outside.
func (a *Adapter) Called(rt memproxy.Route, body []byte) (agent string, tc memproxy.ToolCall, ok bool) {
	if r := a.row(rt.ID); r == nil || r.shape != toolRun {
		return "", tc, false
	}
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return "", tc, false
	}
	tc = memproxy.ToolCall{Tool: rt.Params["tool_name"], Arguments: []byte("{}")}
	if args := doc.Root.Get("args"); args != nil && args.Kind == jsondoc.Object {
		tc.Arguments = doc.Raw(args)
	}
	return rt.Params["agent_id"], tc, true
}

// image implements memproxy.Image.
type image struct {
	name, prefix, agent string
	of                  func(kind string, v *jsondoc.Value, doc *jsondoc.Doc) []byte
	first, steps        []step
	memories            []memproxy.Memory
}

type step struct {
	request memproxy.Request
	take    func(*image, memproxy.Reply) error
}

func (m image) begin(first ...step) *image {
	m.first, m.steps = first, slices.Clone(first)
	return &m
}

func (m *image) get(query string, parts ...string) memproxy.Request {
	path := m.prefix
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	return memproxy.Request{Method: "GET", EscapedPath: path, Query: query, Header: memproxy.Header{"X-Stainless-Package-Version": {sdkVersion}}}
}

// Name implements memproxy.Image.
func (m *image) Name() string { return m.name }

// Again implements memproxy.Image.
func (m *image) Again() memproxy.Image {
	return image{name: m.name, prefix: m.prefix, agent: m.agent, of: m.of}.begin(m.first...)
}

// Ask implements memproxy.Image.
func (m *image) Ask() (memproxy.Request, bool) {
	if len(m.steps) == 0 {
		return memproxy.Request{}, false
	}
	return m.steps[0].request, true
}

// Answered implements memproxy.Image.
func (m *image) Answered(r memproxy.Reply) error {
	if r.Status < 200 || r.Status > 299 {
		return fmt.Errorf("letta: asked for what an agent remembers, the server answers %d", r.Status)
	}
	take := m.steps[0].take
	m.steps = m.steps[1:]
	return take(m, r)
}

// Memories implements memproxy.Image.
func (m *image) Memories() []memproxy.Memory { return m.memories }

func (m *image) read(r memproxy.Reply) (*finding, error) {
	doc, err := jsondoc.Parse(r.Body, 0)
	if err != nil {
		return nil, err
	}
	return &finding{rd: &memproxy.Reading{}, doc: doc, agent: m.agent}, nil
}

func (m *image) keep(f *finding) {
	for _, found := range f.rd.Memories {
		if found.ID != "" && !slices.ContainsFunc(m.memories, func(has memproxy.Memory) bool { return has.ID == found.ID }) {
			if v := f.doc.At(found.Pointer); v != nil && KindOf(found.ID) == TargetBlock {
				found.Members = m.of("block", v, f.doc) // agents relabel and describe their blocks, too
			}
			m.memories = append(m.memories, found)
		}
	}
}

func (m *image) agentBlocks(r memproxy.Reply) error {
	f, err := m.read(r)
	if err != nil {
		return err
	}
	if f.doc.Root.Kind != jsondoc.Object {
		return errShape
	}
	if err := f.inside(f.doc.Root); err != nil {
		return err
	}
	m.keep(f)
	return nil
}

func (m *image) isolated(r memproxy.Reply) error {
	f, err := m.read(r)
	if err != nil {
		return err
	}
	list := f.doc.Root.Get("isolated_block_ids")
	if list == nil || list.Kind != jsondoc.Array {
		return nil
	}
	for _, e := range list.Elems {
		if id := e.Text(); KindOf(id) == TargetBlock && len(m.steps) < 64 {
			m.steps = append(m.steps, step{m.get("", "blocks", id), (*image).ownBlock})
		}
	}
	return nil
}

// ownBlock is a block of the conversation's: it stands in the place of the
// agent's block of the same label.
func (m *image) ownBlock(r memproxy.Reply) error {
	f, err := m.read(r)
	if err != nil {
		return err
	}
	if err := f.element(f.doc.Root, ""); err != nil {
		return err
	}
	m.keep(f)
	return nil
}

func (m *image) archive(r memproxy.Reply) error {
	f, err := m.read(r)
	if err != nil {
		return err
	}
	if f.doc.Root.Kind != jsondoc.Array {
		return errShape
	}
	if err := f.list(f.doc.Root, ""); err != nil {
		return err
	}
	m.keep(f)
	return nil
}
