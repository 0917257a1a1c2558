package mem0

import (
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// relations adds one text for each relation of the graph in an answer.
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

// clearRelations empties an answer's relations if gone is set: memories were dropped, and it
// is unknown which relations were derived from them.
func clearRelations(e *jsondoc.Edits, doc *jsondoc.Doc, gone bool) {
	v := doc.Root.Get("relations")
	switch {
	case v == nil || !gone:
	case v.Kind == jsondoc.Object:
		e.Replace(v, []byte("{}"))
	default:
		e.Replace(v, []byte("[]"))
	}
}
