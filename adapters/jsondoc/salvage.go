package jsondoc

import "bytes"

// maxSalvage bounds the depth of lists that are searched for unreadable elements,
// so that a body is read a bounded number of times.
const maxSalvage = 8

// Salvage returns a body that Parse refuses without the unreadable elements of its
// lists: with a duplicate name, an invalid number, text in another encoding, or
// nesting that is too deep. Gone is the number of removed elements. It is not ok if
// the body around the lists cannot be read either; Parse accepts the result.
func Salvage(src []byte, maxDepth int) (out []byte, gone int, ok bool) {
	if maxDepth <= 0 {
		maxDepth = DefaultMaxDepth
	}
	s := salvage{src: src, max: maxDepth}
	end, ok := s.value(s.space(0), 0)
	if !ok || s.space(end) != len(src) || s.gone == 0 {
		return nil, 0, false
	}
	if _, err := Parse(s.out, maxDepth); err != nil {
		return nil, 0, false
	}
	return s.out, s.gone, true
}

type salvage struct {
	src  []byte
	out  []byte
	max  int
	gone int
}

// space returns the index after white space, or the end.
func (s *salvage) space(i int) int {
	for i < len(s.src) && (s.src[i] == ' ' || s.src[i] == '\t' || s.src[i] == '\n' || s.src[i] == '\r') {
		i++
	}
	return i
}

// value writes the readable part of the value at an index, and returns its end. It
// is not ok if there is none; nothing is then written.
func (s *salvage) value(i, depth int) (end int, ok bool) {
	end, ok = s.skip(i)
	if !ok {
		return end, false
	}
	if _, err := Parse(s.src[i:end], max(1, s.max-depth)); err == nil && depth <= s.max {
		s.out = append(s.out, s.src[i:end]...)
		return end, true
	}
	was, gone := len(s.out), s.gone
	switch {
	case depth >= maxSalvage:
		ok = false
	case s.src[i] == '[':
		ok = s.list(i, depth)
	case s.src[i] == '{':
		ok = s.object(i, depth)
	default:
		ok = false
	}
	if !ok {
		s.out, s.gone = s.out[:was], gone
	}
	return end, ok
}

// list writes the readable elements.
func (s *salvage) list(i, depth int) bool {
	s.out = append(s.out, '[')
	kept := 0
	for i = s.space(i + 1); i < len(s.src) && s.src[i] != ']'; {
		was := len(s.out)
		if kept > 0 {
			s.out = append(s.out, ',')
		}
		end, ok := s.value(i, depth+1)
		if ok {
			kept++
		} else {
			s.out = s.out[:was]
			s.gone++
		}
		if end <= i {
			return false
		}
		if i, ok = s.next(end, ']'); !ok {
			return false
		}
	}
	s.out = append(s.out, ']')
	return true
}

// object writes an object whose names and values are readable, with the readable
// elements of its lists.
func (s *salvage) object(i, depth int) bool {
	s.out = append(s.out, '{')
	seen := map[string]bool{}
	for i = s.space(i + 1); i < len(s.src) && s.src[i] != '}'; {
		end, ok := s.skip(i)
		if !ok || s.src[i] != '"' {
			return false
		}
		name, err := Parse(s.src[i:end], 1)
		if err != nil || seen[name.Root.Text()] {
			return false
		}
		if len(seen) > 0 {
			s.out = append(s.out, ',')
		}
		seen[name.Root.Text()] = true
		s.out = append(append(s.out, s.src[i:end]...), ':')
		if i = s.space(end); i == len(s.src) || s.src[i] != ':' {
			return false
		}
		if end, ok = s.value(s.space(i+1), depth+1); !ok {
			return false
		}
		if i, ok = s.next(end, '}'); !ok {
			return false
		}
	}
	s.out = append(s.out, '}')
	return true
}

// next returns the index of the next element, or of the closing bracket.
func (s *salvage) next(end int, bracket byte) (i int, ok bool) {
	if i = s.space(end); i < len(s.src) && s.src[i] == bracket {
		return i, true
	}
	if i == len(s.src) || s.src[i] != ',' {
		return i, false
	}
	i = s.space(i + 1)
	return i, i < len(s.src) && s.src[i] != bracket
}

// skip returns the end of a value, by its brackets and quotes alone.
func (s *salvage) skip(i int) (end int, ok bool) {
	if i >= len(s.src) {
		return i, false
	}
	var open []byte
	for i < len(s.src) {
		switch c := s.src[i]; c {
		case '"':
			if i, ok = s.quoted(i); !ok {
				return i, false
			}
		case '{', '[':
			open = append(open, c+2) // the closing bracket
			i++
		case '}', ']':
			if len(open) == 0 || open[len(open)-1] != c {
				return i, false
			}
			open = open[:len(open)-1]
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			if len(open) == 0 {
				return i, false
			}
			i++
		default:
			n := bytes.IndexAny(s.src[i:], "\"{}[],: \t\r\n")
			if n < 0 {
				n = len(s.src) - i
			}
			i += n
		}
		if len(open) == 0 {
			return i, true
		}
	}
	return i, false
}

// quoted returns the end of a string.
func (s *salvage) quoted(i int) (end int, ok bool) {
	for i++; i < len(s.src); i++ {
		switch s.src[i] {
		case '\\':
			i++
		case '"':
			return i + 1, true
		}
	}
	return i, false
}
