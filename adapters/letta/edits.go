package letta

import (
	"bytes"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// What happened to a memory, in the gate's words.
const (
	added   = "ADD"
	updated = "UPDATE"
	kept    = "NONE" // its text stays
)

// edit is a call of a memory tool, as far as changes are told by it.
type edit struct {
	tool   string
	args   *jsondoc.Value
	labels []string // the blocks that it names
	texts  []string // what it says
}

func editOf(tc memproxy.ToolCall) edit {
	e := edit{tool: tc.Tool}
	doc, err := jsondoc.Parse(tc.Arguments, 0)
	if err != nil || doc.Root.Kind != jsondoc.Object {
		return e // the server could not read it either
	}
	e.args = doc.Root
	e.labels = memoryTool(tc.Tool).labels(doc.Root)
	e.say(doc.Root)
	return e
}

func (e *edit) say(v *jsondoc.Value) {
	switch v.Kind {
	case jsondoc.Object:
		for _, m := range v.Members {
			e.say(m.Value)
		}
	case jsondoc.Array:
		for _, x := range v.Elems {
			e.say(x)
		}
	case jsondoc.String:
		e.texts = append(e.texts, v.Text())
	}
}

func (e *edit) archives() bool {
	t := memoryTool(e.tool)
	return t.kind == memproxy.Learn && len(t.args) == 0
}

// Edits implements the gate's imager. A block that was let go is no change of
// its text: it is still there, and no longer the agent's.
func (a *Adapter) Edits(before, after []memproxy.Memory, calls []memproxy.ToolCall) [][]memproxy.Memory {
	edits := make([]edit, len(calls))
	for i := range calls {
		edits[i] = editOf(calls[i])
	}
	out := make([][]memproxy.Memory, len(calls))
	for _, m := range after {
		i := slices.IndexFunc(before, func(b memproxy.Memory) bool { return b.ID == m.ID })
		switch {
		case KindOf(m.ID) == TargetPassage:
			if i < 0 {
				if by := inserted(edits, m.Text, out); by >= 0 && newer(m.ID, before, after) {
					m.Event = added
					out[by] = append(out[by], m)
				}
			}
		case i < 0:
			m.Event = added
			if by := lastOf(edits, m.Field); by >= 0 {
				out[by] = append(out[by], m)
			}
		default:
			relabelled(edits, before[i], m, out)
			if before[i].Text != m.Text {
				m.Event, m.Members = updated, nil
				rewritten(edits, before[i], m, out)
			}
		}
	}
	return out
}

// relabelled tells of what calls made of a block besides its text: its label, its
// description. The last that names the block has all of it.
func relabelled(edits []edit, before, after memproxy.Memory, out [][]memproxy.Memory) {
	if before.Members == nil || after.Members == nil || bytes.Equal(before.Members, after.Members) {
		return
	}
	by := lastOf(edits, after.Field)
	if !slices.ContainsFunc(edits, func(e edit) bool { return e.names(after.Field) }) {
		by = lastOf(edits, before.Field)
	}
	if by < 0 {
		return
	}
	after.Event, after.Was = kept, before.Members
	out[by] = append(out[by], after)
}

// newer reports whether a passage that was not seen before stands before those
// that were: else it only came into view.
func newer(id string, before, after []memproxy.Memory) bool {
	for _, m := range after {
		if m.ID == id {
			return true
		}
		if KindOf(m.ID) == TargetPassage && slices.ContainsFunc(before, func(b memproxy.Memory) bool { return b.ID == m.ID }) {
			return false
		}
	}
	return false
}

// inserted is the call that put a passage into the archive: the first that says
// its text and has none yet, else the last that could.
func inserted(edits []edit, text string, out [][]memproxy.Memory) int {
	last := -1
	for i := range edits {
		if !edits[i].archives() {
			continue
		}
		if last = i; len(out[i]) == 0 && slices.Contains(edits[i].texts, text) {
			return i
		}
	}
	return last
}

// lastOf is the last call that names a block, else the last that writes blocks
// at all, or -1.
func lastOf(edits []edit, label string) int {
	last := -1
	for i := range edits {
		if edits[i].names(label) {
			last = i
		}
	}
	for i := len(edits) - 1; i >= 0 && last < 0; i-- {
		if !edits[i].archives() {
			last = i
		}
	}
	return last
}

// names reports whether a call names a block, whose label stands in paths with
// slashes for underlines.
func (e *edit) names(label string) bool {
	return slices.ContainsFunc(e.labels, func(l string) bool { return l == label || strings.ReplaceAll(l, "/", "_") == label })
}

// rewritten tells which calls made a block what it is now. Where what each made
// of it can be worked out, and comes to what is there, each has its own;
// otherwise the last has all of it.
func rewritten(edits []edit, before, after memproxy.Memory, out [][]memproxy.Memory) {
	type made struct {
		by   int
		text string
	}
	text, sure := before.Text, true
	var chain []made
	for i := range edits {
		if !edits[i].names(before.Field) && !edits[i].names(after.Field) {
			continue
		}
		next, ok := edits[i].apply(text)
		sure = sure && ok
		if next != text {
			chain = append(chain, made{i, next})
		}
		text = next
	}
	if !sure || text != after.Text || len(chain) < 2 {
		by := lastOf(edits, after.Field)
		if by < 0 {
			return
		}
		after.Before = before.Text
		out[by] = append(out[by], after)
		return
	}
	was := before.Text
	for _, c := range chain {
		m := after
		m.Text, m.Before = c.text, was
		if c.text != after.Text {
			m.Metadata, m.Stamp = nil, nil // those of the last
		}
		out[c.by] = append(out[c.by], m)
		was = c.text
	}
}

// apply is what a call makes of a block's text, as the server does it, where
// that is certain.
func (e *edit) apply(text string) (string, bool) {
	arg := func(names ...string) string {
		for _, name := range names {
			if v := e.args.Get(name); v != nil && v.Kind == jsondoc.String {
				return v.Text()
			}
		}
		return ""
	}
	switch e.tool {
	case "core_memory_append":
		return text + "\n" + arg("content"), true
	case "core_memory_replace":
		from := arg("old_content")
		return strings.ReplaceAll(text, from, arg("new_content")), from != ""
	case "memory_replace":
		from, to := arg("old_string", "old_str"), arg("new_string", "new_str")
		if strings.Contains(text+from+to, "\t") || from == "" {
			return text, false // the server makes spaces of tabs
		}
		if strings.Count(text, from) != 1 {
			return text, true // refused
		}
		return strings.Replace(text, from, to, 1), true
	case "memory_insert":
		at := e.args.Get("insert_line")
		if s := arg("new_string", "new_str"); at == nil && !strings.Contains(text+s, "\t") {
			return text + "\n" + s, true
		}
	case "memory_rethink", "rethink_memory", "rethink_user_memory":
		return arg("new_memory"), true
	}
	return text, false
}
