package selfedit

import (
	"errors"
	"slices"
	"strings"
)

// Block is one memory block of an agent.
type Block struct {
	Label, Value, Description string
	ReadOnly                  bool
}

// Passage is one entry of an agent's archive.
type Passage struct {
	Text string
	Tags []string
}

// Change is the effect of a call on one block.
type Change struct {
	Kind          ChangeKind
	Before, After Block
}

// ChangeKind is what happened to a block.
type ChangeKind int

// Kinds of change.
const (
	Written  ChangeKind = iota // its value, label or description changed
	Created                    // the block is new
	Detached                   // no longer attached to the agent; the block still exists
)

// errServer reports that the server refuses the call. The changes before the error remain.
var errServer = errors.New("the server refuses the call")

// Effect is the effect of a call on an agent's memory.
type Effect struct {
	Changes  []Change  // of blocks, in order
	Passages []Passage // that were added
	Blocks   []Block   // of the agent, after the call
	Refused  bool      // the server refuses the call or the rest of it
}

// Simulate executes a call on an agent's blocks.
func Simulate(tool string, args Args, blocks []Block) (e Effect) {
	m := &memory{}
	for _, b := range blocks {
		r := &row{Block: b, attached: true, before: b, old: true}
		m.rows = append(m.rows, r)
		m.view = append(m.view, &entry{Block: b, row: r})
	}
	e.Refused = m.call(tool, args) != nil
	e.Passages = m.passages
	for _, r := range m.rows {
		switch {
		case !r.old:
			e.Changes = append(e.Changes, Change{Created, Block{}, r.Block})
			r.before = r.Block
		case r.before != r.Block:
			e.Changes = append(e.Changes, Change{Written, r.before, r.Block})
		}
		if r.attached {
			e.Blocks = append(e.Blocks, r.Block)
		} else {
			e.Changes = append(e.Changes, Change{Detached, r.before, r.Block})
		}
	}
	return e
}

// memory is the server's state during a call: the blocks in the database (rows), and the
// agent's copy of them (view), which most tools change before they store it. A renaming
// changes the database only.
type memory struct {
	rows     []*row
	view     []*entry
	passages []Passage
}

type row struct {
	Block
	attached, old bool
	before        Block
}

type entry struct {
	Block
	row *row
}

func (m *memory) block(label string) (*entry, error) {
	for _, e := range m.view {
		if e.Label == label {
			return e, nil
		}
	}
	return nil, errServer
}

// editable returns a block that a tool may write to.
func (m *memory) editable(label string) (*entry, error) {
	e, err := m.block(label)
	if err == nil && e.ReadOnly {
		return nil, errServer
	}
	return e, err
}

// save does what the server's update_memory_if_changed does: it stores every block of the
// view for which the agent still has a block with that label.
func (m *memory) save() {
	for _, e := range m.view {
		at := slices.IndexFunc(m.rows, func(r *row) bool { return r.attached && r.Label == e.Label })
		first := slices.IndexFunc(m.view, func(v *entry) bool { return v.Label == e.Label })
		if at >= 0 && m.view[first].Value != m.rows[at].Value {
			m.view[first].row.Value = m.view[first].Value
		}
	}
}

// set changes a block in the view and saves the whole view. store changes one block only.
func (m *memory) set(e *entry, value string) {
	e.Value = value
	m.save()
}

func store(e *entry, value string) { e.Value, e.row.Value = value, value }

func (m *memory) call(tool string, a Args) error {
	switch tool {
	case "core_memory_append":
		e, err := m.editable(a.Text("label"))
		if err == nil {
			m.set(e, e.Value+"\n"+a.Text("content"))
		}
		return err
	case "core_memory_replace":
		e, err := m.editable(a.Text("label"))
		if err != nil || !strings.Contains(e.Value, a.Text("old_content")) {
			return errServer
		}
		m.set(e, strings.ReplaceAll(e.Value, a.Text("old_content"), a.Text("new_content")))
		return nil
	case "memory_replace":
		return m.replace(a.Text("label"), a.either("old_string", "old_str"), a.either("new_string", "new_str"), m.set)
	case "memory_str_replace":
		return m.replace(labelIn(a.Text("path")), a.either("old_string", "old_str"), a.either("new_string", "new_str"), store)
	case "memory_insert":
		return m.insert(a.Text("label"), a.either("new_string", "new_str"), a, m.set)
	case "memory_str_insert":
		return m.insert(flatLabel(a.Text("path")), a.Text("insert_text"), a, store)
	case "memory_rethink":
		e, err := m.editable(a.Text("label"))
		if err != nil || looksRendered(a.Text("new_memory")) {
			return errServer
		}
		m.set(e, a.Text("new_memory"))
		return nil
	case "rethink_memory":
		return m.rethink(a.Text("target_block_label"), a.Text("new_memory"))
	case "rethink_user_memory":
		return m.rethink("human", a.Text("new_memory"))
	case "memory_apply_patch":
		return m.patch(a.Text("label"), a.Text("patch"))
	case "memory":
		return m.command(a)
	case "archival_memory_insert":
		m.passages = append(m.passages, Passage{Text: a.Text("content"), Tags: a.Texts("tags")})
	case "store_memories":
		for _, t := range a.Texts("chunks") {
			m.passages = append(m.passages, Passage{Text: t})
		}
	}
	return nil
}

