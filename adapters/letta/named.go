package letta

import (
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// maxNamed bounds the objects that are looked up for one answer. The largest
// that the server gives by itself are fifty agents with everything attached.
const maxNamed = 20000

// Names implements the gate's namer: every object that an answer names, at any
// depth, by an object with an id of its own or by an id alone. What is not known
// to hold text is taken for a name.
func (a *Adapter) Names(_ memproxy.Route, reply memproxy.Reply) ([]memproxy.Ref, error) {
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err != nil {
		return nil, err
	}
	n := naming{}
	n.value("", doc.Root, "")
	if len(n.refs) > maxNamed {
		return nil, errShape
	}
	return n.refs, nil
}

type naming struct{ refs []memproxy.Ref }

func (n *naming) value(name string, v *jsondoc.Value, ptr string) {
	if len(n.refs) > maxNamed {
		return
	}
	switch v.Kind {
	case jsondoc.String:
		if !holdsText(name) && hasIDForm(v.Text()) {
			n.refs = append(n.refs, memproxy.Ref{Kind: memproxy.TargetMemory, ID: v.Text(), Pointer: ptr})
		}
	case jsondoc.Array:
		for i, e := range v.Elems {
			n.value(name, e, jsondoc.Index(ptr, i))
		}
	case jsondoc.Object:
		for _, m := range v.Members {
			if m.Name == "id" && m.Value.Kind == jsondoc.String { // it is the object that goes
				if hasIDForm(m.Value.Text()) {
					n.refs = append(n.refs, memproxy.Ref{Kind: memproxy.TargetMemory, ID: m.Value.Text(), Pointer: ptr})
				}
				continue
			}
			n.value(m.Name, m.Value, jsondoc.Child(ptr, m.Name))
		}
	}
}

// Without implements the gate's namer: elements of lists go, and what stands
// under a name of its own becomes null.
func (a *Adapter) Without(reply memproxy.Reply, gone []string) ([]byte, error) {
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err != nil {
		return nil, err
	}
	e := doc.Edit()
	lists := map[string][]int{}
	for _, ptr := range gone {
		if ptr == "" {
			return nil, errWhole
		}
		at := strings.LastIndexByte(ptr, '/')
		parent := doc.At(ptr[:at])
		switch {
		case parent == nil || heldBy(gone, ptr[:at]):
		case parent.Kind == jsondoc.Array:
			i, err := strconv.Atoi(ptr[at+1:])
			if err != nil {
				return nil, errShape
			}
			lists[ptr[:at]] = append(lists[ptr[:at]], i)
		default:
			e.Replace(doc.At(ptr), []byte("null"))
		}
	}
	for list, drop := range lists {
		e.Array(doc.At(list), func(i int) bool { return slices.Contains(drop, i) })
	}
	return e.Apply(), nil
}

// heldBy reports whether something that holds a pointer goes itself.
func heldBy(gone []string, ptr string) bool {
	for ; ptr != ""; ptr = ptr[:strings.LastIndexByte(ptr, '/')] {
		if slices.Contains(gone, ptr) {
			return true
		}
	}
	return false
}
