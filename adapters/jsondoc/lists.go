package jsondoc

// An ElementReader reads the elements of an answer's lists during parsing. A list is an
// array that is the answer itself or a member of it. In the methods, list is the array's
// pointer and i the element's index.
type ElementReader interface {
	// KnownLength returns the length of an element at the start of rest that needs no
	// parsing, or 0. It must be a complete object that Parse accepts.
	KnownLength(list string, i int, rest []byte) int
	// ReadElement reads an element. If taken is true, the document does not contain the
	// element, and v must not be used afterwards, because the parser reuses its memory.
	// text is the element's source if its strings are slices of it, else "". An error ends
	// the parsing.
	ReadElement(list string, i int, v *Value, text string) (taken bool, err error)
}

// MaxShared is a suitable limit for the parameter share of ParseLists, in bytes. A string of
// an element then retains the element's whole source, which is at most this long.
const MaxShared = 4 << 10

// ParseLists parses an answer into a document without the elements that r takes. In an
// element of up to share bytes all strings are slices of one string, which saves
// allocations. If ParseLists fails, the elements that r has read must be discarded.
func ParseLists(src []byte, r ElementReader, share int) (*Doc, error) {
	return parser{max: DefaultMaxDepth, reader: r, share: share}.parse(src)
}

func (p *parser) listElement(i, depth int) bool {
	if p.Space() == '{' {
		if n := p.reader.KnownLength(p.list, i, p.Src[p.At:]); n > 0 {
			p.At += n
			return true
		}
	}
	slab, stored := p.slab, p.stored
	p.deferStrings = true
	v := p.value(depth + 1)
	p.deferStrings = false
	if v == nil {
		return false
	}
	text := ""
	if v.End-v.Start <= p.share {
		text = string(p.Src[v.Start:v.End])
	}
	p.setStrings(v, text, v.Start)
	taken, err := p.reader.ReadElement(p.list, i, v, text)
	if err != nil {
		p.err = err
		return false
	}
	if !taken {
		p.elems = append(p.elems, v)
		return true
	}
	p.slab, p.stored = reusable(p.slab, slab), reusable(p.stored, stored)
	return true
}

// reusable returns the slab now, cut back to the part that was in use before the element.
// before is the slab at that time; if it was another slab, all of now is free.
func reusable[T any](now, before []T) []T {
	if cap(before) > 0 && cap(now) > 0 && &now[:1][0] == &before[:1][0] {
		return before
	}
	return now[:0]
}

// setStrings sets the strings in an element. text is the element's source, which begins at
// index start, or "".
func (p *parser) setStrings(v *Value, text string, start int) {
	if from, to := v.Start+1, v.End-1; v.Kind == String && v.text == "" {
		if text == "" {
			v.text = string(p.Src[from:to])
		} else {
			v.text = text[from-start : to-start]
		}
	}
	for _, e := range v.Elems {
		p.setStrings(e, text, start)
	}
	for i := range v.Members {
		p.setStrings(v.Members[i].Value, text, start)
	}
}
