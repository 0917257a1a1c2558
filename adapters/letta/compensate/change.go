package compensate

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// difference compares the memory before a run and after it.
type difference struct {
	opt           *Options
	before, after *picture
}

// Changes implements memproxy.Watch: first the texts of blocks, then for each agent its
// attached blocks and its archive.
func (w *Watch) Changes() []memproxy.Change {
	d := difference{&w.opt, w.base, w.now}
	var out []memproxy.Change
	add := func(c memproxy.Change) {
		if !w.accepted[c.Key] {
			out = append(out, c)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.now.Blocks)) {
		if before, after := w.base.Blocks[id], w.now.Blocks[id]; before != nil && before.all() != after.all() {
			add(d.rewritten(before, after))
		}
	}
	for _, a := range w.now.Agents {
		before := w.base.agent(a.ID)
		if a.Gone || before == nil || before.Gone {
			continue
		}
		for _, id := range a.Blocks {
			if !before.has(id) {
				add(d.attached(a, w.now.Blocks[id]))
			}
		}
		for _, id := range before.Blocks {
			if !a.has(id) {
				add(d.detached(a, w.base.Blocks[id]))
			}
		}
		d.archived(before, a, add)
	}
	return out
}

// Cut implements memproxy.Watch.
func (w *Watch) Cut() bool {
	return slices.ContainsFunc(w.now.Agents, func(a *agent) bool { return a.cut })
}

// Accept implements memproxy.Watch.
func (w *Watch) Accept(key string) { w.accepted[key] = true }

// archived adds the changes of an agent's archive.
func (d *difference) archived(before, after *agent, add func(memproxy.Change)) {
	for i := range after.Passages {
		p := &after.Passages[i]
		old := before.passage(p.ID)
		first := before.oldest()
		switch {
		case old == nil && !before.holds(p) && d.there(archiveList, p.Archive):
			// From an archive that was attached to the agent; it may belong to anybody.
		case old == nil && lacks(before, after, p.Text):
			// A passage that was restored, under another id.
		case old != nil && old.Text != p.Text:
			add(d.replaced(after, old, p))
		case old == nil && (before.Whole || first == nil || !when(p.Created).Before(when(first.Created))):
			add(d.learned(after, p))
		}
	}
	for i := range before.Passages {
		p := &before.Passages[i]
		if !after.holds(p) {
			continue // its archive was detached from the agent, which no tool can do
		}
		// A passage beyond the last page that was read may still exist.
		if last := after.oldest(); after.passage(p.ID) == nil && !lacks(after, before, p.Text) && (after.Whole || last == nil || when(p.Created).After(when(last.Created))) {
			add(d.forgotten(after, p))
		}
	}
}

// lacks reports whether one archive has a passage with this text whose id is not in the
// other.
func lacks(has, not *agent, text string) bool {
	return slices.ContainsFunc(has.Passages, func(p passage) bool { return p.Text == text && not.passage(p.ID) == nil })
}

func (d *difference) operation(kind memproxy.Kind, cost int, target string, items ...memproxy.Item) *memproxy.Operation {
	for i := range items {
		items[i].Role, items[i].Layer, items[i].Inferred = "assistant", memproxy.Semantic, true
		items[i].Kind = cmp.Or(items[i].Kind, memproxy.ItemContent)
	}
	op := turn.OfAgent(d.opt.Agent, kind, cost)
	op.Targets, op.Items = []string{target}, items
	return op
}

// change returns a difference. The text in says is hashed.
func change(what, id, after string, op *memproxy.Operation, says string, undo ...memproxy.SideRequest) memproxy.Change {
	key := what + " " + id + " " + after
	return memproxy.Change{Key: key, Call: memproxy.ToolCall{ID: key, Tool: what, Arguments: []byte(says), Operation: op}, Undo: undo}
}

func (d *difference) request(method string, body any, parts ...string) memproxy.SideRequest {
	s := memproxy.SideRequest{Request: d.opt.get("", parts...)}
	s.Request.Method = method
	if body != nil {
		s.Body, _ = json.Marshal(body) // maps of strings always marshal
	}
	return s
}

