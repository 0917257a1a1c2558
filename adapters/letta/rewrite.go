package letta

import (
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/adapters/stamps"
)

// Rewrite implements the gate's reader.
func (a *Adapter) Rewrite(rt memproxy.Route, req memproxy.Request, reply memproxy.Reply, rd *memproxy.Reading) ([]byte, error) {
	w := rewriting{
		nested: map[string]string{}, copies: map[blockInAgent]*memproxy.Memory{}, drop: map[string]bool{},
		shown: map[string]string{}, told: map[string]*memproxy.Provenance{},
	}
	r := a.Row(rt.ID)
	if r != nil && r.is(inside) {
		w.agent("")
	}
	for i := range rd.Memories {
		if m := &rd.Memories[i]; KindOf(m.ID) == TargetAgent && m.Pointer != "/id" {
			w.agent(m.Pointer)
		}
	}
	for i := range rd.Memories {
		if err := w.record(&rd.Memories[i]); err != nil {
			return nil, err
		}
	}
	types, query := r.onlyTypes(req.Query)
	history := rd.ShowsOwnActions || types != nil
	if !history && len(w.drop)+len(w.shown)+len(w.told) == 0 {
		return reply.Body, nil
	}
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err != nil {
		return nil, err
	}
	w.doc, w.e = doc, doc.Edit()
	out, err := w.apply()
	if err != nil || !history {
		return out, err
	}
	if doc, err = jsondoc.Parse(out, 0); err != nil {
		return nil, err
	}
	e := doc.Edit()
	if rt.ID == runMessages {
		query += "&order=asc" // this route's default; an order in the request precedes it and counts
	}
	unpause(e, doc, query, types)
	return e.Apply(), nil
}

// rewriting is the state of changing one answer. An agent's state lists a block more than
// once; every copy is changed.
type rewriting struct {
	doc    *jsondoc.Doc
	e      *jsondoc.Edits
	nested map[string]string                 // from the pointer of a list of blocks to that of its agent
	copies map[blockInAgent]*memproxy.Memory // changed blocks in those lists
	drop   map[string]bool                   // pointers of dropped values and of their parents
	n      int                               // number of dropped elements outside of agents
	shown  map[string]string                 // new texts by pointer
	told   map[string]*memproxy.Provenance
}

// blockInAgent identifies a block by its id within the agent at a pointer.
type blockInAgent struct{ agent, id string }

func (w *rewriting) agent(ptr string) {
	for _, home := range blockLists {
		w.nested[ptr+home] = ptr
	}
}

// record records the changes to one memory.
func (w *rewriting) record(m *memproxy.Memory) error {
	at := max(0, strings.LastIndexByte(m.Pointer, '/'))
	agent, nested := w.nested[m.Pointer[:at]]
	if nested && m.ID != "" {
		w.copies[blockInAgent{agent, m.ID}] = m
	}
	switch {
	case m.Drop && m.Pointer == "":
		return errWhole
	case m.Drop:
		w.drop[m.Pointer], w.drop[m.Pointer[:at]] = true, true
		if !nested {
			w.n++
			return nil
		}
		for _, home := range blockLists { // two of the lists have the same blocks
			w.drop[agent+home] = true
		}
	default:
		w.change(m, m.Pointer, m.TextAt)
	}
	return nil
}

// change records the new text and provenance of one copy of a memory.
func (w *rewriting) change(m *memproxy.Memory, ptr, text string) {
	if m.Show != nil && text != "" {
		w.shown[text] = *m.Show
	}
	if m.ShowProvenance != nil {
		w.told[ptr] = m.ShowProvenance
	}
}

func (w *rewriting) apply() ([]byte, error) {
	w.addCopies()
	if err := w.e.Texts(w.shown); err != nil {
		return nil, err
	}
	for ptr, p := range w.told {
		if v := w.doc.At(ptr); v != nil && v.Kind == jsondoc.Object {
			v, _ = wrapped(v, ptr)
			if err := stamps.SetProvenance(w.e, v, p); err != nil {
				return nil, err
			}
		}
	}
	for ptr := range w.drop {
		w.removeDropped(ptr)
	}
	w.lowerCount()
	return w.e.Apply(), nil
}

// addCopies records the changes for the other copies of changed blocks.
func (w *rewriting) addCopies() {
	for home, agent := range w.nested {
		for i, e := range w.doc.At(home).List() {
			if m := w.copies[blockInAgent{agent, e.Get("id").Text()}]; m != nil && !m.Drop {
				at, text := jsondoc.Index(home, i), ""
				if m.TextAt != "" && e.Get("value").Text() != "" {
					text = at + "/value"
				}
				w.change(m, at, text)
			}
		}
	}
}

// removeDropped removes dropped elements from the list at a pointer, or dropped members
// from the object there. From an agent's lists it also removes copies of dropped blocks.
func (w *rewriting) removeDropped(ptr string) {
	v := w.doc.At(ptr)
	if v == nil {
		return
	}
	agent, nested := w.nested[ptr]
	switch v.Kind {
	case jsondoc.Array:
		w.e.Array(v, func(i int) bool {
			m := w.copies[blockInAgent{agent, v.Elems[i].Get("id").Text()}]
			return w.drop[jsondoc.Index(ptr, i)] || nested && m != nil && m.Drop
		})
	case jsondoc.Object:
		gone := func(m *jsondoc.Member) bool {
			return m.Value.Kind == jsondoc.String && w.drop[jsondoc.Child(ptr, m.Name)]
		}
		if slices.ContainsFunc(v.Members, func(m jsondoc.Member) bool { return gone(&m) }) {
			w.e.Object(v, gone, nil)
		}
	}
}

// lowerCount subtracts the dropped elements from the count that some answers report.
func (w *rewriting) lowerCount() {
	c := w.doc.Root.Get("count")
	if c == nil || c.Kind != jsondoc.Number || w.n == 0 {
		return
	}
	if was, err := strconv.Atoi(string(w.doc.Raw(c))); err == nil {
		w.e.Replace(c, strconv.AppendInt(nil, int64(max(0, was-w.n)), 10))
	}
}

// createdObjects reads the objects that a request with the flag makes created: the object
// in the answer unless it is an agent or a built-in tool, and the group of an agent.
func createdObjects(rd *memproxy.Reading, reply memproxy.Reply) error {
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err != nil {
		return err
	}
	f := finding{rd: rd, doc: doc}
	switch id := doc.Root.Get("id").Text(); {
	case KindOf(id) == TargetAgent:
		f.group(doc.Root)
	case KindOf(id) != TargetTool || !isBuiltInTool(doc.Root):
		f.recordUnowned(id, "")
	}
	return nil
}

// recordUnowned records an object that becomes the caller's unless it already has an owner,
// with the agent that it belongs to.
func (f *finding) recordUnowned(id, agent string) {
	if KindOf(id) != "" && !slices.ContainsFunc(f.rd.Created, func(m memproxy.CreatedObject) bool { return m.ID == id }) {
		f.rd.Created = append(f.rd.Created, memproxy.CreatedObject{ID: id, Agent: agent})
	}
}

// group records the group that the server creates with an agent, and the agents in it.
func (f *finding) group(agent *jsondoc.Value) {
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
	if manager := group.Get("manager_agent_id").Text(); manager != "" {
		return manager
	}
	for _, e := range group.Get("agent_ids").List() {
		return e.Text()
	}
	return ""
}
