package letta

import (
	"bytes"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// makes reports whether a route that creates nothing by its kind may make
// objects all the same, which are then the caller's.
func makes(r *row) bool {
	switch r.id {
	case "letta.modify_agent", // an agent that begins to sleep gets another
		"letta.upsert_identity",
		"letta.create_tool", "letta.upsert_tool", "letta.add_mcp_tool",
		"letta.create_batch":
		return true
	}
	return false
}

// beside reads what came to be by such a request: the object itself where it
// is no agent, and the agents that belong to one. An answer that is not JSON, or
// none, tells of nothing.
func beside(rd *memproxy.Reading, reply memproxy.Reply) error {
	if len(bytes.TrimSpace(reply.Body)) == 0 {
		return nil
	}
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err != nil {
		return err
	}
	f := finding{rd: rd, doc: doc}
	switch id := doc.Root.Get("id").Text(); KindOf(id) {
	case TargetAgent:
		f.group(doc.Root)
	case TargetTool:
		if !common(doc.Root) {
			f.came(id)
		}
	default:
		f.came(id)
	}
	return nil
}

// came notes an object that is the caller's unless it is somebody's already.
func (f *finding) came(id string) {
	if KindOf(id) != "" && !slices.Contains(f.rd.Made, id) {
		f.rd.Made = append(f.rd.Made, id)
	}
}

// group notes the group of an agent, which the server makes with it, and the
// agents in it.
func (f *finding) group(agent *jsondoc.Value) {
	for _, name := range [...]string{"managed_group", "multi_agent_group"} { // the older name of the same
		g := agent.Get(name)
		if g == nil || g.Kind != jsondoc.Object {
			continue
		}
		f.came(g.Get("id").Text())
		if list := g.Get("agent_ids"); list != nil {
			for _, e := range list.Elems {
				f.came(e.Text())
			}
		}
	}
}

// archives notes the archives of passages: the server makes an agent's with
// its first passage.
func (f *finding) archives(list *jsondoc.Value) {
	for _, e := range list.Elems {
		f.came(e.Get("archive_id").Text())
	}
}
