package jsondoc

import (
	"bytes"
	"cmp"
)

// maxSalvage bounds the depth at which lists are searched for unreadable elements. Each
// level reads the body again.
const maxSalvage = 8

// Salvage removes unreadable elements from the lists of a body that Parse refuses: elements
// with a duplicate name, an invalid number, text in another encoding, or too deep nesting.
// gone is the number of removed elements. ok is false if the body outside of the lists cannot
// be read either.
func Salvage(src []byte, maxDepth int) (out []byte, gone int, ok bool) {
	s := salvage{Scanner: Scanner{Src: src}, max: cmp.Or(max(maxDepth, 0), DefaultMaxDepth)}
	s.Space()
	ok = s.value(0)
	if s.Space(); !ok || s.At != len(src) || s.gone == 0 {
		return nil, 0, false
	}
	return s.out, s.gone, true
}

type salvage struct {
	Scanner
	out  []byte
	max  int
	gone int
}

// value skips the value at this position and writes its readable part. It returns false if
// there is none; nothing is then written.
func (s *salvage) value(depth int) (ok bool) {
	from := s.At
	if !s.skip() {
		return false
	}
	end := s.At
	if _, err := Parse(s.Src[from:end], max(1, s.max-depth)); err == nil && depth <= s.max {
		s.out = append(s.out, s.Src[from:end]...)
		return true
	}
	was, gone := len(s.out), s.gone
	s.At = from
	if opening := s.Src[from]; depth < maxSalvage && (opening == '[' || opening == '{') {
		ok = s.container(opening, depth)
	}
	if s.At = end; !ok {
		s.out, s.gone = s.out[:was], gone
	}
	return ok
}

// container writes the readable elements of a list. It writes an object if its names and
// values are readable, after unreadable elements are removed from its lists.
func (s *salvage) container(opening byte, depth int) bool {
	closing := opening + 2
	s.out = append(s.out, opening)
	names := map[string]bool{}
	kept, more, ok := 0, s.Open(closing), true
	for more {
		s.Space()
		was, from := len(s.out), s.At
		if kept > 0 {
			s.out = append(s.out, ',')
		}
		if opening == '{' && !s.name(names) {
			return false
		}
		switch {
		case s.value(depth + 1):
			kept++
		case opening == '{' || s.At == from:
			return false
		default:
			s.out = s.out[:was]
			s.gone++
		}
		if more, ok = s.More(closing); !ok {
			return false
		}
	}
	s.out = append(s.out, closing)
	return true
}

// name writes a member's name and the colon. It returns false if the name is unreadable or
// a duplicate.
func (s *salvage) name(seen map[string]bool) bool {
	from := s.At
	if !s.skip() || s.Src[from] != '"' {
		return false
	}
	raw := s.Src[from:s.At]
	name, err := Parse(raw, 1)
	if err != nil || seen[name.Root.Text()] || s.Space() != ':' {
		return false
	}
	seen[name.Root.Text()] = true
	s.out = append(append(s.out, raw...), ':')
	s.At++
	s.Space()
	return true
}

// skip skips a value by its brackets and quotes only.
func (s *salvage) skip() bool {
	var open []byte
	for s.At < len(s.Src) {
		switch c := s.Src[s.At]; c {
		case '"':
			if !s.skipString() {
				return false
			}
		case '{', '[':
			open = append(open, c+2) // the closing bracket
			s.At++
		case '}', ']':
			if len(open) == 0 || open[len(open)-1] != c {
				return false
			}
			open = open[:len(open)-1]
			s.At++
		case ',', ':', ' ', '\t', '\r', '\n':
			if len(open) == 0 {
				return false
			}
			s.At++
		default:
			n := bytes.IndexAny(s.Src[s.At:], "\"{}[],: \t\r\n")
			if n < 0 {
				n = len(s.Src) - s.At
			}
			s.At += n
		}
		if len(open) == 0 {
			return true
		}
	}
	return false
}

func (s *salvage) skipString() bool {
	for s.At++; s.At < len(s.Src); s.At++ {
		switch s.Src[s.At] {
		case '\\':
			s.At++
		case '"':
			s.At++
			return true
		}
	}
	return false
}
