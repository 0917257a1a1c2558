package compensate

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// difference compares two snapshots.
type difference struct {
	opt           *Options
	before, after *snapshot
}

// Changes implements memproxy.RunDiff. It returns first the changed blocks, then for each
// agent the attached and detached blocks and the changes of the archive.
func (d *RunDiff) Changes() []memproxy.Change {
	diff := difference{&d.opt, d.base, d.now}
	var out []memproxy.Change
	add := func(c memproxy.Change) { out = append(out, c) }
	for _, id := range slices.Sorted(maps.Keys(d.now.Blocks)) {
		if before, after := d.base.Blocks[id], d.now.Blocks[id]; before != nil && before.contentHash() != after.contentHash() {
			add(diff.rewritten(before, after))
		}
	}
	for _, a := range d.now.Agents {
		before := d.base.agent(a.ID)
		if a.Gone || before == nil || before.Gone {
			continue
		}
		for _, id := range a.Blocks {
			if !slices.Contains(before.Blocks, id) {
				add(diff.attached(a, d.now.Blocks[id]))
			}
		}
		for _, id := range before.Blocks {
			if !slices.Contains(a.Blocks, id) {
				add(diff.detached(a, d.base.Blocks[id]))
			}
		}
		diff.archiveChanges(before, a, add)
	}
	return out
}

// Truncated implements memproxy.RunDiff.
func (d *RunDiff) Truncated() bool {
	return slices.ContainsFunc(d.now.Agents, func(a *agent) bool { return a.truncated })
}

func (d *difference) archiveChanges(before, after *agent, add func(memproxy.Change)) {
	for i := range after.Passages {
		p := &after.Passages[i]
		old := before.passage(p.ID)
		first := before.oldest()
		switch {
		case old == nil && !before.inArchives(p) && d.existedBefore(archiveList, p.Archive):
			// From an older archive that was attached to the agent; it may have another owner.
		case old == nil && hasOtherCopy(before, after, p.Text):
			// An undo restored a deleted passage, under another id.
		case old != nil && old.Text != p.Text:
			add(d.archived(after, memproxy.Correct, memproxy.MemoryUpdated, *old, *p))
		case old == nil && (before.Whole || first == nil || !parseTime(p.Created).Before(parseTime(first.Created))):
			add(d.archived(after, memproxy.Learn, memproxy.MemoryAdded, passage{}, *p))
		}
	}
	for i := range before.Passages {
		p := &before.Passages[i]
		if !after.inArchives(p) {
			continue // the archive was detached from the agent, which no tool can do
		}
		// A passage older than the last read one may still exist.
		if last := after.oldest(); after.passage(p.ID) == nil && !hasOtherCopy(after, before, p.Text) && (after.Whole || last == nil || parseTime(p.Created).After(parseTime(last.Created))) {
			add(d.archived(after, memproxy.Forget, memproxy.MemoryDeleted, *p, passage{}))
		}
	}
}

// hasOtherCopy reports whether one archive has a passage with this text whose id is not in
// the other archive.
func hasOtherCopy(has, not *agent, text string) bool {
	return slices.ContainsFunc(has.Passages, func(p passage) bool { return p.Text == text && not.passage(p.ID) == nil })
}

func (d *difference) operation(kind memproxy.Kind, cost int, target string, items ...memproxy.Item) *memproxy.Operation {
	for i := range items {
		items[i].Role, items[i].Layer, items[i].Inferred = "assistant", memproxy.Semantic, true
		items[i].Kind = cmp.Or(items[i].Kind, memproxy.ItemContent)
	}
	op := turn.AgentOperation(d.opt.Agent, kind, cost)
	op.Targets, op.Items = []string{target}, items
	return op
}

// newChange returns a change of the object id. after identifies its new content, and text is
// the written text.
func newChange(what, id, after string, op *memproxy.Operation, text string, undo ...memproxy.SideRequest) memproxy.Change {
	key := what + " " + id + " " + after
	return memproxy.Change{Key: key, Call: memproxy.ToolCall{ID: key, Tool: what, Arguments: []byte(text), Operation: op}, Undo: undo}
}

