package mem0

import (
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// needed are the fields without which an answer cannot be filtered. A client
// that projects them away gets them removed again on the way back.
var needed = [...]string{"id", "metadata", "user_id", "agent_id", "app_id", "run_id", "session_id"}

// projects reports whether a body may carry a projection.
func projects(r *row, op *memproxy.Operation) bool {
	return op.Kind == memproxy.Recall && !op.Derived && (r.shape == search || r.shape == list)
}

// projection is what the client asked for in a body, or nil.
func projection(doc *jsondoc.Doc) []string {
	v := doc.Root.Get("fields")
	if v == nil || v.Kind != jsondoc.Array || len(v.Elems) == 0 {
		return nil
	}
	var out []string
	for _, e := range v.Elems {
		if e.Kind != jsondoc.String {
			return nil
		}
		out = append(out, e.Text())
	}
	return out
}

func widenBody(e *jsondoc.Edits, doc *jsondoc.Doc) {
	fields := projection(doc)
	if fields == nil {
		return
	}
	list := doc.Root.Get("fields")
	text := append([]byte(nil), doc.Raw(list)[:len(doc.Raw(list))-1]...)
	for _, n := range needed {
		if !slices.Contains(fields, n) {
			text = append(text, `,"`+n+`"`...)
		}
	}
	e.Replace(list, append(text, ']'))
}

// widenQuery adds the needed fields to fields=a,b in a query.
func widenQuery(r *row, query string) string {
	if r.shape != formQuery || !strings.Contains(query, "fields=") {
		return query
	}
	values, err := url.ParseQuery(query)
	if err != nil || len(values["fields"]) == 0 {
		return query
	}
	have := commaLists(values["fields"])
	for _, n := range needed {
		if !slices.Contains(have, n) {
			query += "&fields=" + n
		}
	}
	return query
}

const formQuery = query

func commaLists(lists []string) []string {
	var out []string
	for _, l := range lists {
		out = append(out, strings.Split(l, ",")...)
	}
	return out
}
