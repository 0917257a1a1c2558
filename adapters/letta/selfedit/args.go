package selfedit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

type shape int

const (
	text shape = iota
	integer
	texts
	chunks
)

type param struct {
	name     string
	shape    shape
	optional bool
}

// Args are the arguments of a call by parameter, each of the parameter's type.
type Args struct {
	doc   *jsondoc.Doc
	given map[string]*jsondoc.Value
}

func (a Args) has(name string) bool { return a.given[name] != nil }

// Text returns a text argument, or "".
func (a Args) Text(name string) string { return a.given[name].Text() }

// either returns the argument of a parameter that has another name in older servers.
func (a Args) either(name, older string) string { return cmp.Or(a.given[name], a.given[older]).Text() }

// Texts returns the elements of a list argument; for the chunks of store_memories,
// their texts.
func (a Args) Texts(name string) (texts []string) {
	for _, e := range a.given[name].List() {
		if e.Kind == jsondoc.String {
			texts = append(texts, e.Text())
		}
		for _, m := range e.Members {
			if m.Value.Kind == jsondoc.String {
				texts = append(texts, m.Value.Text())
			}
		}
	}
	return texts
}

// shapes are the types of the parameters that are not text.
var shapes = map[string]shape{"insert_line": integer, "tags": texts, "chunks": chunks}

// BlockParams returns the parameters of a tool that name the blocks it writes to.
func BlockParams(tool string) (names []string) {
	for _, p := range Tools[tool].params {
		switch p.name {
		case "label", "target_block_label", "path", "old_path", "new_path", "patch":
			names = append(names, p.name)
		}
	}
	return names
}

// ReadByLoop reports whether the agent loop reads an argument and does not pass it to the
// tool.
func ReadByLoop(name string) bool {
	return name == "request_heartbeat" || name == "thinking" || name == "inner_thoughts"
}

// Read reads the arguments of a call. fits is false if the server would not call the tool
// with them: an argument is missing, or has no parameter. An argument whose type differs
// from its parameter's is a *memproxy.Malformed, because Python would convert it to a text
// that differs from what was written.
func Read(tool string, doc *jsondoc.Doc) (args Args, fits bool, err error) {
	args = Args{doc, map[string]*jsondoc.Value{}}
	known := Tools[tool].params
	fits = known != nil
	for _, m := range doc.Root.Members {
		if ReadByLoop(m.Name) || strings.HasPrefix(m.Name, memproxy.StampPrefix) {
			continue
		}
		at := slices.IndexFunc(known, func(p param) bool { return p.name == m.Name })
		if at < 0 {
			fits = false
			continue
		}
		if m.Value.Kind == jsondoc.Null && (tool == "memory" && known[at].optional || known[at].shape == texts) {
			continue // null counts as absent
		}
		if err := known[at].check(doc, m.Value); err != nil {
			return args, false, err
		}
		args.given[m.Name] = m.Value
	}
	for _, p := range known {
		fits = fits && (p.optional || args.has(p.name))
	}
	if tool != "memory" { // exactly one of the two names must be given
		for _, pair := range [...][2]string{{"old_string", "old_str"}, {"new_string", "new_str"}} {
			if slices.ContainsFunc(known, func(p param) bool { return p.name == pair[0] }) {
				fits = fits && args.has(pair[0]) != args.has(pair[1])
			}
		}
	}
	return args, fits, nil
}

// check refuses an argument that is not of its parameter's type.
func (p param) check(doc *jsondoc.Doc, v *jsondoc.Value) error {
	at := jsondoc.Child("", p.name)
	switch p.shape {
	case text:
		return checkText(v, at)
	case integer:
		if _, err := strconv.Atoi(string(doc.Raw(v))); err != nil {
			return Malformed(at, "this argument of a memory tool must be an integer")
		}
		return nil
	}
	if v.Kind != jsondoc.Array {
		return Malformed(at, "this argument of a memory tool must be a list")
	}
	if p.shape == chunks {
		return v.Each(at, checkChunk)
	}
	return v.Each(at, checkText)
}

func checkChunk(v *jsondoc.Value, at string) error {
	if v.Kind != jsondoc.Object {
		return Malformed(at, "a conversation chunk must be an object")
	}
	for _, m := range v.Members {
		switch m.Value.Kind {
		case jsondoc.String, jsondoc.Number, jsondoc.Null:
		default:
			return Malformed(jsondoc.Child(at, m.Name), "a conversation chunk must contain only numbers and strings")
		}
	}
	return nil
}

// checkText refuses U+0000, too, because the server removes it before it stores the text.
func checkText(v *jsondoc.Value, at string) error {
	if v.Kind != jsondoc.String {
		return Malformed(at, "this argument of a memory tool must be a string")
	}
	if strings.ContainsRune(v.Text(), 0) {
		return Malformed(at, "the character U+0000 cannot be stored unchanged")
	}
	return nil
}

// Malformed returns the error for invalid or ambiguous arguments.
func Malformed(pointer, detail string) *memproxy.Flaw {
	return &memproxy.Flaw{Code: memproxy.PayloadMalformed, Status: 400, Pointer: pointer, Detail: detail}
}

// Unreadable reports whether the agent loop would read only a part of the arguments: it
// splits them at "}{", even within a string.
func Unreadable(arguments string) bool { return strings.Contains(arguments, "}{") }
