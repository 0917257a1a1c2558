package answers

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Recognizer returns the length of a recognised element of a list at the start of rest, or 0.
// The list is the given member of the answer, or the answer itself if member is "". A
// Recognizer must only recognise elements for which Claims returned true.
type Recognizer func(member string, rest []byte) int

// claimed reports whether a body is JSON with only claimed members. It is the fast path of
// Prune: it builds no document, and if it returns true, Prune would return the body
// unchanged. In doubt it returns false, so that Prune parses the body.
func claimed(s *spec, body []byte, known Recognizer) bool {
	if !utf8.Valid(body) {
		return false
	}
	c := scan{Scanner: jsondoc.Scanner{Src: body}, known: known, names: make([][]byte, 0, 16)}
	return c.value(s, 0) && c.Space() == 0 && c.At == len(body)
}

type scan struct {
	jsondoc.Scanner
	known  Recognizer // may be nil
	member string     // member of the answer that is being read
	names  [][]byte   // names without a line in the table, in the enclosing objects
}

const (
	// maxOthers bounds the names without a line of one object, which are compared in pairs.
	maxOthers = 64
	// maxListed is the greatest depth of arrays whose elements may be recognised.
	maxListed = 1
)

// everything is the spec of a value that may be anything.
var everything = func() *spec {
	s := &spec{scalar: true}
	s.list, s.dict = s, s
	return s
}()

func (c *scan) value(s *spec, depth int) bool {
	if depth > jsondoc.DefaultMaxDepth {
		return false
	}
	if s.any {
		s = everything
	}
	switch c.Space() {
	case '{':
		return (s.object != nil || s.dict != nil) && c.object(s.object, s.dict, depth)
	case '[':
		return s.list != nil && c.list(s.list, depth)
	case '"':
		said, ok := c.String()
		return ok && s.admitsJSON(said)
	case 'n':
		return c.Literal("null")
	case 't':
		return c.Literal("true") && s.holdsScalars()
	case 'f':
		return c.Literal("false") && s.holdsScalars()
	}
	return c.Number() && s.holdsScalars()
}

func (c *scan) list(s *spec, depth int) bool {
	for more, ok := c.Open(']'), true; more; {
		n := 0 // length of an element that is recognised
		if c.known != nil && depth <= maxListed && c.Space() == '{' {
			n = c.known(c.member, c.Src[c.At:])
		}
		c.At += n
		if n == 0 && !c.value(s, depth+1) {
			return false
		}
		if more, ok = c.More(']'); !ok {
			return false
		}
	}
	return true
}

// object scans an object. Its members are claimed by o or, if o is nil, by dict.
func (c *scan) object(o *object, dict *spec, depth int) bool {
	var seen [4]uint64 // bit set of the members read so far; Prune handles duplicates
	others := len(c.names)
	for more := c.Open('}'); more; {
		if c.Space() != '"' {
			return false
		}
		name, ok := c.String()
		if !ok || c.Escaped || c.Space() != ':' {
			return false
		}
		c.At++
		if depth == 0 {
			c.member = string(name)
		}
		s := dict
		var m *member
		var only []string
		if o != nil {
			if s, m = o.rest, o.members[string(name)]; m != nil {
				at, bit := m.index/64%4, uint64(1)<<(m.index%64)
				if m.index >= 256 || seen[at]&bit != 0 {
					return false
				}
				seen[at] |= bit
				s, only = m.spec, m.only
			}
			if s == nil {
				return false
			}
		}
		if m == nil {
			if mine := c.names[others:]; len(mine) == maxOthers || slices.ContainsFunc(mine, func(n []byte) bool { return bytes.Equal(n, name) }) {
				return false
			}
			c.names = append(c.names, name)
		}
		if only != nil && c.Space() == '"' {
			said, ok := c.String()
			if !ok || !slices.Contains(only, string(said)) {
				return false
			}
		} else if only != nil || !c.value(s, depth+1) {
			return false
		}
		if more, ok = c.More('}'); !ok {
			return false
		}
	}
	c.names = c.names[:others]
	return true
}
