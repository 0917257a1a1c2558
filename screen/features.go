package screen

import (
	"math/bits"

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
	list []classify.Feature
}

// add appends a feature unless the part has it, for which list has room. It does not
// branch: which of them are new is hard to foresee.
func (o *once) add(list []classify.Feature, h uint32) []classify.Feature {
	i, n := h>>(32-wholeBits), len(list)
	list = append(list, classify.Feature{Hash: h})
	list = list[:n+int(^o.seen[i>>6]>>(i&63)&1)]
	o.seen[i>>6] |= 1 << (i & 63)
	return list
}

// clear forgets everything, in the time that it took to learn it.
func (o *once) clear() {
	for _, f := range o.list {
		o.seen[f.Hash>>(32-wholeBits+6)] = 0
	}
	o.list = o.list[:0]
}

// whole fills o with what one part of a text has: its words and pairs of words,
// and its runs of three to five characters, which know a word in another form
// and a language by its spelling. part is the text, and words are its words.
func (o *once) whole(part string, words []directive.Word) {
	o.clear()
	list := o.list
	for i := range words {
		list = o.add(list, hash(kindWholeWord, words[i].Hash, 0))
		if i > 0 {
			list = o.add(list, hash(kindWholePair, words[i-1].Hash, words[i].Hash))
		}
	}
	var one, two, three, four, five uint32 // the hashes of the last 1 to 5 characters
	run := 0                               // characters so far
	mix := func(h uint32, c rune) uint32 {
		h = (h ^ uint32(c)) * 0x9e3779b1
		return h ^ h>>15
	}
	space, sign := true, true
	for i := 0; i < len(part); {
		c, n := rune(part[i]), 1
		if c >= utf8.RuneSelf {
			c, n = utf8.DecodeRuneInString(part[i:])
		}
		if sign { // what an identifier spells says nothing
			if id := normal.Identifier(part[i:]); id > 0 {
				c, n = '0', id
			}
		}
		i += n
		sign = c < '0' || c > '9' && c < 'A' || c > 'Z' && c < 'a'
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c >= '0' && c <= '9':
			c = '0'
		case c <= ' ' || n > 1 && unicode.IsSpace(c):
			if space {
				continue
			}
			c = ' '
		}
		space = c == ' '
		one, two, three, four, five = mix(kindGram, c), mix(one, c), mix(two, c), mix(three, c), mix(four, c)
		if run++; run >= 3 {
			list = o.add(list, three*0x85ebca6b)
		}
		if run >= 4 {
			list = o.add(list, four*0x85ebca6b)
		}
		if run >= 5 {
			list = o.add(list, five*0x85ebca6b)
		}
	}
	o.list = list
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
