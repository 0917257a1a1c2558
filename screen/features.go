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

// features appends what the classifier sees of words, in their order; at is
// the place of the first. Of concepts it knows the first 64, with which it was trained.
func features(dst []classify.Feature, words []directive.Word, at int32) []classify.Feature {
	var before, before2 *directive.Word
	for i := range words {
		w := &words[i]
		p := at + int32(i)
		if w.Flags&directive.Number != 0 && before != nil && before.Flags&directive.Number != 0 {
			// A table says nothing by its numbers, and they thin out the rest.
			dst = append(dst, classify.Feature{At: p}, classify.Feature{At: p})
			continue
		}
		dst = append(dst, classify.Feature{Hash: hash(kindWord, w.Hash, 0), At: p})
		dst = append(dst, classify.Feature{Hash: hash(kindStem, w.Stem, 0), At: p})
		if before != nil {
			dst = append(dst, classify.Feature{Hash: hash(kindPair, before.Hash, w.Hash), At: p})
		}
		if before2 != nil {
			dst = append(dst, classify.Feature{Hash: hash(kindStemPair, before2.Stem, w.Stem), At: p})
		}
		if w.Flags&directive.Opens != 0 {
			dst = append(dst, classify.Feature{Hash: hash(kindOpening, w.Hash, 0), At: p})
		}
		if w.Flags&directive.Capital != 0 {
			dst = append(dst, classify.Feature{Hash: hash(kindForm, 1, 0), At: p})
		}
		for c := w.Concepts.First; c != 0; c &= c - 1 {
			a := uint32(bits.TrailingZeros64(c))
			if i > 0 && words[i-1].Concepts.First>>a&1 != 0 {
				continue // the same phrase
			}
			dst = append(dst, classify.Feature{Hash: hash(kindConcept, a, 0), At: p})
			for j := max(0, i-reach); j < i; j++ {
				for d := words[j].Concepts.First; d != 0; d &= d - 1 {
					dst = append(dst, classify.Feature{Hash: hash(kindConceptPair, uint32(bits.TrailingZeros64(d)), a), At: p})
				}
			}
		}
		before2, before = before, w
	}
	return dst
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
	seen [1 << wholeBits / 64]uint64
	list []uint32 // their hashes
	// What it has, in words: another part with the same end that begins before it has
	// all of that too.
	first, end int
	sum        int32 // what the first summed features weigh
	summed     int
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
	o.list, o.sum, o.summed, o.first, o.end = o.list[:0], 0, 0, 0, 0
}

// margin is what a model says of all features.
func (o *once) margin(m *classify.Model) float32 {
	o.sum += m.Weigh(o.list[o.summed:])
	o.summed = len(o.list)
	return m.Margin(o.sum, len(o.list))
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
// another, and white space too.
var grams = func() (of [utf8.RuneSelf]rune) {
	for c := range of {
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
	var one, two, three, four, five uint32 // the hashes of the last 1 to 5 characters
	run := 0                               // characters so far
	mix := func(h uint32, c rune) uint32 {
		h = (h ^ uint32(c)) * 0x9e3779b1
		return h ^ h>>15
	}
	space, sign := true, true
	for i, rest := 0, longestGram; i < len(part) && rest > 0; {
		var c rune
		n, was := 1, sign
		if was || i == old { // what an identifier spells says nothing
			n = max(1, normal.Identifier(part[i:]))
		}
		if i == old && n > 1 && !was || i < old && i+n > old {
			o.list = list[:size]
			return false
		}
		switch {
		case n > 1:
			c, sign = '0', false
		case part[i] < utf8.RuneSelf:
			c = grams[part[i]]
			sign = c < 'a' && c != '0'
		default:
			c, n = utf8.DecodeRuneInString(part[i:])
			if sign = false; n > 1 && unicode.IsSpace(c) {
				c = ' '
			}
		}
		i += n
		if c == ' ' && space {
			continue
		}
		if space = c == ' '; i > old {
			rest--
		}
		one, two, three, four, five = mix(kindGram, c), mix(one, c), mix(two, c), mix(three, c), mix(four, c)
		if run++; run >= 3 {
			size = o.add(list, size, three*0x85ebca6b)
		}
		if run >= 4 {
			size = o.add(list, size, four*0x85ebca6b)
		}
		if run >= 5 {
			size = o.add(list, size, five*0x85ebca6b)
		}
	}
	o.list = list[:size]
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
