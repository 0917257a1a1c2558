// Package normal reads a text the way a model would: without what is
// invisible, with look-alike letters as the letters they look like, and with
// what is escaped, encoded, enciphered or spread out in the clear.
//
// It promises that the text itself is never changed (readings are for matching
// only), that every byte of a reading leads back to a span of the original,
// that natural scripts keep their letters, and that its work is linear in the
// text: decoders have bounds on depth, on number and on size, and a long text is
// read in pieces.
package normal

import (
	"cmp"
	"slices"
	"strings"
	"sync"
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
	Reversed  = "reversed"  // letters in reverse order
	Encoded   = "encoded"   // base64, base85, base32, hex, binary, octal, decimal, morse, spelling alphabets
	Linked    = "linked"    // the words in links
	Listed    = "listed"    // words that stand in a list, one an item
	Scrambled = "scrambled" // words whose inner letters were mixed or of which a key was hit wrong, and pig Latin
	Backward  = "backward"  // words in reverse order
)

// The bounds of the work on one text. They are on work and not on the number of
// readings, which an author could spend on harmless ones. They are enough for all
// that base64 can nest in a text: every level is three quarters of the one above.
const (
	maxDepth = 24 // how deep readings may nest
	// maxExtra is how many bytes of derived readings a text may have, as a
	// multiple of its own length plus 16 KiB. Each reading counts for viewCost
	// bytes more than it has.
	maxExtra = 24
	// A long text may have maxTotal times its own length plus baseTotal, and each of its
	// pieces maxExtra times its own plus 16 KiB.
	maxTotal, baseTotal = 6, 256 << 10
)

const manyAlike = 4 // how many words whose letters imitate others are no slips

const viewCost = 64 // the work on a reading that is independent of its length, in bytes

// Reading is all that was read in a text.
type Reading struct {
	// Views begins with the plain reading.
	Views []View
	// Cut is set when the bounds ended the work before everything was read:
	// nobody knows what the rest says.
	Cut bool
}

// Code reports whether the text is nothing but code for another, or escapes for the
// most part, and has a reading without them: as language it says nothing.
func (r *Reading) Code() bool {
	var encoded, escaped stretched
	for i := range r.Views {
		switch v := &r.Views[i]; {
		case v.Depth != 1:
		case v.Name == Encoded:
			encoded.add(v.from, v.to)
		case v.Name == Unescaped:
			if from, to := v.Span(0, len(v.Text)); len(v.Text)*escapedLength <= to-from {
				escaped.add(from, to)
			}
		}
	}
	return max(encoded.sum, escaped.sum)*100 >= len(r.Views[0].orig)*codePercent
}

// stretched sums up parts of a text in their order.
type stretched struct{ sum, end int }

func (s *stretched) add(from, to int) {
	if to > s.end {
		s.sum, s.end = s.sum+to-max(from, s.end), to
	}
}

// escapedLength is how many times as long as its reading a text is that is escapes
// for the most part: the shortest escape has three bytes.
const escapedLength = 2

const codePercent = 95 // how much of a text is code where all is but signs around it

type reader struct {
	extra int // bytes of derived readings that are still allowed in a text or a piece of one
	total int // and in all of it
	known map[same]struct{}
	out   Reading
}

// same is one text in one place: two orders of taking off what hides it lead to
// the same reading, which is read once.
type same struct {
	text     string
	from, to int32
}

func (r *reader) seen(v *View) bool {
	k := same{text: v.Text, from: int32(v.from), to: int32(v.to)}
	if !v.whole && len(v.Text) > 0 {
		k.from, k.to = v.origin(0), v.origin(len(v.Text)-1)
	}
	if _, ok := r.known[k]; ok {
		return true
	}
	if r.known == nil {
		r.known = make(map[same]struct{}, 8)
	}
	r.known[k] = struct{}{}
	return false
}

