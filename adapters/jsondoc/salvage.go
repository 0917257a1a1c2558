package jsondoc

import "cmp"

// maxSalvage bounds the depth of the lists from which unreadable elements are removed. Such an
// element is read once more at each level that fails with it.
const maxSalvage = 8

// lost is the kind of an element that cannot be read.
const lost Kind = '?'

// Salvage removes unreadable elements from the lists of a body that Parse refuses: elements
// with a duplicate name, an invalid number, text in another encoding, or too deep nesting.
// gone is the number of removed elements. ok is false if the body outside of the lists cannot
// be read either.
func Salvage(src []byte, maxDepth int) (out []byte, gone int, ok bool) {
	p := parser{Scanner: Scanner{Src: src}, max: cmp.Or(max(maxDepth, 0), DefaultMaxDepth), salvages: true, scratch: scratches.Get().(*scratch)}
	root := p.value(0)
	p.scratch.release()
	if root == nil || p.Space() != 0 || p.At != len(src) {
		return nil, 0, false
	}
	e := (&Doc{Src: src, Root: root}).Edit()
	if gone = e.removeLost(root); gone == 0 {
		return nil, 0, false
	}
	return e.Apply(), gone, true
}

// removeLost removes the lost elements of all lists in a value.
func (e *Edits) removeLost(v *Value) (gone int) {
	for i, el := range v.Elems {
		if el.Kind == lost {
			e.remove(v, i)
			gone++
		}
		gone += e.removeLost(el)
	}
	for _, m := range v.Members {
		gone += e.removeLost(m.Value)
	}
	return gone
}

// element reads an element of a list. If the parser salvages, one that cannot be read is lost.
func (p *parser) element(depth int) *Value {
	p.Space()
	at, elems, members := p.At, len(p.elems), len(p.members)
	v := p.value(depth + 1)
	if c := p.Space(); !p.salvages || depth >= maxSalvage || v != nil && (c == ',' || c == ']') {
		return v
	}
	p.At, p.elems, p.members = at, p.elems[:elems], p.members[:members]
	v = p.newValue(lost)
	if !p.skip() {
		return nil
	}
	v.End = p.At
	return v
}

// skip skips an element of a list, up to the comma or bracket after it, by its brackets and
// quotes only.
func (s *Scanner) skip() bool {
	var open []byte // the closing brackets to come
	for from := s.At; s.At < len(s.Src); s.At++ {
		switch c := s.Src[s.At]; {
		case c == '"':
			for s.At++; s.At < len(s.Src) && s.Src[s.At] != '"'; s.At++ {
				if s.Src[s.At] == '\\' {
					s.At++
				}
			}
		case c == '{' || c == '[':
			open = append(open, c+2)
		case len(open) == 0 && (c == ',' || c == ']' || c == '}'):
			return s.At > from
		case c == ']' || c == '}':
			if c != open[len(open)-1] {
				return false
			}
			open = open[:len(open)-1]
		}
	}
	return false
}