func (d *difference) request(method string, body any, parts ...string) memproxy.SideRequest {
	s := memproxy.SideRequest{Request: d.opt.get("", parts...)}
	s.Request.Method = method
	if body != nil {
		s.Body, _ = json.Marshal(body) // maps of strings always marshal
	}
	return s
}

// rewritten returns the change of a block's content. The whole text is ruled on, because
// the model will read all of it.
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
	c := newChange("block", after.ID, after.contentHash(), d.operation(memproxy.Correct, 1, after.ID, items...), after.Value, d.request("PATCH", undo, "blocks", after.ID))
	c.Before, c.After = memproxy.Hash(before.Value), memproxy.Hash(after.Value)
	if len(undo) == 1 && before.Value != after.Value { // a stamp covers the value only
		c.Stamp = after.stamp
	}
	if before.Value != after.Value {
		c.Memories = d.memories(memproxy.MemoryUpdated, after.ID, after.Label, before.Value, after.Value)
	}
	return c
}

// attached returns the change of an agent that gained a block. Undo detaches the block and
// does not delete it, because it may be older than the run.
func (d *difference) attached(a *agent, b *block) memproxy.Change {
	items := []memproxy.Item{{Pointer: "/value", Text: b.Value, Field: b.Label, Target: b.ID}}
	if d := b.Description; d != "" {
		items = append(items, memproxy.Item{Pointer: "/description", Text: d, Field: b.Label})
	}
	op := d.operation(memproxy.Correct, 1, b.ID, items...)
	if d.existedBefore(blockList, b.ID) { // access to it is checked as if a request attached it
		op.Refs = append(op.Refs, memproxy.Ref{Kind: memproxy.TargetMemory, ID: b.ID, Pointer: "target:" + b.ID})
	}
	c := newChange("block.attached", a.ID+" "+b.ID, b.contentHash(), op, b.Value, d.request("PATCH", nil, "agents", a.ID, "core-memory", "blocks", "detach", b.ID))
	c.After = memproxy.Hash(b.Value)
	c.Memories = d.memories("", b.ID, b.Label, "", b.Value)
	return c
}

func (d *difference) detached(a *agent, b *block) memproxy.Change {
	op := d.operation(memproxy.Forget, 0, b.ID, memproxy.Item{Pointer: "/label", Field: b.Label})
	c := newChange("block.detached", a.ID+" "+b.ID, "", op, "", d.request("PATCH", nil, "agents", a.ID, "core-memory", "blocks", "attach", b.ID))
	c.Before = memproxy.Hash(b.Value)
	return c
}

// archived returns the change of an archive from one passage to another, either of which may
// be absent. Undo inserts a deleted passage under another id.
func (d *difference) archived(a *agent, kind memproxy.Kind, event string, before, after passage) memproxy.Change {
	what, id, op := "passage.deleted", before.ID, d.operation(kind, 0, before.ID)
	var undo []memproxy.SideRequest
	if after.ID != "" {
		what, id, op = "passage", after.ID, d.operation(kind, 1, after.ID, passageItems(&after)...)
		undo = append(undo, d.request("DELETE", nil, "agents", a.ID, "archival-memory", after.ID))
	}
	if before.ID != "" {
		undo = append(undo, d.insertion(a, &before))
	}
	c := newChange(what, id, memproxy.Hash(after.Text), op, after.Text, undo...)
	c.Before, c.After = memproxy.Hash(before.Text), memproxy.Hash(after.Text)
	c.Memories = d.memories(event, id, "", before.Text, after.Text)
	return c
}

func passageItems(p *passage) []memproxy.Item {
	items := []memproxy.Item{{Pointer: "/text", Text: p.Text}}
	for _, tag := range p.Tags {
		items = append(items, memproxy.Item{Kind: memproxy.ItemMetadata, Pointer: "/tags", Text: tag})
	}
	return items
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

func (d *difference) memories(event, id, field, before, after string) []memproxy.Memory {
	return []memproxy.Memory{{ID: id, Field: field, Event: event, Before: before, Text: after, Scope: memproxy.Scope{Agent: d.opt.Agent}, Mutable: true}}
}
