package selfedit

import (
	"slices"
	"strings"
)

// Action is one operation of a patch.
type Action struct {
	Verb  string // "add", "delete", "update", "rename"
	Label string // the block; for a rename its new label
	From  string // for a rename: the old label
	// content of an addition, or the patch of an update
	Description string
	Lines       []string
}

const (
	addBlock    = "*** Add Block:"
	deleteBlock = "*** Delete Block:"
	updateBlock = "*** Update Block:"
	moveTo      = "*** Move to:"
)

func header(line string) (head, label string, is bool) {
	for _, h := range [...]string{addBlock, deleteBlock, updateBlock, moveTo} {
		if rest, ok := strings.CutPrefix(line, h); ok {
			return h, strip(rest), true
		}
	}
	return "", "", false
}

// Actions returns the operations of a patch. It returns none for a patch without headers,
// which applies to the block that the call names. refused reports that the server rejects
// the whole patch.
func Actions(patch string) (actions []Action, refused bool) {
	lines := splitLines(ExpandTabs(patch))
	if !slices.ContainsFunc(lines, func(l string) bool { _, _, is := header(l); return is }) {
		return nil, false
	}
	var open *Action // the operation whose body is being read
	flush := func() {
		if open != nil {
			actions = append(actions, *open)
			open = nil
		}
	}
	last, named := "", false
	for i := 0; i < len(lines); i++ {
		head, label, is := header(lines[i])
		if is && label == "" || head == moveTo && !named {
			return nil, true
		}
		switch head {
		case addBlock:
			flush()
			open = &Action{Verb: "add", Label: label}
			if i+1 < len(lines) {
				if d, is := strings.CutPrefix(lines[i+1], "Description:"); is {
					open.Description = strip(d)
					i++
				}
			}
		case deleteBlock:
			flush()
			actions = append(actions, Action{Verb: "delete", Label: label})
		case updateBlock:
			flush()
			open = &Action{Verb: "update", Label: label}
		case moveTo: // listed before the open operation, which continues
			actions = append(actions, Action{Verb: "rename", From: last, Label: label})
		default:
			open.take(lines[i])
		}
		if is {
			last, named = label, true
		}
	}
	flush()
	return actions, false
}

// take adds a line to the body of an operation; nil ignores it.
func (a *Action) take(line string) {
	switch {
	case a == nil:
	case a.Verb == "update":
		a.Lines = append(a.Lines, line)
	case strings.HasPrefix(line, "+"):
		a.Lines = append(a.Lines, line[1:])
	case strip(line) == "":
		a.Lines = append(a.Lines, "")
	}
}

// Value returns the text that an addition writes.
func (a *Action) Value() string { return strings.TrimRight(strings.Join(a.Lines, "\n"), "\n") }

// hunks returns the hunks of a patch for one block: lines that begin with a space, a
// minus or a plus.
func hunks(patch string) [][]string {
	var out [][]string
	var h []string
	for _, l := range splitLines(ExpandTabs(patch)) {
		switch {
		case strings.HasPrefix(l, "*** "), strings.HasPrefix(l, "---"), strings.HasPrefix(l, "+++"):
		case strings.HasPrefix(l, "@@"):
			if h != nil {
				out, h = append(out, h), nil
			}
		case l != "" && strings.ContainsRune(" -+", rune(l[0])):
			h = append(h, l)
		case strip(l) == "":
			h = append(h, " ")
		}
	}
	if h != nil {
		out = append(out, h)
	}
	return out
}

// Added returns the lines that a patch for one block adds.
func Added(patch string) string {
	var out []string
	for _, l := range slices.Concat(hunks(patch)...) {
		if l[0] == '+' {
			out = append(out, l[1:])
		}
	}
	return strings.Join(out, "\n")
}

func applyPatch(value, patch string) (string, error) {
	current := strings.Split(ExpandTabs(value), "\n")
	all := hunks(patch)
	if len(all) == 0 {
		return "", errServer
	}
	for _, h := range all {
		var expected, replacement []string
		for _, l := range h {
			if l[0] != '+' {
				expected = append(expected, l[1:])
			}
			if l[0] != '-' {
				replacement = append(replacement, l[1:])
			}
		}
		if len(expected) == 0 && len(replacement) > 0 {
			current = append(current, replacement...)
			continue
		}
		at, n := -1, 0
		for i := 0; i+len(expected) <= len(current); i++ {
			if slices.Equal(current[i:i+len(expected)], expected) {
				at, n = i, n+1
			}
		}
		if n != 1 {
			return "", errServer
		}
		current = slices.Replace(current, at, at+len(expected), replacement...)
	}
	return strings.Join(current, "\n"), nil
}

func (m *memory) patch(label, patch string) error {
	if looksRendered(patch) {
		return errServer
	}
	actions, refused := Actions(patch)
	if refused {
		return errServer
	}
	if actions == nil {
		return m.apply(label, patch)
	}
	for _, a := range actions {
		var err error
		switch a.Verb {
		case "add":
			if _, missing := m.block(a.Label); missing == nil {
				return errServer
			}
			m.create(labelIn("/memories/"+a.Label), a.Description, a.Value())
		case "delete":
			err = m.detach(flatLabel("/memories/" + a.Label))
		case "rename":
			err = m.relabel(flatLabel("/memories/"+a.From), flatLabel("/memories/"+a.Label))
		case "update":
			err = m.apply(a.Label, strings.Join(a.Lines, "\n"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) apply(label, patch string) error {
	e, err := m.editable(label)
	if err != nil {
		return err
	}
	value, err := applyPatch(e.Value, patch)
	if err == nil {
		m.set(e, value)
	}
	return err
}
