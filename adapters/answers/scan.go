package answers

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// claimed reports whether a body is JSON in which everything is claimed. It
// takes no document apart, and says no where it is not sure: the slow way then
// decides. What it says yes to, the slow way would leave as it is.
func claimed(s *spec, body []byte) bool {
	if !utf8.Valid(body) {
		return false
	}
	c := scan{b: body}
	return c.value(s, 0) && c.space() == 0 && c.i == len(c.b)
}

type scan struct {
	b []byte
	i int
}

// space skips white space and returns the next byte, or 0 at the end.
func (c *scan) space() byte {
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; ch {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return ch
		}
	}
	return 0
}

// value scans a value; a nil spec claims everything.
func (c *scan) value(s *spec, depth int) bool {
	if depth > maxDepth {
		return false
	}
	if s != nil && s.any {
		s = nil
	}
	switch c.space() {
	case '{':
		var o *object
		var dict *spec
		if s != nil {
			if o, dict = s.object, s.dict; o == nil && dict == nil {
				return false
			}
		}
		return c.object(o, dict, depth)
	case '[':
		var list *spec
		if s != nil {
			if list = s.list; list == nil {
				return false
			}
		}
		return c.list(list, depth)
	case '"':
		said, ok := c.text()
		return ok && (s == nil || s.says(said))
	case 'n':
		return c.word("null")
	case 't':
		return c.word("true") && (s == nil || s.holdsScalars())
	case 'f':
		return c.word("false") && (s == nil || s.holdsScalars())
	}
	return c.number() && (s == nil || s.holdsScalars())
}

func (c *scan) word(w string) bool {
	if !bytes.HasPrefix(c.b[c.i:], []byte(w)) {
		return false
	}
	c.i += len(w)
	return true
}

// text scans a string and returns what is between its quotes, as it is
// written.
func (c *scan) text() ([]byte, bool) {
	from := c.i + 1
	for i := from; i < len(c.b); i++ {
		switch ch := c.b[i]; {
		case ch == '"':
			c.i = i + 1
			return c.b[from:i], true
		case ch < 0x20:
			return nil, false
		case ch == '\\':
			if i++; i == len(c.b) {
				return nil, false
			}
			switch c.b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if i+4 >= len(c.b) || !hex4(c.b[i+1:i+5]) {
					return nil, false
				}
				i += 4
			default:
				return nil, false
			}
		}
	}
	return nil, false
}

// hex4 reports whether four digits name a character. Halves of pairs are for
// the slow way, which knows whether the other one follows.
func hex4(b []byte) bool {
	for _, ch := range b {
		if (ch < '0' || ch > '9') && (ch < 'a' || ch > 'f') && (ch < 'A' || ch > 'F') {
			return false
		}
	}
	return b[0]|0x20 != 'd' || b[1] < '8' && b[1] >= '0'
}

// number scans a number as RFC 8259 has it.
func (c *scan) number() bool {
	if c.i < len(c.b) && c.b[c.i] == '-' {
		c.i++
	}
	from := c.i
	if !c.digits() || c.b[from] == '0' && c.i > from+1 {
		return false
	}
	if c.i < len(c.b) && c.b[c.i] == '.' {
		if c.i++; !c.digits() {
			return false
		}
	}
	if c.i < len(c.b) && (c.b[c.i] == 'e' || c.b[c.i] == 'E') {
		if c.i++; c.i < len(c.b) && (c.b[c.i] == '+' || c.b[c.i] == '-') {
			c.i++
		}
		return c.digits()
	}
	return true
}

func (c *scan) digits() bool {
	from := c.i
	for c.i < len(c.b) && c.b[c.i] >= '0' && c.b[c.i] <= '9' {
		c.i++
	}
	return c.i > from
}

func (c *scan) list(s *spec, depth int) bool {
	if c.i++; c.space() == ']' {
		c.i++
		return true
	}
	for {
		if !c.value(s, depth+1) {
			return false
		}
		switch c.space() {
		case ',':
			c.i++
		case ']':
			c.i++
			return true
		default:
			return false
		}
	}
}

// object scans an object whose members o or dict claims; with neither,
// everything is claimed.
func (c *scan) object(o *object, dict *spec, depth int) bool {
	if c.i++; c.space() == '}' {
		c.i++
		return true
	}
	var seen [4]uint64 // members seen so far: a member that occurs twice is left to the slow path
	for {
		if c.space() != '"' {
			return false
		}
		name, ok := c.text()
		if !ok || bytes.IndexByte(name, '\\') >= 0 || c.space() != ':' {
			return false
		}
		c.i++
		s := dict
		var only []string
		if o != nil {
			s = o.rest
			if m := o.members[string(name)]; m != nil {
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
		if only != nil && c.space() == '"' {
			said, ok := c.text()
			if !ok || !slices.Contains(only, string(said)) {
				return false
			}
		} else if only != nil || !c.value(s, depth+1) {
			return false
		}
		switch c.space() {
		case ',':
			c.i++
		case '}':
			c.i++
			return true
		default:
			return false
		}
	}
}
