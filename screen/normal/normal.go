// Package normal reads a text the way a model would: without what is
// invisible, with look-alike letters as the letters they look like, and with
// what is escaped, encoded, enciphered or spread out in the clear.
//
// It promises that the text itself is never changed (readings are for matching
// only), that every byte of a reading leads back to a span of the original,
// that natural scripts keep their letters, and that its work is linear in the
// text: decoders have bounds on depth, on number and on size.
package normal

import (
	"slices"
	"unicode/utf8"
)

// Names of readings, as they appear in findings.
const (
	Plain     = "plain"     // the text, folded: case is kept for ASCII letters
	Hidden    = "hidden"    // what invisible characters spell
	Unescaped = "unescaped" // percent, entity, and backslash escapes resolved
	Stripped  = "stripped"  // markup inside words taken out
	Leet      = "leet"      // digits and signs in words read as letters
	Joined    = "joined"    // letters that stand apart joined to words
	Split     = "split"     // words that were run together taken apart
	Cipher    = "cipher"    // shifted or mirrored alphabets
	Reversed  = "reversed"  // letters or words in reverse order
	Encoded   = "encoded"   // base64, hex, binary, octal, decimal, morse
)

// Limits bound the work on one text.
type Limits struct {
	Depth int // how deep encodings may nest
	Views int // how many readings a text may have
	// Extra is how many bytes of derived readings a text may have, as a
	// multiple of its own length plus 4 KiB.
	Extra int
}

// DefaultLimits are enough for everything in the evasion table and nested
// encodings of three levels.
func DefaultLimits() Limits { return Limits{Depth: 3, Views: 24, Extra: 4} }

// View is one reading of a text.
type View struct {
	Name string
	Text string
	// Depth counts the decodings that led here; 0 is the text itself.
	Depth int

	at   []int32 // original offset of each byte; nil: the byte's own
	orig string
	// from and to are the span of a reading that is not mapped byte by byte.
	from, to int
	whole    bool
}

// Span returns where bytes start to end of the reading stand in the original.
// The span is never empty unless the original is.
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
		return start, end
	}
	lo, hi := v.at[start], v.at[start]
	if n := end - start; n > 64 {
		// Readings run forward or backward, so that the ends tell.
		lo, hi = min(v.at[start], v.at[end-1]), max(v.at[start], v.at[end-1])
	} else {
		for _, o := range v.at[start:end] {
			lo, hi = min(lo, o), max(hi, o)
		}
	}
	_, n := utf8.DecodeRuneInString(v.orig[hi:])
	return int(lo), int(hi) + max(n, 1)
}

// origin returns the original offset of byte i of the reading.
func (v *View) origin(i int) int32 {
	if v.at == nil {
		return int32(i)
	}
	return v.at[min(i, len(v.at)-1)]
}

// Reading is all that was read in a text.
type Reading struct {
	// Views begins with the plain reading.
	Views []View
	// Invisible counts characters that nobody sees and that carry meaning to
	// a machine (tags, runs of variation selectors, zero-width bits).
	Invisible int
	// Lookalike counts words in which letters of two scripts imitate one.
	Lookalike int
	// Cut is set when the bounds ended the work before everything was read.
	Cut bool
}

// reader holds the state of one Read.
type reader struct {
	orig  string
	lim   Limits
	extra int // bytes of derived readings that are still allowed
	out   Reading
}

// Read returns the readings of text, the plain one first.
func Read(text string, lim Limits) Reading {
	r := reader{orig: text, lim: lim, extra: lim.Extra*len(text) + 4096}
	marks := scan(text)
	plain := View{Name: Plain, Text: text, orig: text}
	if marks&markWide != 0 {
		plain = r.fold(text)
		marks = scan(plain.Text)
	}
	r.out.Views = append(make([]View, 0, 4), plain)
	hidden := r.out.Views[:0:0]
	if r.out.Invisible > 0 {
		hidden = r.hidden(text)
	}
	r.derive(plain, marks)
	for _, h := range hidden {
		if r.add(h) {
			r.derive(h, scan(h.Text))
		}
	}
	return r.out
}

// add keeps a reading if the bounds allow it.
func (r *reader) add(v View) bool {
	if len(v.Text) == 0 {
		return false
	}
	if len(r.out.Views) >= r.lim.Views || len(v.Text) > r.extra {
		r.out.Cut = true
		return false
	}
	r.extra -= len(v.Text)
	r.out.Views = append(r.out.Views, v)
	return true
}

// derive adds the readings that v gives rise to, and theirs.
func (r *reader) derive(v View, m marks) {
	if v.Depth >= r.lim.Depth {
		return
	}
	var found []View
	if m&markEscape != 0 {
		found = r.unescape(found, &v)
	}
	if m&markMarkup != 0 {
		found = r.strip(found, &v)
	}
	if m&markRun != 0 || m&markGroups != 0 {
		found = r.decode(found, &v, m)
	}
	found = r.words(found, &v, m)
	for _, d := range found {
		d.Depth = v.Depth + 1
		if r.add(d) {
			r.derive(d, scan(d.Text))
		}
	}
}

// builder makes a reading byte by byte.
type builder struct {
	text []byte
	at   []int32
}

func newBuilder(n int) *builder {
	return &builder{text: make([]byte, 0, n), at: make([]int32, 0, n)}
}

func (b *builder) byte(c byte, at int32) {
	b.text = append(b.text, c)
	b.at = append(b.at, at)
}

func (b *builder) rune(c rune, at int32) {
	if c < utf8.RuneSelf {
		b.byte(byte(c), at)
		return
	}
	var buf [utf8.UTFMax]byte
	for _, x := range buf[:utf8.EncodeRune(buf[:], c)] {
		b.byte(x, at)
	}
}

func (b *builder) view(name string, orig string) View {
	return View{Name: name, Text: string(b.text), at: b.at, orig: orig}
}

// whole makes a reading of which every byte stands for the same span of v.
func (r *reader) whole(name string, text []byte, v *View, start, end int) View {
	from, to := v.Span(start, end)
	return View{Name: name, Text: string(text), orig: r.orig, from: from, to: to, whole: true}
}

// mapped finishes a reading whose offsets point into parent.
func (r *reader) mapped(name string, b *builder, parent *View) View {
	if parent.whole {
		return View{Name: name, Text: string(b.text), orig: r.orig, from: parent.from, to: parent.to, whole: true}
	}
	if parent.at != nil {
		for i, o := range b.at {
			b.at[i] = parent.origin(int(o))
		}
	}
	return View{Name: name, Text: string(b.text), at: slices.Clip(b.at), orig: r.orig}
}
