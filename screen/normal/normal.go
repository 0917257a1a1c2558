// Package normal reads a text the way a model would: without invisible characters, with
// homoglyphs as the letters they look like, and with escaped, encoded, enciphered or
// spaced-out text in the clear. Each result is a reading ([View]); readings are for
// matching only.
//
// Invariants: the text itself is never changed; every byte of a reading maps to a span of
// the original; natural scripts keep their letters; the work is linear in the text:
// decoders have bounds on depth, number and size, and a long text is read in pieces.
package normal

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Names of readings, as they appear in findings.
const (
	Plain     = "plain"     // the text, folded; ASCII letters keep their case
	Hidden    = "hidden"    // the message in invisible characters
	Unescaped = "unescaped" // percent, entity, and backslash escapes resolved
	Stripped  = "stripped"  // markup inside words removed
	Leet      = "leet"      // digits and punctuation in words read as letters
	Joined    = "joined"    // spaced-out letters joined to words
	Split     = "split"     // run-together words separated
	Cipher    = "cipher"    // shifted or mirrored alphabets (Caesar, Atbash, ROT47)
	Reversed  = "reversed"  // letters in reverse order
	Encoded   = "encoded"   // base64, base85, base32, hex, binary, octal, decimal, morse, spelling alphabets
	Linked    = "linked"    // the words in links
	Listed    = "listed"    // a list with one word per item
	Scrambled = "scrambled" // words with mixed inner letters or typing errors, without vowels, and pig Latin
	Backward  = "backward"  // words in reverse order
)

// The bounds of the work on one text. They bound work and not the number of readings,
// which an author could use up with harmless ones. They suffice for all levels of base64
// that fit into a text: every level is three quarters of the one above.
const (
	maxDepth = 24 // the depth to which readings nest
	// The derived readings of a text or piece may have maxExtra times its length in bytes, or else
	// leastExtra. Each costs its length plus viewCost; a reading that is only decoded further, and
	// a probe, cost an attempt-th of that.
	maxExtra, leastExtra, attempt = 6, 48 << 10, 2
	// A long text may have baseTotal more than that multiple, with those of all its pieces.
	baseTotal = 256 << 10
)

const manyAlike = 4 // from this many homoglyph words on, they are no accident

const viewCost = 64 // the work on a reading that does not depend on its length, in bytes

// Readings has all readings of a text.
type Readings struct {
	// Views begins with the plain reading.
	Views []View
	// Truncated is set if the bounds ended the work: what the rest says is unknown.
	Truncated bool
}

// escapedLength is the ratio of a text's length to its unescaped length from which it is
// mostly escapes: the shortest escape has three bytes.
const escapedLength = 2

// wasEscapes reports whether v was mostly escapes.
func (v *View) wasEscapes() bool {
	from, to := v.Span(0, len(v.Text))
	return v.Name == Unescaped && len(v.Text)*escapedLength <= to-from
}

const codePercent = 95 // the percentage of a text that is encoded if all but punctuation around it is

type reader struct {
	extra int // bytes of derived readings left for a text or a piece
	total int // and for the whole text
	known map[viewKey]struct{}
	out   Readings
}

// viewKey identifies a reading by its text and place: two orders of decoding steps that lead
// to the same reading are followed once.
type viewKey struct {
	text     string
	from, to int32
}

func (r *reader) seen(v *View) bool {
	k := viewKey{text: v.Text, from: int32(v.from), to: int32(v.to)}
	if !v.whole && len(v.Text) > 0 {
		k.from, k.to = v.origin(0), v.origin(len(v.Text)-1)
	}
	if _, ok := r.known[k]; ok {
		return true
	}
	if r.known == nil {
		r.known = make(map[viewKey]struct{}, 8)
	}
	r.known[k] = struct{}{}
	return false
}

// Read returns the readings of text, the plain one first.
func Read(text string) Readings {
	r := reader{extra: allowed(text), total: allowed(text)}
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
	plain.Overt = odd.alike < manyAlike
	r.out.Views = append(make([]View, 0, 2), plain)
	if found = r.read(found, &plain, marks, 0); len(found) > 0 {
		r.seen(&plain)
	}
	r.follow(found, 1)
	return r.out
}

// allowed returns how much may be read besides a text or piece.
func allowed(text string) int {
	if len(text) > maxWhole {
		return maxExtra*len(text) + baseTotal
	}
	return max(leastExtra, maxExtra*len(text))
}

// follow processes readings found in a text or piece, those derived from them, and so on
// (breadth-first).
func (r *reader) follow(found []View, depth int) {
	for ; len(found) > 0; depth++ {
		if depth > maxDepth || r.extra == 0 {
			r.cut()
			return
		}
		found = r.level(found, depth)
	}
}

// level keeps the readings of one depth, the most plausible first, and returns those
// derived from them.
func (r *reader) level(found []View, depth int) []View {
	found = trimmed(found)
	for i := range found {
		found[i].sense = fluent
		if !foreign(found[i].Text) {
			found[i].sense = sense(found[i].Text)
		}
	}
	slices.SortStableFunc(found, func(a, b View) int { return cmp.Compare(b.sense, a.sense) })
	var next []View
	for i := range found {
		v := &found[i]
		v.Depth = depth
		kept, cost := v.plausible() || !v.guessed(), len(v.Text)+viewCost
		if !kept {
			cost /= attempt
		}
		if v.cut {
			r.cut()
		}
		if len(v.Text) == 0 || r.seen(v) || !r.pay(cost, cost) {
			continue
		}
		if kept {
			r.out.Views = append(r.out.Views, *v)
		}
		next = r.read(next, v, scan(v.Text), depth)
	}
	return next
}

