package normal

import (
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/terms"
)

// View is one reading of a text.
type View struct {
	Name string
	Text string
	// Depth is the number of decoding steps; 0 is the text itself.
	Depth int
	// Noisy readings are guesses that are hardly language: rules apply to them, but
	// statistical models cannot judge them.
	Noisy bool

	// Overt readings need no intent to hide: the text itself, links, lists, and a
	// reversed word order that is merely possible. The content of other readings was
	// hidden.
	Overt bool

	cut   bool // decoding exceeded a bound
	piece bool // a piece of a longer reading whose codes were decoded already
	// worded: words were guessed one by one. pieced: quoted strings were joined. guesses
	// is the number of guesses since the last decoding.
	worded, pieced bool
	guesses        uint8
	ciphered       bool // a cipher or a reversal was undone since the last decoding

	sense int // average bigram score, see sense

	at   []int32 // original offset of each byte; nil: base plus the index
	base int32
	orig string
	// from and to are the span of a reading without offsets per byte.
	from, to int
	whole    bool
	// start and end are the span in the reading that this one was decoded from.
	start, end int

	// changed are the spans in which the text differs from the parent reading's, with
	// their context; nil means all of it.
	changed []span
}

// Span returns the span in the original of bytes start to end of the reading. It is not
// empty unless the original is.
func (v *View) Span(start, end int) (int, int) {
	if v.whole {
		return v.from, v.to
	}
	start = max(0, min(start, len(v.Text)-1))
	end = max(start+1, min(end, len(v.Text)))
	if len(v.Text) == 0 {
		return 0, len(v.orig)
	}
	if v.at == nil {
		return int(v.base) + start, int(v.base) + end
	}
	lo, hi := v.at[start], v.at[start]
	for _, o := range v.at[start:end] {
		lo, hi = min(lo, o), max(hi, o)
	}
	_, n := utf8.DecodeRuneInString(v.orig[hi:])
	return int(lo), int(hi) + max(n, 1)
}

// Altered reports whether bytes start to end of the reading differ from the original by
// more than occasional characters.
func (v *View) Altered(start, end int) bool {
	if v.whole || v.at == nil {
		return v.whole
	}
	same, next := 0, v.at[start] // next: the offset of the next byte if nothing is left out
	for i, pos := range v.at[start:end] {
		if i += start; i > start && pos == v.at[i-1] { // a continuation byte
			pos = next
		}
		if pos == next && int(pos) < len(v.orig) && terms.Lower(v.orig[pos]) == terms.Lower(v.Text[i]) {
			same++
		}
		next = pos + 1
	}
	from, to := v.Span(start, end)
	return same*altered < max(end-start, to-from)*(altered-1)
}

const altered = 12 // a span is altered if more than one byte in this many differs

func (v *View) origin(i int) int32 {
	if v.at == nil {
		return v.base + int32(i)
	}
	return v.at[min(i, len(v.at)-1)]
}

// part returns the reading of bytes start to end of v.
func (v *View) part(start, end int) View {
	p := *v
	p.Text, p.base, p.start, p.end, p.changed, p.piece = v.Text[start:end], v.base+int32(start), 0, 0, nil, false
	if v.at != nil {
		p.at = v.at[start:end:end]
	}
	return p
}

// whole returns a reading of which every byte maps to the same span of v.
func whole(name string, text []byte, v *View, start, end int) View {
	from, to := v.Span(start, end)
	return View{Name: name, Text: string(text), orig: v.orig, from: from, to: to, whole: true, start: start, end: end}
}

// mapped returns the reading in b, whose offsets point into parent.
func mapped(name string, b *builder, parent *View) View {
	v := View{Name: name, Text: string(b.text), orig: parent.orig, changed: b.changed(parent.Text, parent.Depth), worded: parent.worded || name == Split || name == Leet || name == Scrambled, pieced: parent.pieced, ciphered: parent.ciphered || name == Cipher || name == Reversed}
	v.guesses = parent.guesses
	if v.guessed() {
		v.guesses++
	}
	if parent.whole {
		v.from, v.to, v.whole = parent.from, parent.to, true
		return v
	}
	v.at = append(make([]int32, 0, len(b.at)), b.at...)
	if parent.at != nil || parent.base > 0 {
		for i, o := range v.at {
			v.at[i] = parent.origin(int(o))
		}
	}
	return v
}