// Read returns the readings of text, the plain one first.
func Read(text string) Reading {
	r := reader{total: maxTotal*len(text) + baseTotal}
	plain := View{Name: Plain, Text: text, orig: text}
	marks := scan(text)
	var found []View
	var odd odd
	if marks&markWide != 0 {
		var b *builder
		b, odd = fold(text)
		found = odd.read(found, &plain, b)
		plain = mapped(Plain, b, &plain)
		b.free()
		marks = scan(plain.Text)
	}
	plain.Innocent = odd.alike < manyAlike
	r.out.Views = append(make([]View, 0, 2), plain)
	if found = r.read(found, &plain, marks, 0, derive); len(found) > 0 {
		r.seen(&plain)
	}
	r.follow(found, 1, len(text))
	return r.out
}

// follow reads what was found in a text, or a piece, of so many bytes, what that gives
// rise to, and so on.
func (r *reader) follow(found []View, depth, bytes int) {
	before := r.extra
	r.extra = maxExtra*bytes + 16<<10
	for ; len(found) > 0 && r.extra > 0; depth++ {
		if depth > maxDepth {
			r.out.Cut = true
			break
		}
		found = r.level(found, depth)
	}
	r.extra = before
}

// level keeps the readings of one depth, those first that are most likely meant,
// and returns what they give rise to.
func (r *reader) level(found []View, depth int) []View {
	found = trimmed(found)
	for i := range found {
		if found[i].sense = fluent; !foreign(found[i].Text) {
			found[i].sense = sense(found[i].Text)
		}
	}
	slices.SortStableFunc(found, func(a, b View) int { return cmp.Compare(b.sense, a.sense) })
	var next []View
	for i := range found {
		v := &found[i]
		v.Depth = depth
		switch {
		case v.cut:
			r.cut()
		case !r.pay(v):
		case v.sense >= meant || v.decoded():
			r.out.Views = append(r.out.Views, *v)
			next = r.read(next, v, scan(v.Text), depth, derive)
		default:
			if !v.guessed() {
				r.out.Views = append(r.out.Views, *v)
			}
			next = r.read(next, v, scan(v.Text), depth, encoded)
		}
	}
	return next
}

// meant is how much the letters of a guess follow each other as in words where it
// may be meant: less than in prose.
const meant = 2

// maxGuessed is how many guesses in a row lead to a reading at most: whoever puts more of
// them into each other is not understood by the model that is to read it.
const maxGuessed = 3

// spread reports whether words may still be in pieces, or apart, in v: what puts them
// together comes before what guesses at each.
func (v *View) spread() bool { return !v.worded && v.guesses < maxGuessed-1 }

// guessed reports readings that there are of any text: what is no language in
// them is no reading, and may be code that was written in that way.
func (v *View) guessed() bool {
	switch v.Name {
	case Leet, Joined, Split, Stripped, Linked, Listed, Scrambled, Backward:
		return true
	}
	return false
}

// decoded reports readings that somebody must have written as code: few texts are
// others by chance when they are decoded.
func (v *View) decoded() bool { return v.Name == Encoded || v.Name == Hidden || v.Name == Unescaped }

// pay reports whether the bounds allow another reading.
func (r *reader) pay(v *View) bool {
	if len(v.Text) == 0 || r.extra == 0 || r.seen(v) {
		return false
	}
	cost := len(v.Text) + viewCost
	if cost > min(r.extra, r.total) {
		r.cut()
		return false
	}
	r.extra -= cost
	r.total -= cost
	return true
}

// cut ends the work on a text, or on a piece of one.
func (r *reader) cut() {
	r.out.Cut = true
	r.extra = 0
}

// derive appends the readings that v gives rise to. What is code is no words.
func derive(found []View, v *View, m marks) []View {
	if v.Name == Backward {
		return found
	}
	found, all := code(found, v, m)
	if all || v.guesses == maxGuessed {
		return found
	}
	if v.spread() { // what puts words together comes before what takes them apart
		found = links(found, v)
		found = list(found, v)
	}
	return words(found, v, m)
}

// encoded is code of what is no language.
func encoded(found []View, v *View, m marks) []View {
	found, _ = code(found, v, m)
	return found
}

