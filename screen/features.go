package screen

import (
	"math/bits"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/classify"
	"github.com/memproxy/memproxy/screen/directive"
	"github.com/memproxy/memproxy/screen/normal"
	"github.com/memproxy/memproxy/screen/terms"
)

// The kinds of feature; each seeds its hashes.
const (
	kindWord = iota + 1
	kindPair
	kindStemPair
	kindOpening
	kindConcept
	kindConceptPair
	kindForm
	kindStem
)

const reach = 6 // how many words behind a concept others make a pair with it

func hash(kind int, a, b uint32) uint32 {
	h := uint32(kind)*0x9e3779b1 ^ a
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ b ^ h>>13) * 0xc2b2ae35
	h ^= h >> 16
	return h * 0x27d4eb2f
}

// before are the words before one that make features with it: the last that counts and
// the one before that, or -1.
type before struct{ last, other int }

// nothing stands before the first word of a text.
var nothing = before{-1, -1}

// features are what the classifier sees of word i of a text that begins with word first,
// until it is asked for others. Of concepts it knows the first 64, with which it was trained.
func (b *before) features(sc *scratch, first, i int) []uint32 {
	words, dst := sc.words, sc.features[:0]
	w := &words[i]
	if w.Flags&directive.Number != 0 && b.last >= 0 && words[b.last].Flags&directive.Number != 0 {
		return append(dst, 0, 0) // a table says nothing by its numbers, and they thin out the rest
	}
	dst = append(dst, hash(kindWord, w.Hash, 0), hash(kindStem, w.Stem, 0))
	if b.last >= 0 {
		dst = append(dst, hash(kindPair, words[b.last].Hash, w.Hash))
	}
	if b.other >= 0 {
		dst = append(dst, hash(kindStemPair, words[b.other].Stem, w.Stem))
	}
	b.last, b.other = i, b.last
	if w.Flags&directive.Opens != 0 {
		dst = append(dst, hash(kindOpening, w.Hash, 0))
	}
	if w.Flags&directive.Capital != 0 {
		dst = append(dst, hash(kindForm, 1, 0))
	}
	for c := w.Concepts.First; c != 0; c &= c - 1 {
		a := uint32(bits.TrailingZeros64(c))
		if i > first && words[i-1].Concepts.First>>a&1 != 0 {
			continue // the same phrase
		}
		dst = append(dst, hash(kindConcept, a, 0))
		for j := max(first, i-reach); j < i; j++ {
			for d := words[j].Concepts.First; d != 0; d &= d - 1 {
				dst = append(dst, hash(kindConceptPair, uint32(bits.TrailingZeros64(d)), a))
			}
		}
	}
	sc.features = dst
	return dst
}

// place is what is known of the words before one: the total of their features, and which
// of them make features with it.
type place struct {
	classify.Total
	before
}

// measure works out the places of a text's words and that behind the last, and what its
// windows are judged by.
func (sc *scratch) measure(m *classify.Model) {
	at := place{before: nothing}
	sc.places, sc.strides = sc.places[:0], sc.strides[:0]
	for i := range sc.words {
		if sc.places = append(sc.places, at); i%classify.Stride == 0 {
			sc.strides = append(sc.strides, at.Total)
		}
		at.Total = at.Plus(m.Weigh(at.features(sc, 0, i)))
	}
	sc.places, sc.strides = append(sc.places, at), append(sc.strides, at.Total)
}

// apart works out what the windows of the words from first to end are judged by, were
// they a text of their own. Only the first of them have other features in it.
func (sc *scratch) apart(m *classify.Model, first, end int) []classify.Total {
	at, i := place{before: nothing}, first
	strides := sc.aside[:0]
	for ; i < end && (i < first+reach || at.before != sc.places[i].before); i++ {
		if (i-first)%classify.Stride == 0 {
			strides = append(strides, at.Total)
		}
		at.Total = at.Plus(m.Weigh(at.features(sc, first, i)))
	}
	other := at.Less(sc.places[i].Total)
	for i = first + len(strides)*classify.Stride; i < end; i += classify.Stride {
		strides = append(strides, sc.places[i].Plus(other))
	}
	sc.aside = append(strides, sc.places[end].Plus(other))
	return sc.aside
}

// The kinds of feature by which a text is judged whole, behind those by which
// its windows are.
const (
	kindGram = iota + 32
	kindWholeWord
	kindWholePair
)

// partBytes is how much of a text is judged together. A longer text is judged
// in parts: the whole of a page would drown the one paragraph that matters.
const partBytes = 2 << 10

const wholeBits = 20 // how much of a hash tells features of a part apart

// once remembers which features a part of a text has: how often it has them
// says how long it is, and little else.
type once struct {
	seen  [1 << wholeBits / 64]uint64
	list  []uint32 // their hashes
	chars []rune   // of the part
	// What it has, in words: another part with the same end that begins before it has
	// all of that too.
	first, end int
	total      classify.Total // of the first of them
}

