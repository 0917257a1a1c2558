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
	for _, n := range lacking(fields) {
		text = append(text, `,"`+n+`"`...)
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
	if len(have) == 0 {
		return query
	}
	missing := lacking(have)
	if len(missing) == 0 {
		return query
	}
	pairs := strings.Split(query, "&")
	if i := slices.IndexFunc(pairs, func(p string) bool { return strings.HasPrefix(p, "fields=") }); i >= 0 && len(values["fields"]) == 1 && len(have) > 1 {
		pairs[i] += "," + strings.Join(missing, ",") // a list in one value stays one
		return strings.Join(pairs, "&")
	}
	return query + "&fields=" + strings.Join(missing, "&fields=")
}

// lacking are the needed fields that are not among those asked for.
func lacking(have []string) []string {
	return slices.DeleteFunc(slices.Clone(needed[:]), func(n string) bool { return slices.Contains(have, n) })
}

const formQuery = query

func commaLists(lists []string) []string {
	var out []string
	for _, l := range lists {
		for f := range strings.SplitSeq(l, ",") {
			if f != "" {
				out = append(out, f)
			}
		}
	}
	return out
}
