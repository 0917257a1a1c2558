package letta

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/adapters/stamps"
)

// Rewrite implements the gate's Adapter.
func (a *Adapter) Rewrite(rt memproxy.Route, req memproxy.Request, reply memproxy.Reply, rd *memproxy.Reading) ([]byte, error) {
	r := a.Row(rt.ID)
	types, query := onlyTypes(r, req.Query)
	history := rd.ShowsOwnActions || types != nil
	if !history && !slices.ContainsFunc(rd.Memories, changes) {
		return reply.Body, nil
	}
	doc, err := jsondoc.ParseReply(reply)
	if err != nil {
		return nil, err
	}
	out, err := rewrite(doc, rd.Memories)
	if err != nil || !history {
		return out, err
	}
	if doc, err = jsondoc.Parse(out, 0); err != nil {
		return nil, err
	}
	e := doc.Edit()
	if rt.ID == runMessages || rt.ID == "letta.list_messages_for_step" {
		query += "&order=asc" // these routes' default; an order in the request precedes it and counts
	}
	hidePause(e, doc, query, types, rt.ID == "letta.retrieve_message", a.runs.callerCalls)
	return e.Apply(), nil
}

func changes(m memproxy.Memory) bool { return m.Drop || m.Show != nil || m.ShowProvenance != nil }

// rewrite returns the answer without the dropped memories, and with the new texts and
// provenance of the others.
func rewrite(doc *jsondoc.Doc, memories []memproxy.Memory) ([]byte, error) {
	e := doc.Edit()
	fewer := 0
	shown := map[string]string{} // new texts by pointer
	for _, m := range memories {
		if !changes(m) {
			continue
		}
		if m.Drop {
			switch strings.Count(m.Pointer, "/") {
			case 0:
				return nil, errWhole
			case 2: // an element of the answer's list, and no block of an agent in it
				fewer++
			}
		}
		for _, at := range append([]string{m.Pointer}, m.Copies...) {
			v := doc.At(at)
			if m.Drop {
				e.Remove(at)
				continue
			}
			text := m.TextAt
			if text != "" && at != m.Pointer {
				text = ""
				if v.Get("value").Text() != "" {
					text = at + "/value"
				}
			}
			if m.Show != nil && text != "" {
				shown[text] = *m.Show
			}
			if v != nil && v.Kind == jsondoc.Object && m.ShowProvenance != nil {
				v, _ = wrapped(v, at)
				stamps.SetProvenance(e, v, m.ShowProvenance)
			}
		}
	}
	if err := e.Texts(shown); err != nil {
		return nil, err
	}
	// Some answers report the number of their elements.
	if fewer > 0 {
		e.AddTo(doc.Root.Get("count"), -fewer)
	}
	return e.Apply(), nil
}

// createdObjects reads the objects that a request with the flag makes created: the object
// in the answer unless it is an agent or a built-in tool, and the group of an agent.
func (f *answerReader) createdObjects(root *jsondoc.Value) {
	switch id := root.Get("id").Text(); {
	case KindOf(id) == TargetAgent:
		f.group(root)
	case KindOf(id) != TargetTool || !isBuiltInTool(root):
		f.recordUnowned(id, "")
	}
}

// recordUnowned records an object that becomes the caller's unless it already has an owner,
// with the agent that it belongs to.
func (f *answerReader) recordUnowned(id, agent string) {
	if KindOf(id) != "" && !slices.ContainsFunc(f.rd.Created, func(m memproxy.CreatedObject) bool { return m.ID == id }) {
		f.rd.Created = append(f.rd.Created, memproxy.CreatedObject{ID: id, Agent: agent})
	}
}

// group records the group that the server creates with an agent, and the agents in it.
func (f *answerReader) group(agent *jsondoc.Value) {
	for _, g := range turn.Groups(agent) {
		f.recordUnowned(g.Get("id").Text(), leader(g))
		for _, e := range g.Get("agent_ids").List() {
			f.recordUnowned(e.Text(), "")
		}
	}
}

// leader returns the agent that a group belongs to. Only callers who may act for that agent
// have access to the group.
func leader(group *jsondoc.Value) string {
	manager, members := group.Get("manager_agent_id").Text(), group.Get("agent_ids").List()
	if manager == "" && len(members) > 0 {
		return members[0].Text()
	}
	return manager
}
