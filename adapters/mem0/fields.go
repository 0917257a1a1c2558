package mem0

import (
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// needed are the fields without which an answer cannot be filtered. memproxy adds them to
// the fields that a client requests, and removes them from the answer again.
var needed = append([]string{"id", "metadata"}, owners[:]...)

// projects reports whether a body can select fields. Only the hosted platform supports
// that; other servers answer with all fields.
func projects(r *row, op *memproxy.Operation) bool {
	return !r.Is(server) && op.Kind == memproxy.Recall && !op.Derived && (r.Shape == search || r.Shape == list)
}

// projection returns the fields that the client requests in a body, or nil. A member
// fields in another form than the documented one is refused, because memproxy could not
// extend it.
func projection(doc *jsondoc.Doc) ([]string, error) {
	var out []string
	v := doc.Root.Get("fields")
	if v != nil && v.Kind != jsondoc.Null && v.Kind != jsondoc.Array {
		return nil, errFields
	}
	for _, e := range v.List() {
		if e.Kind != jsondoc.String {
			return nil, errFields
		}
		out = append(out, e.Text())
	}
	return out, nil
}

var errFields = malformed(memproxy.PayloadMalformed, 400, "/fields", "fields must be a list of names")

func widenBody(e *jsondoc.Edits, doc *jsondoc.Doc) {
	fields, _ := projection(doc) // Decode refused bodies for which it fails
	if fields == nil {
		return
	}
	var more [][]byte
	for _, n := range missingFields(fields) {
		more = append(more, []byte(`"`+n+`"`))
	}
	e.Append(doc.Root.Get("fields"), more)
}

// widenQuery adds the needed fields to fields=a,b in a query. If the client did not write
// one list, it is unknown whether the server takes all values of the parameter or splits
// the last value, so the fields are added in both ways.
func widenQuery(r *row, query string) string {
	have, single := queryFields(r, query)
	if len(have) == 0 {
		return query
	}
	missing := missingFields(have)
	if len(missing) == 0 {
		return query
	}
	pairs := strings.Split(query, "&")
	if i := slices.IndexFunc(pairs, func(p string) bool { return strings.HasPrefix(p, "fields=") }); i >= 0 && single && len(have) > 1 {
		pairs[i] += "," + strings.Join(missing, ",")
		return strings.Join(pairs, "&")
	}
	last := url.QueryEscape(have[len(have)-1])
	return query + "&fields=" + strings.Join(missing, "&fields=") + "&fields=" + last + "," + strings.Join(missing, ",")
}

// queryFields returns the fields that the client requests in a query, or nil. single
// reports whether one value of the parameter has them all.
func queryFields(r *row, raw string) (have []string, single bool) {
	if r.Is(server) || r.Kind != memproxy.Recall || r.Derived {
		return nil, false
	}
	switch r.Shape {
	case query, list, search:
	default:
		return nil, false
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, false
	}
	return strings.FieldsFunc(strings.Join(values["fields"], ","), func(r rune) bool { return r == ',' }), len(values["fields"]) == 1
}

func missingFields(have []string) []string {
	return slices.DeleteFunc(slices.Clone(needed), func(n string) bool { return slices.Contains(have, n) })
}