// meant is the score of sense from which a guess is plausible: less than that of prose.
const meant = 2

// plausible reports whether v may be what was meant: it resembles language, or what does not
// arise by chance. Digits among the signs of a code resemble escapes.
func (v *View) plausible() bool {
	escapes := v.Name == Unescaped && !v.wasEscapes() && !legible(v.Text, 70, math.MinInt)
	return v.sense >= meant || v.Name == Plain || v.decoded() && !escapes || v.Name == Joined && !v.pieced
}

// maxGuessed bounds consecutive guesses: a model that is to follow a payload does not
// understand more transformations on top of each other.
const maxGuessed = 3

// spread reports whether words of v may still be split or spaced out. Joining them comes
// before guessing at single words.
func (v *View) spread() bool { return !v.worded && v.guesses < maxGuessed-1 }

// guessed reports whether v is a transformation that exists for any text. If the result
// is not language it is no reading, but it may be encoded.
func (v *View) guessed() bool {
	switch v.Name {
	case Leet, Joined, Split, Stripped, Linked, Listed, Scrambled, Backward:
		return true
	}
	return false
}

// decoded reports whether v was decoded. Few texts decode by chance.
func (v *View) decoded() bool { return v.Name == Encoded || v.Name == Hidden || v.Name == Unescaped }

// pay reports whether the bounds allow work of a cost, of which the readings of the whole text
// have a part.
func (r *reader) pay(cost, part int) bool {
	if cost > r.extra || part > r.total {
		r.cut()
		return false
	}
	r.extra -= cost
	r.total -= part
	return true
}

// cut ends the work on a text or piece, because a bound was reached.
func (r *reader) cut() {
	r.out.Truncated = true
	r.extra = 0
}

// derive appends the readings derived from v, only the decoded ones if it is not plausible
// language. If all of v is encoded, it has no words to transform.
func (r *reader) derive(found []View, v *View, m marks) []View {
	plausible := v.plausible()
	if plausible && v.Name == Backward {
		return found
	}
	found, all := r.code(found, v, m)
	if all || !plausible || v.guesses == maxGuessed {
		return found
	}
	if v.spread() { // joining words comes before separating them
		found = links(found, v)
		found = list(found, v)
	}
	return words(found, v, m)
}

// code appends the unescaped, decoded and deciphered readings of v. It reports whether v
// is nothing but code for another text.
func (r *reader) code(found []View, v *View, m marks) ([]View, bool) {
	before := len(found)
	if found = encodings(found, v, m); covers(found[before:], v) {
		return found, true
	}
	if v.ciphered {
		return found, false
	}
	found, strange, opaque := cipher(found, v)
	if len(opaque) > 0 {
		found = moved(found, v)
	}
	if !v.plausible() || v.piece || v.Name == Backward || strange < minOpaque || strange*4 < len(v.Text) && m&(markRun|markGroups|markToken) == 0 {
		return found, false
	}
	for _, o := range opaque {
		if !r.pay((o.end-o.start)/attempt, 0) {
			break
		}
		p := v.part(o.start, o.end)
		found = probe(found, &p, scan(p.Text))
	}
	return found, false
}

// covers reports whether all of v was decoded to text, or to more code. No cipher text
// decodes by chance.
func covers(decoded []View, v *View) bool {
	sum, end := 0, 0
	for i := range decoded {
		if d := &decoded[i]; d.start >= end && d.clear() {
			sum, end = sum+d.end-d.start, d.end
		}
	}
	return sum > 0 && sum*100 >= len(v.Text)*codePercent
}

// clear reports whether v was decoded to text, or to more code.
func (v *View) clear() bool {
	return v.Name == Encoded && v.whole && (language(v.Text) || foreign(v.Text) || len(v.Text) >= opening && strings.Trim(v.Text, runBytes+"=") == "")
}

// encodings appends the unescaped and decoded readings of v.
func encodings(found []View, v *View, m marks) []View {
	if m&markEscape != 0 || quoted(v.Text) || strings.Count(v.Text, "U+") >= minPoints {
		found = unescape(found, v)
	}
	if m&markMarkup != 0 && v.spread() {
		found = strip(found, v)
	}
	if v.piece { // codes were decoded in the whole text
		return pieces(decodeWords(found, v), v)
	}
	return pieces(codes(found, v, m, false), v)
}

// codes appends the decoded readings of v. lettered leaves out the codes without letters.
func codes(found []View, v *View, m marks, lettered bool) []View {
	if m&markRun != 0 {
		found = runs(found, v)
	}
	if m&markGroups != 0 || strings.Count(v.Text, "0x") >= minNumbers || strings.Count(v.Text, ")") >= minNumbers {
		found = groups(found, v)
	}
	if m&(markGroups|markRun) != 0 && !lettered {
		found = spelledOut(found, v, &byNumber)
	}
	if !lettered && (m&markGroups != 0 || strings.IndexByte(v.Text, 0xe2) >= 0 || strings.Contains(v.Text, "·") || strings.Contains(v.Text, "・")) {
		found = spelledOut(found, v, &inMorse)
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

// builders pools builders: most attempts give no reading.
var builders = sync.Pool{New: func() any { return new(builder) }}

func newBuilder(n int) *builder {
	b := builders.Get().(*builder)
	b.text, b.at = slices.Grow(b.text[:0], n), slices.Grow(b.at[:0], n)
	return b
}

// free returns b to the pool. Readings have copies of its content.
func (b *builder) free() {
	if b != nil {
		builders.Put(b)
	}
}

func (b *builder) byte(c byte, at int32) {
	b.text = append(b.text, c)
	b.at = append(b.at, at)
}

// string writes s, with the same offset for all bytes.
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