// add puts a feature behind the first n of list, which has room, unless the part has
// it, and returns how many there are. It does not branch: which of them are new is hard
// to foresee.
func (o *once) add(list []uint32, n int, h uint32) int {
	i := h >> (32 - wholeBits)
	list[n] = h
	n += int(^o.seen[i>>6] >> (i & 63) & 1)
	o.seen[i>>6] |= 1 << (i & 63)
	return n
}

// clear forgets everything, in the time that it took to learn it.
func (o *once) clear() {
	for _, h := range o.list {
		o.seen[h>>(32-wholeBits+6)] = 0
	}
	o.list, o.total, o.first, o.end = o.list[:0], classify.Total{}, 0, 0
}

// margin is what a model says of all features.
func (o *once) margin(m *classify.Model) float32 {
	o.total = o.total.Plus(m.Weigh(o.list[o.total.N:]))
	return m.Margin(o.total)
}

// words fills o with what the words of a text from first to end have by themselves. Of
// those that o has already, only how the others go on in them is read again.
func (o *once) words(text string, words []directive.Word, first, end int) {
	from, to := int(words[first].Start), int(words[end-1].End)
	if o.end == end && first < o.first {
		if o.grow(text[from:to], words[first:o.first+1], int(words[o.first].Start)-from) {
			o.first = first
			return
		}
	}
	o.whole(text[from:to], words[first:end])
	o.first, o.end = first, end
}

// grams are what the characters of ASCII stand for in runs of them: any digit for
// another, and white space too. Bytes of others stand for none.
var grams = func() (of [256]rune) {
	for c := range utf8.RuneSelf {
		switch of[c] = rune(terms.Lower(byte(c))); {
		case c >= '0' && c <= '9':
			of[c] = '0'
		case c <= ' ':
			of[c] = ' '
		}
	}
	return of
}()

// whole fills o with what one part of a text has: its words and pairs of words,
// and its runs of three to five characters, which know a word in another form
// and a language by its spelling. part is the text, and words are its words.
func (o *once) whole(part string, words []directive.Word) {
	o.clear()
	o.grow(part, words, len(part))
}

const longestGram = 5 // characters in a run

// grow adds what a part of a text has before the byte old, from which on o has it, and
// what goes on from there. It fails where what stands before changes how the rest is read.
func (o *once) grow(part string, words []directive.Word, old int) bool {
	before, most := len(o.list), 2*len(words)+3*(old+longestGram*utf8.UTFMax)
	list, size := slices.Grow(o.list, most)[:before+most], before
	for i := range words {
		size = o.add(list, size, hash(kindWholeWord, words[i].Hash, 0))
		if i > 0 {
			size = o.add(list, size, hash(kindWholePair, words[i-1].Hash, words[i].Hash))
		}
	}
	o.list = list[:size]
	if !o.read(part, old) {
		return false
	}
	var one, two, three, four, five uint32 // the hashes of the last 1 to 5 characters
	mix := func(h uint32, c rune) uint32 {
		h = (h ^ uint32(c)) * 0x9e3779b1
		return h ^ h>>15
	}
	for i, c := range o.chars {
		one, two, three, four, five = mix(kindGram, c), mix(one, c), mix(two, c), mix(three, c), mix(four, c)
		if i >= 2 {
			size = o.add(list, size, three*0x85ebca6b)
		}
		if i >= 3 {
			size = o.add(list, size, four*0x85ebca6b)
		}
		if i >= 4 {
			size = o.add(list, size, five*0x85ebca6b)
		}
	}
	o.list = list[:size]
	return true
}

// read fills o with the characters of a part of a text before the byte old, and those
// whose runs begin before it. It fails where what stands before changes how the rest is
// read.
func (o *once) read(part string, old int) bool {
	chars, n := slices.Grow(o.chars[:0], len(part))[:len(part)], 0
	space, sign := true, true
	for i, rest := 0, longestGram; i < len(part) && rest > 0; {
		c, size := grams[part[i]], 1
		if sign || i == old { // what an identifier spells says nothing
			size = max(1, normal.Identifier(part[i:]))
			if i == old && size > 1 && !sign || i < old && i+size > old {
				return false
			}
		}
		switch {
		case size > 1:
			c, sign = '0', false
		case c != 0:
			sign = c < 'a' && c != '0'
		default:
			c, size = utf8.DecodeRuneInString(part[i:])
			if sign = false; size > 1 && unicode.IsSpace(c) {
				c = ' '
			}
		}
		i += size
		if c == ' ' && space {
			continue
		}
		if space = c == ' '; i > old {
			rest--
		}
		chars[n] = c
		n++
	}
	o.chars = chars[:n]
	return true
}

// parts calls f with every part of a text that has words, its words, and their
// places.
func parts(text string, words []directive.Word, f func(part string, words []directive.Word, first int)) {
	first := 0
	for from := 0; from < len(text); {
		to := from + len(terms.Head(text[from:], partBytes))
		end := first
		for end < len(words) && int(words[end].Start) < to {
			end++
		}
		if first < end {
			f(text[from:to], words[first:end], first)
		}
		from, first = to, end
	}
}
