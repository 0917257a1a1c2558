package mem0

import (
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// recordRelations records the text of each relation of the graph in an answer.
func recordRelations(rd *memproxy.Reading, v *jsondoc.Value) {
	if v == nil {
		return
	}
	for _, e := range v.Elems {
		recordRelations(rd, e)
	}
	var words []string
	for i := range v.Members {
		switch m := v.Members[i].Value; m.Kind {
		case jsondoc.String:
			words = append(words, m.Text())
		default:
			recordRelations(rd, m)
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
