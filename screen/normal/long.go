package normal

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

// A long text is read in pieces, each with bounds of its own. Read as a whole, one
// feature anywhere would give a reading of the whole text, and the next feature a reading
// of that. A piece ends at a line end or between words if there is one near. It overlaps
// the next piece, so that a payload across a border is whole in one of them.
const (
	maxWhole = 12 << 10 // the longest text that is read as a whole
	onePiece = 4 << 10
	overlap  = 1 << 10
	nearEdge = 512 // how far back the end of a line or word is searched
)

// read appends the readings derived from v. Those of the pieces of a long text are
// followed to the end.
func (r *reader) read(found []View, v *View, m marks, depth int) []View {
	if len(v.Text) <= maxWhole {
		return r.derive(found, v, m)
	}
	before := len(found)
	found, all := r.code(found, v, m)
	if all {
		return found
	}
	piece := func(p *View) {
		whole := r.extra
		r.extra = allowed(p.Text)
		r.follow(r.derive(nil, p, scan(p.Text)), depth+1)
		r.extra = whole
	}
	from, kept := 0, before
	for i := before; i < len(found); i++ {
		d := &found[i]
		if d.start == d.end && !d.cut {
			continue // not decoded: the pieces are read instead
		}
		found[kept] = *d
		kept++
		if d.start >= from && d.end-d.start >= overlap && d.clear() {
			v.pieces(from, d.start, piece)
			from = d.end
		}
	}
	v.pieces(from, len(v.Text), piece)
	return found[:kept]
}

// pieces calls f with the pieces of v between two offsets.
func (v *View) pieces(from, to int, f func(p *View)) {
	for from < to {
		end := to
		if to-from > onePiece+overlap {
			end = edge(v.Text, from+onePiece)
		}
		p := v.part(from, end)
		p.piece = true
		f(&p)
		if end == to {
			return
		}
		from = edge(v.Text, end-overlap)
	}
}

// edge returns an offset up to i at which a piece of s may begin or end.
func edge(s string, i int) int {
	i = len(terms.Truncate(s, i))
	for _, end := range [...]string{"\n", " \t\r"} {
		if k := strings.LastIndexAny(s[i-nearEdge:i], end); k >= 0 {
			return i - nearEdge + k + 1
		}
	}
	return i
}

// Of a reading over leastTrimmed bytes only the parts are read that differ from the reading
// it was derived from (the text itself, or another reading), with near bytes of context.
const near = 320

var leastTrimmed = [...]int{2 << 10, 640}

// changed returns the spans in which b differs from a parent at a depth, with context; nil
// means all of it. Omitted white space is no difference.
func (b *builder) changed(parent string, depth int) (out []span) {
	if len(b.text) <= leastTrimmed[min(depth, 1)] {
		return nil
	}
	next, sum := 0, 0 // next offset in parent if nothing differs
	add := func(i int) {
		from, to := max(0, i-near), min(len(b.text), i+near)
		if last := len(out) - 1; last >= 0 && from <= out[last].end {
			sum += to - out[last].end
			out[last].end = to
			return
		}
		sum += to - from
		out = append(out, span{from, to})
	}
	for i, at := range b.at {
		at, before := int(at), next
		next = at + 1
		if parent[at] == b.text[i] && (at == before || at > before && i > 0 && (b.text[i-1] <= ' ' || b.text[i] <= ' ') && strings.TrimLeft(parent[before:at], " \t\r\n") == "") {
			continue
		}
		if add(i); sum*4 > len(b.text)*3 {
			return nil
		}
	}
	if next < len(parent) {
		add(len(b.text))
	}
	return out
}

// trimmed reduces readings to the parts that differ.
func trimmed(found []View) []View {
	if !slices.ContainsFunc(found, func(d View) bool { return d.changed != nil }) {
		return found
	}
	var out []View
	for i := range found {
		d := &found[i]
		if d.changed == nil {
			out = append(out, *d)
		}
		for _, c := range d.changed {
			from, to := begin(d.Text, c.start), len(d.Text)
			if c.end < to {
				to = begin(d.Text, c.end)
			}
			out = append(out, d.part(from, to))
		}
	}
	return out
}

// begin returns the start of the word, or character, at s[i].
func begin(s string, i int) int {
	i = len(terms.Truncate(s, i))
	if k := strings.LastIndexAny(s[max(0, i-longest):i], " \n\t"); k >= 0 && i > 0 {
		return max(0, i-longest) + k + 1
	}
	return i
}
