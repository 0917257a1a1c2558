package mem0

import (
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