// code appends what v says as code: escaped, encoded, or enciphered. It reports
// whether v is nothing but code for another text.
func code(found []View, v *View, m marks) ([]View, bool) {
	before := len(found)
	if found = encodings(found, v, m); covers(found[before:], v) {
		return found, true
	}
	if !v.ciphered {
		var strange int
		var opaque []span
		if found, strange, opaque = cipher(found, v); len(opaque) > 0 {
			found = moved(found, v)
		}
		if !v.piece && strange >= minOpaque && (strange*4 >= len(v.Text) || m&(markRun|markGroups|markToken) != 0) {
			for _, o := range opaque {
				p, before := v.part(o.start, o.end), len(found)
				if len(p.Text) < len(v.Text) {
					m = scan(p.Text)
				}
				found = probe(found, &p, m)
				for i := before; i < len(found); i++ {
					found[i].start = -1 // it stands elsewhere, or backward
				}
			}
		}
	}
	return found, false
}

// covers reports whether all of v was decoded to what is a text, or code again: nothing
// is both by chance and another text under a cipher.
func covers(decoded []View, v *View) bool {
	n, end := 0, 0
	for i := range decoded {
		d := &decoded[i]
		if d.start >= end && d.clear() {
			n, end = n+d.end-d.start, d.end
		}
	}
	return n > 0 && n*100 >= len(v.Text)*codePercent
}

// clear reports whether v was decoded to what is a text, or code again.
func (v *View) clear() bool {
	return v.Name == Encoded && v.whole && (language(v.Text) || foreign(v.Text) || len(v.Text) >= opening && strings.IndexFunc(v.Text, noRun) < 0)
}

func noRun(c rune) bool { return c >= utf8.RuneSelf || !isRun(byte(c)) && c != '=' }

// encodings appends what stands in v escaped or encoded.
func encodings(found []View, v *View, m marks) []View {
	if m&markEscape != 0 || quoted(v.Text) || pointed(v.Text) {
		found = unescape(found, v)
	}
	if m&markMarkup != 0 && v.spread() {
		found = strip(found, v)
	}
	if v.piece { // of what was decoded as a whole
		return pieces(apiece(found, v), v)
	}
	return pieces(codes(found, v, m), v)
}

// codes appends what stands in v encoded.
func codes(found []View, v *View, m marks) []View {
	if m&markRun != 0 {
		found = runs(found, v)
	}
	if m&markGroups != 0 || strings.Count(v.Text, "0x") >= minNumbers || strings.Count(v.Text, ")") >= minNumbers {
		found = groups(found, v)
	}
	if m&(markGroups|markRun) != 0 {
		found = spelledOut(found, v, &spellings[byNumber])
	}
	if m&markGroups != 0 || strings.IndexByte(v.Text, 0xe2) >= 0 || strings.Contains(v.Text, "·") || strings.Contains(v.Text, "・") {
		found = spelledOut(found, v, &spellings[inMorse])
	}
	if m&markToken != 0 {
		found = base85(found, v)
	}
	return grouped(found, v)
}

type builder struct {
	text []byte
	at   []int32
}

// builders are those that were used: most of what is tried gives no reading.
var builders = sync.Pool{New: func() any { return new(builder) }}

func newBuilder(n int) *builder {
	b := builders.Get().(*builder)
	b.text, b.at = slices.Grow(b.text[:0], n), slices.Grow(b.at[:0], n)
	return b
}

// free gives b back. Readings have copies of what is in it.
func (b *builder) free() {
	if b != nil {
		builders.Put(b)
	}
}

func (b *builder) byte(c byte, at int32) {
	b.text = append(b.text, c)
	b.at = append(b.at, at)
}

// string writes s, all of which stands at one place.
func (b *builder) string(s string, at int32) {
	for i := range len(s) {
		b.byte(s[i], at)
	}
}

func (b *builder) rune(c rune, at int32) {
	before := len(b.text)
	b.text = utf8.AppendRune(b.text, c)
	for range len(b.text) - before {
		b.at = append(b.at, at)
	}
}
