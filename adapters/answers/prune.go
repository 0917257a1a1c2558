package answers

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// ErrShape reports that an answer is not of its route's shape.
var ErrShape = errors.New("answers: the response does not have the route's shape")

// maxNames bounds the names that are recorded of one answer, maxName their length.
const (
	maxNames = 8
	maxName  = 64
)

// Claims reports whether the table claims everything in a route's answer.
func (t *Table) Claims(route string, answer *jsondoc.Value) bool {
	s := t.answers[route]
	return s != nil && s.claims(answer)
}

// ClaimsElement reports whether the table claims everything in an element of a list. The list
// is the given member of the route's answer, or the answer itself if member is "".
func (t *Table) ClaimsElement(route, member string, element *jsondoc.Value) bool {
	s := t.answers[route]
	if s != nil && member != "" {
		m := s.member(member)
		if m == nil {
			return false
		}
		s = m.spec
	}
	return s != nil && s.list != nil && s.list.claims(element)
}

// prune prunes a body that has the form of s. pathParams are the parameters of the request's
// path, which an error may repeat.
func prune(s *spec, body []byte, pathParams map[string]string) (memproxy.Pruned, error) {
	whole := memproxy.Pruned{Body: body}
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return whole, nil
	case s == nil:
		return memproxy.Pruned{}, ErrShape
	case s.raw:
		return whole, nil
	}
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return memproxy.Pruned{}, err
	}
	whole.Parsed = doc
	if s.claims(doc.Root) {
		return whole, nil
	}
	p := pruning{e: doc.Edit(), pathParams: pathParams}
	if !p.value(doc.Root, s, "") {
		return memproxy.Pruned{}, ErrShape
	}
	if p.e.Empty() {
		return whole, nil
	}
	return memproxy.Pruned{Body: p.e.Apply(), Unclaimed: p.n, Names: p.names}, nil
}

// pruning is the state of pruning one document.
type pruning struct {
	e          *jsondoc.Edits
	pathParams map[string]string
	n          int
	names      []string
}

func (p *pruning) report(place string) {
	p.n++
	if len(p.names) < maxNames && len(place) <= maxName && !slices.Contains(p.names, place) {
		p.names = append(p.names, place)
	}
}

func plainName(name string) bool { return name != "" && len(name) <= 40 && spelling.IsWord(name, "_-") }

// value reports whether a value is claimed, and removes the parts of it that are not.
func (p *pruning) value(v *jsondoc.Value, s *spec, at string) bool {
	switch {
	case s.any:
		return true
	case !s.hasForm(v):
		return false
	case v.Kind == jsondoc.Object:
		return p.object(v, s, at)
	case v.Kind == jsondoc.Array:
		p.e.Array(v, func(i int) bool {
			gone := !p.value(v.Elems[i], s.list, at+"/-")
			if gone {
				p.report(at + "/-")
			}
			return gone
		})
	case v.Kind == jsondoc.String && !s.scalar:
		return p.errorText(v, s, at)
	}
	return true
}

// errorText reports whether a string in an error is claimed. A text that is not a known
// phrase is replaced.
func (p *pruning) errorText(v *jsondoc.Value, s *spec, at string) bool {
	said := v.Text()
	if s.admits(said) || !s.text {
		return s.admits(said)
	}
	instead := s.replacement(said, p.pathParams)
	if instead != said {
		p.e.Replace(v, jsondoc.Quote(instead))
		p.report(cmp.Or(at, "/?"))
	}
	return true
}

func (p *pruning) object(v *jsondoc.Value, s *spec, at string) bool {
	for i := range v.Members {
		m, said := s.member(v.Members[i].Name), v.Members[i].Value
		switch {
		case m == nil:
		case m.identifies && !m.spec.hasForm(said): // of the object or its owner
			return false
		case m.only != nil && !slices.Contains(m.only, said.Text()):
			return false
		}
	}
	p.e.Object(v, func(m *jsondoc.Member) bool {
		of, place := s.member(m.Name), at+"/"+shownName(m.Name)
		gone := of == nil || !p.value(m.Value, of.spec, place)
		if gone {
			p.report(place)
		}
		return gone
	}, nil)
	return true
}

// hasForm reports whether a value has one of the spec's forms, without looking into it.
func (s *spec) hasForm(v *jsondoc.Value) bool {
	switch {
	case s.any, v.Kind == jsondoc.Null:
		return true
	case v.Kind == jsondoc.Object:
		return s.object != nil || s.dict != nil
	case v.Kind == jsondoc.Array:
		return s.list != nil
	}
	return s.scalar || s.phrases != nil // numbers, true and false are claimed where texts are
}

// claims reports whether everything in a value is claimed, without an edit.
func (s *spec) claims(v *jsondoc.Value) bool {
	switch {
	case s.any, v.Kind == jsondoc.Null:
		return true
	case !s.hasForm(v):
		return false
	case v.Kind == jsondoc.String:
		return s.scalar || s.admits(v.Text())
	}
	for _, e := range v.Elems {
		if !s.list.claims(e) {
			return false
		}
	}
	for i := range v.Members {
		m, said := s.member(v.Members[i].Name), v.Members[i].Value
		if m == nil || m.only != nil && (said.Kind != jsondoc.String || !slices.Contains(m.only, said.Text())) || !m.spec.claims(said) {
			return false
		}
	}
	return true
}

// member returns what an object's member of this name may be, or nil if it has no claim.
func (s *spec) member(name string) *member {
	if s.object == nil {
		return s.dict
	}
	if m := s.object.members[name]; m != nil {
		return m
	}
	return s.object.rest
}

// shownName returns a name if it is plain: the writer of a memory may have chosen another.
func shownName(name string) string {
	if plainName(name) {
		return name
	}
	return "?"
}