// rewritten is a block whose content changed. Its whole text is ruled on, because the
// model will read all of it.
func (d *difference) rewritten(before, after *block) memproxy.Change {
	undo := map[string]any{}
	var items []memproxy.Item
	for _, m := range [...]struct{ name, was, is, target string }{
		{"value", before.Value, after.Value, after.ID}, {"description", before.Description, after.Description, ""}, {"label", before.Label, after.Label, ""},
	} {
		if m.was != m.is {
			undo[m.name] = m.was
			items = append(items, memproxy.Item{Pointer: "/" + m.name, Text: m.is, Field: after.Label, Target: m.target})
		}
	}
	if before.Label != after.Label {
		items = append(items, memproxy.Item{Pointer: "/label", Field: before.Label})
	}
	c := change("block", after.ID, after.all(), d.operation(memproxy.Correct, 1, after.ID, items...), after.Value, d.request("PATCH", undo, "blocks", after.ID))
	c.Before, c.After = before.hash(), after.hash()
	if len(undo) == 1 && before.Value != after.Value { // a stamp covers the value only
		c.Stamp = after.stamp
	}
	if before.Value != after.Value {
		c.Memories = d.made("UPDATE", after.ID, after.Label, before.Value, after.Value)
	}
	return c
}

// attached is a block that an agent gained. Undo detaches it and does not delete it,
// because it may be older than the run.
func (d *difference) attached(a *agent, b *block) memproxy.Change {
	items := []memproxy.Item{{Pointer: "/value", Text: b.Value, Field: b.Label, Target: b.ID}}
	if d := b.Description; d != "" {
		items = append(items, memproxy.Item{Pointer: "/description", Text: d, Field: b.Label})
	}
	op := d.operation(memproxy.Correct, 1, b.ID, items...)
	if d.there(blockList, b.ID) { // its owner must be known, as if a request attached it
		op.Refs = append(op.Refs, memproxy.Ref{Kind: memproxy.TargetMemory, ID: b.ID, Pointer: "target:" + b.ID})
	}
	c := change("block.attached", a.ID+" "+b.ID, b.all(), op, b.Value, d.request("PATCH", nil, "agents", a.ID, "core-memory", "blocks", "detach", b.ID))
	c.After = b.hash()
	c.Memories = d.made("", b.ID, b.Label, "", b.Value)
	return c
}

// detached is a block that an agent lost.
func (d *difference) detached(a *agent, b *block) memproxy.Change {
	op := d.operation(memproxy.Forget, 0, b.ID, memproxy.Item{Pointer: "/label", Field: b.Label})
	c := change("block.detached", a.ID+" "+b.ID, "", op, "", d.request("PATCH", nil, "agents", a.ID, "core-memory", "blocks", "attach", b.ID))
	c.Before = b.hash()
	return c
}

func (d *difference) learned(a *agent, p *passage) memproxy.Change {
	c := change("passage", p.ID, hash(p.Text), d.operation(memproxy.Learn, 1, p.ID, said(p)...), p.Text, d.deletion(a, p))
	c.After = hash(p.Text)
	c.Memories = d.made("ADD", p.ID, "", "", p.Text)
	return c
}

func (d *difference) replaced(a *agent, before, after *passage) memproxy.Change {
	c := change("passage", after.ID, hash(after.Text), d.operation(memproxy.Correct, 1, after.ID, said(after)...), after.Text,
		d.deletion(a, after), d.insertion(a, before))
	c.Before, c.After = hash(before.Text), hash(after.Text)
	c.Memories = d.made("UPDATE", after.ID, "", before.Text, after.Text)
	return c
}

// forgotten is a deleted passage. Undo gives it another id.
func (d *difference) forgotten(a *agent, p *passage) memproxy.Change {
	c := change("passage.deleted", p.ID, "", d.operation(memproxy.Forget, 0, p.ID), "", d.insertion(a, p))
	c.Before = hash(p.Text)
	c.Memories = d.made("DELETE", p.ID, "", p.Text, "")
	return c
}

func said(p *passage) []memproxy.Item {
	items := []memproxy.Item{{Pointer: "/text", Text: p.Text}}
	for _, tag := range p.Tags {
		items = append(items, memproxy.Item{Kind: memproxy.ItemMetadata, Pointer: "/tags", Text: tag})
	}
	return items
}

func (d *difference) deletion(a *agent, p *passage) memproxy.SideRequest {
	return d.request("DELETE", nil, "agents", a.ID, "archival-memory", p.ID)
}

func (d *difference) insertion(a *agent, p *passage) memproxy.SideRequest {
	body := map[string]any{"text": p.Text}
	if p.Tags != nil {
		body["tags"] = p.Tags
	}
	if p.Created != "" {
		body["created_at"] = p.Created
	}
	return d.request("POST", body, "agents", a.ID, "archival-memory")
}

// made returns the memory that a change resulted in.
func (d *difference) made(event, id, field, before, after string) []memproxy.Memory {
	return []memproxy.Memory{{ID: id, Field: field, Event: event, Before: before, Text: after, Scope: memproxy.Scope{Agent: d.opt.Agent}, Mutable: true}}
}
