package letta

import (
	"cmp"
	_ "embed" // the table is data
	"strings"
	"sync"

	"github.com/memproxy/memproxy/adapters/spelling"
)

// bodyTable lists the members of request bodies in the server's OpenAPI document.
//
//go:embed bodies.txt
var bodyTable string

// otherMember replaces member names that the server's document does not have, so that
// clients cannot create an unbounded number of names in policies and budgets.
const otherMember = "other"

// members has the known member names, under each kind of object and under the id of each
// route whose body has them. The value is false for a name that is not plain.
type members map[string]map[string]bool

// parsedMembers is the parsed table. A kind of object has the members of all request bodies
// that contain it.
var parsedMembers = sync.OnceValue(func() members {
	known := members{}
	for line := range strings.Lines(bodyTable) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		kind, inside := strings.CutPrefix(name, "@")
		if !inside {
			r := indexed().Row(name)
			if r.ID == "" {
				continue
			}
			kind = objectOf(r)
		}
		for _, of := range [...]string{name, kind} {
			if known[of] == nil {
				known[of] = map[string]bool{}
			}
			for member := range strings.FieldsSeq(rest) {
				known[of][member] = spelling.IsPlainName(member)
			}
		}
	}
	return known
})

// objectOf returns the kind of object that a row's body is or changes.
func objectOf(r *row) string {
	if kind := shapeKinds[string(r.Shape)]; kind != "" {
		return kind
	}
	kind := "server" // unless the path has a collection, of which the last counts
	for word := range strings.SplitSeq(r.Path, "/") {
		if name, ok := collections[word]; ok {
			kind = name
		}
	}
	return kind
}

// member returns the name of the text at a pointer in policies and budgets: the kind of
// its object, a dot, and the member of that object that contains it, at any depth.
func (m members) member(root, pointer string) string {
	kind, name := root, ""
	if part, ok := strings.CutPrefix(pointer, "part:"); ok { // of a form
		pointer = "/" + part
	} else if i := strings.IndexByte(pointer, ':'); i >= 0 && !strings.HasPrefix(pointer, "/") { // path:label
		pointer = "/" + pointer[i+1:]
	}
	words := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, word := range words {
		switch inside, ok := containers[word]; {
		case index(word):
		case ok && i+1 < len(words) && (index(words[i+1]) || word == "core_memory"):
			kind, name = inside, ""
		case name == "":
			name = word
		}
	}
	name = cmp.Or(name, "content") // an element that is not an object
	if !m[kind][name] {
		name = otherMember
	}
	return kind + "." + name
}

func index(word string) bool {
	return word != "" && strings.Trim(word, "0123456789") == ""
}

// configures reports whether a steering member is an agent's configuration. Agent files do
// not count, because an attacker may have planted text in them. Neither do names of skills,
// which are files that an agent reads.
func configures(r *row, member string) bool {
	switch r.Shape {
	case agent:
		return member == "agent.system" || member == "agent.tool_rules"
	case chat:
		return member == "run.client_tools"
	}
	return false
}
