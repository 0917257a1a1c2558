package jsondoc

// A Taker reads the elements of an answer's lists while they are parsed: of an array
// that is the answer itself, or a member of it. List is the array's pointer, and i the
// element's index.
type Taker interface {
	// Known returns the length of an element at the start of rest that needs no parsing,
	// or 0. It must be a complete object that Parse accepts.
	Known(list string, i int, rest []byte) int
	// Take reads an element, and reports whether the document is to be without it; its
	// values are then used again. The strings in it may be slices of text, which is its
	// source; text is "" if they are not.
	Take(list string, i int, v *Value, text string) bool
}

// MaxShared is the length up to which the strings of an element are slices of one string,
// which is retained as long as any of them.
const MaxShared = 4 << 10

// ParseLists parses an answer without the elements that t takes. The strings of elements
// of up to share bytes are slices of one string each. If it fails, t has read elements of
// an answer that does not count.
func ParseLists(src []byte, t Taker, share int) (*Doc, error) {
	return parser{max: DefaultMaxDepth, taker: t, share: share}.parse(src)
}

// listed reads an element of one of the answer's lists.
func (p *parser) listed(i, depth int) bool {
	if p.Space() == '{' {
		if n := p.taker.Known(p.list, i, p.Src[p.At:]); n > 0 {
			p.At += n
			return true
		}
	}
	slab, stored := p.slab, p.stored
	p.later = true
	v := p.value(depth + 1)
	p.later = false
	if v == nil {
		return false
	}
	text := ""
	if v.End-v.Start <= p.share {
		text = string(p.Src[v.Start:v.End])
	}
	p.texts(v, text, v.Start)
	if !p.taker.Take(p.list, i, v, text) {
		p.elems = append(p.elems, v)
		return true
	}
	p.slab, p.stored = freed(p.slab, slab), freed(p.stored, stored)
	return true
}

// freed is the part of a slab that was in use before, when it may have been another one.
func freed[T any](now, before []T) []T {
	if cap(before) > 0 && cap(now) > 0 && &now[:1][0] == &before[:1][0] {
		return before
	}
	return now[:0]
}

// texts sets the strings in an element of which text is the source from start on.
func (p *parser) texts(v *Value, text string, start int) {
	if from, to := v.Start+1, v.End-1; v.Kind == String && v.text == "" {
		if text == "" {
			v.text = string(p.Src[from:to])
		} else {
			v.text = text[from-start : to-start]
		}
	}
	for _, e := range v.Elems {
		p.texts(e, text, start)
	}
	for i := range v.Members {
		p.texts(v.Members[i].Value, text, start)
	}
}