// rethink replaces a block's value, or creates the block, as in older agent loops.
func (m *memory) rethink(label, value string) error {
	e, err := m.block(label)
	if err != nil {
		m.create(label, "", value)
		return nil
	}
	m.set(e, value)
	return nil
}

// replace replaces a text that occurs exactly once.
func (m *memory) replace(label, from, to string, set func(*entry, string)) error {
	e, err := m.editable(label)
	if err != nil || looksRendered(from) || numbered(to) {
		return errServer
	}
	from, to = ExpandTabs(from), ExpandTabs(to)
	value := ExpandTabs(e.Value)
	if strings.Count(value, from) != 1 {
		return errServer
	}
	set(e, strings.Replace(value, from, to, 1))
	return nil
}

func (m *memory) insert(label, text string, a Args, set func(*entry, string)) error {
	e, err := m.editable(label)
	if err != nil || looksRendered(text) {
		return errServer
	}
	lines := strings.Split(ExpandTabs(e.Value), "\n")
	at := len(lines)
	if line, given := a.doc.Int(a.given["insert_line"]); given && line != -1 {
		if line < 0 || line > int64(at) {
			return errServer
		}
		at = int(line)
	}
	set(e, strings.Join(slices.Insert(lines, at, strings.Split(ExpandTabs(text), "\n")...), "\n"))
	return nil
}

func (m *memory) create(label, description, value string) {
	r := &row{Block: Block{Label: label, Value: value, Description: description}, attached: true}
	m.rows = append(m.rows, r)
	e := &entry{Block: r.Block, row: r}
	if i := slices.IndexFunc(m.view, func(v *entry) bool { return v.Label == label }); i >= 0 {
		m.view[i] = e
	} else {
		m.view = append(m.view, e)
	}
	m.save()
}

// detach detaches a block from the agent. It succeeds if the agent has no such block.
func (m *memory) detach(label string) error {
	e, err := m.block(label)
	if err != nil {
		return nil
	}
	if !e.row.attached {
		return errServer
	}
	e.row.attached = false
	m.view = m.view[:0:0]
	for _, r := range m.rows { // the server reloads the view
		if r.attached {
			m.view = append(m.view, &entry{Block: r.Block, row: r})
		}
	}
	return nil
}

// requiredBy lists the arguments that the commands of the tool named memory require.
var requiredBy = map[string][]string{
	"create": {"path", "description"}, "str_replace": {"path"}, "insert": {"path", "insert_line", "insert_text"}, "delete": {"path"},
}

// command executes the tool named memory, whose argument command selects what it does.
func (m *memory) command(a Args) error {
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return !a.has(n) })
	}
	if !has(requiredBy[a.Text("command")]...) {
		return errServer
	}
	switch a.Text("command") {
	case "create":
		m.create(labelIn(a.Text("path")), a.Text("description"), a.Text("file_text"))
		return nil
	case "str_replace":
		if !has("old_string", "new_string") && !has("old_str", "new_str") {
			return errServer
		}
		from, to := "old_string", "new_string"
		if !a.has(from) {
			from, to = "old_str", "new_str"
		}
		return m.replace(labelIn(a.Text("path")), a.Text(from), a.Text(to), store)
	case "insert":
		return m.insert(flatLabel(a.Text("path")), a.Text("insert_text"), a, store)
	case "delete":
		return m.detach(flatLabel(a.Text("path")))
	case "rename":
		return m.rename(a)
	}
	return errServer
}

func (m *memory) rename(a Args) error {
	switch {
	case a.Text("path") != "" && a.Text("description") != "":
		e, err := m.block(flatLabel(a.Text("path")))
		if err == nil {
			e.row.Description = a.Text("description")
		}
		return err
	case a.Text("old_path") != "" && a.Text("new_path") != "":
		return m.relabel(flatLabel(a.Text("old_path")), flatLabel(a.Text("new_path")))
	}
	return errServer
}

func (m *memory) relabel(from, to string) error {
	e, err := m.block(from)
	if err == nil {
		e.row.Label = to
	}
	return err
}

// Text returns the changed lines of a block. It returns whole lines, because an added or
// joined text can have another meaning together with the rest of its line.
func (c Change) Text() string {
	before, after := strings.Split(c.Before.Value, "\n"), strings.Split(c.After.Value, "\n")
	if !strings.Contains(c.After.Value, "\t") { // the server replaces tabs by spaces
		before = strings.Split(ExpandTabs(c.Before.Value), "\n")
	}
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	return strings.Join(after, "\n")
}
