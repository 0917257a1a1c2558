package mem0

import (
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// relations reads the graph in an answer, one text for each relation.
func relations(rd *memproxy.Reading, v *jsondoc.Value) {
	if v == nil {
		return
	}
	for _, e := range v.Elems {
		relations(rd, e)
	}
	var words []string
	for i := range v.Members {
		switch m := v.Members[i].Value; m.Kind {
		case jsondoc.String:
			words = append(words, m.Text())
		default:
			relations(rd, m)
		}
	}
	if len(words) > 0 {
		rd.Relations = append(rd.Relations, strings.Join(words, " "))
	}
}

// unrelate empties an answer's relations: the memories that they were derived from are
// unknown.
func unrelate(e *jsondoc.Edits, doc *jsondoc.Doc, gone bool) {
	v := doc.Root.Get("relations")
	switch {
	case v == nil || !gone:
	case v.Kind == jsondoc.Object:
		e.Replace(v, []byte("{}"))
	default:
		e.Replace(v, []byte("[]"))
	}
}

// uncount removes an answer's totals and makes a list count its shown elements,
// because the backend also counted others' memories.
func uncount(e *jsondoc.Edits, doc *jsondoc.Doc, drop map[string]bool) {
	root := doc.Root
	if root.Kind != jsondoc.Object {
		return
	}
	shown, lists := 0, 0
	for _, key := range listKeys {
		v := root.Get(key)
		if v == nil || v.Kind != jsondoc.Array {
			continue
		}
		lists++
		for i := range v.Elems {
			if !drop[jsondoc.Index("/"+key, i)] {
				shown++
			}
		}
	}
	if lists == 0 {
		return
	}
	for _, key := range [...]string{"count", "total"} {
		if v := root.Get(key); v != nil {
			e.Replace(v, strconv.AppendInt(nil, int64(shown), 10))
		}
	}
	e.Object(root, func(name string) bool { return strings.HasPrefix(name, "total_") }, nil)
}

// unprecede removes the previous texts from elements.
func unprecede(e *jsondoc.Edits, doc *jsondoc.Doc, elements []string) {
	for _, ptr := range elements {
		if v := doc.At(ptr); v != nil && v.Kind == jsondoc.Object {
			e.Object(v, func(name string) bool { return name == "previous_memory" || name == "old_memory" }, nil)
		}
	}
}
