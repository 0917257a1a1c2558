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

// The kinds of feature of a window. The kind seeds the hash (feature hashing).
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

const reach = 6 // the distance in words up to which two concepts make a pair

func hash(kind int, a, b uint32) uint32 {
	h := uint32(kind)*0x9e3779b1 ^ a
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ b ^ h>>13) * 0xc2b2ae35
	h ^= h >> 16
	return h * 0x27d4eb2f
}

// previous has the indices of the two words that a next word makes pairs with: the last
// one that has features, and the one before it. -1 is none.
type previous struct{ last, other int }

// noPrevious is the previous of the first word of a text.
var noPrevious = previous{-1, -1}

// features returns the classifier's features of word i, in a text that begins at word
// first, and advances b. The result is valid until the next call. Only the first 64
// concepts count: the models were trained with those.
func (b *previous) features(sc *scratch, first, i int) []uint32 {
	words, dst := sc.words, sc.features[:0]
	w := &words[i]
	if w.Flags&directive.FlagDigits != 0 && b.last >= 0 && words[b.last].Flags&directive.FlagDigits != 0 {
		return append(dst, 0, 0) // no evidence: neutral features that lower the margin
	}
	dst = append(dst, hash(kindWord, w.Hash, 0), hash(kindStem, w.Stem, 0))
	if b.last >= 0 {
		dst = append(dst, hash(kindPair, words[b.last].Hash, w.Hash))
	}
	if b.other >= 0 {
		dst = append(dst, hash(kindStemPair, words[b.other].Stem, w.Stem))
	}
	b.last, b.other = i, b.last
	if w.Flags&directive.FlagSentenceStart != 0 {
		dst = append(dst, hash(kindOpening, w.Hash, 0))
	}
	if w.Flags&directive.FlagCapitals != 0 {
		dst = append(dst, hash(kindForm, 1, 0))
	}
	for c := w.Concepts.First; c != 0; c &= c - 1 {
		a := uint32(bits.TrailingZeros64(c))
		if i > first && words[i-1].Concepts.First>>a&1 != 0 {
			continue // the same phrase as the word before
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

// prefix has the total weight of the features of all words before one, and the words that
// its next word makes pairs with.
type prefix struct {
	classify.Total
	previous
}

// measure fills sc.prefixes, one for each word and one for the end, and sc.strides, from
// which windows are scored.
func (sc *scratch) measure(m *classify.Model) {
	at := prefix{previous: noPrevious}
	sc.prefixes, sc.strides = sc.prefixes[:0], sc.strides[:0]
	for i := range sc.words {
		sc.prefixes = append(sc.prefixes, at)
		if i%classify.Stride == 0 {
			sc.strides = append(sc.strides, at.Total)
		}
		at.Total = at.Plus(m.SumWeights(at.features(sc, 0, i)))
	}
	sc.prefixes, sc.strides = append(sc.prefixes, at), append(sc.strides, at.Total)
}

// isolate returns the totals from which the windows of words first to end are scored as a
// text of their own. Only the features of the first few words differ from those in the
// whole text; the rest is computed from sc.prefixes.
func (sc *scratch) isolate(m *classify.Model, first, end int) []classify.Total {
	at, i := prefix{previous: noPrevious}, first
	strides := sc.isolated[:0]
	for ; i < end && (i < first+reach || at.previous != sc.prefixes[i].previous); i++ {
		if (i-first)%classify.Stride == 0 {
			strides = append(strides, at.Total)
		}
		at.Total = at.Plus(m.SumWeights(at.features(sc, first, i)))
	}
	other := at.Minus(sc.prefixes[i].Total)
	for i = first + len(strides)*classify.Stride; i < end; i += classify.Stride {
		strides = append(strides, sc.prefixes[i].Plus(other))
	}
	sc.isolated = append(strides, sc.prefixes[end].Plus(other))
	return sc.isolated
}

// The kinds of feature of a whole text. Their numbers are distinct from those of windows.
const (
	kindGram = iota + 32
	kindWholeWord
	kindWholePair
)

// partBytes is the size of the parts in which a long text is judged as a whole: over a
// whole page the benign prose would outweigh the one paragraph that matters.
const partBytes = 2 << 10

const wholeBits = 21 // bits of a feature's hash by which a featureSet deduplicates

// featureSet is the set of features of a part of a text. Each feature counts once: how
// often it occurs depends on the length of the text and says little else.
type featureSet struct {
	seen  [1 << wholeBits / 64]uint64
	list  []uint32 // their hashes
	chars []rune   // of the part
	// The words that the set covers. A part that begins earlier and has the same end is a
	// superset, and is added incrementally.
	first, end int
	total      classify.Total // of list[:total.N]
}

// add writes h to list[n], which must have room, and returns n+1 if the set did not have
// it, or n. It is branch-free: which features are new is hard to predict.
func (o *featureSet) add(list []uint32, n int, h uint32) int {
	i := h >> (32 - wholeBits)
	list[n] = h
	n += int(^o.seen[i>>6] >> (i & 63) & 1)
	o.seen[i>>6] |= 1 << (i & 63)
	return n
}

// clear empties the set. It takes time proportional to the number of features, not to the
// size of seen.
func (o *featureSet) clear() {
	for _, h := range o.list {
		o.seen[h>>(32-wholeBits+6)] = 0
	}
	o.list, o.total, o.first, o.end = o.list[:0], classify.Total{}, 0, 0
}

// margin returns the margin of all features by a model.
func (o *featureSet) margin(m *classify.Model) float32 {
	o.total = o.total.Plus(m.SumWeights(o.list[o.total.N:]))
	return m.Margin(o.total)
}

// words fills o with the features of words first to end of a text. If o has the features
// of a shorter range with the same end, only the words before it, and the pairs and
// n-grams that cross into it, are added.
func (o *featureSet) words(text string, words []directive.Word, first, end int) {
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

// grams maps ASCII characters to their representation in character n-grams: lower case,
// any digit as 0, any white space as a space. Bytes outside of ASCII map to 0.
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

// whole fills o with the features of one part of a text: its words, pairs of words, and
// character n-grams of three to five characters, which recognise inflected forms and a
// language by its spelling. part is the text, and words are its words.
func (o *featureSet) whole(part string, words []directive.Word) {
	o.clear()
	o.grow(part, words, len(part))
}

const longestGram = 5 // the length of the longest character n-gram

// grow adds the features of a part that begin before byte old; o has those from old on.
// It returns false if the text before old changes how the rest is read: then o must be
// filled anew.
func (o *featureSet) grow(part string, words []directive.Word, old int) bool {
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
	var one, two, three, four, five uint32 // hashes of the last 1 to 5 characters
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

// read fills o.chars with the normalised characters of a part before byte old, and those
// after it that n-grams beginning before old reach. It returns false if the text before
// old changes how the rest is read.
func (o *featureSet) read(part string, old int) bool {
	chars, n := slices.Grow(o.chars[:0], len(part))[:len(part)], 0
	space, sign := true, true
	for i, rest := 0, longestGram; i < len(part) && rest > 0; {
		c, size := grams[part[i]], 1
		if sign || i == old { // the characters of an identifier say nothing
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
			sign = false
			if size > 1 && unicode.IsSpace(c) {
				c = ' '
			}
		}
		i += size
		if c == ' ' && space {
			continue
		}
		space = c == ' '
		if i > old {
			rest--
		}
		chars[n] = c
		n++
	}
	o.chars = chars[:n]
	return true
}

// parts calls f with every part of a text that has words, the part's words, and the index
// of the first one.
func parts(text string, words []directive.Word, f func(part string, words []directive.Word, first int)) {
	first := 0
	for from := 0; from < len(text); {
		to := from + len(terms.Truncate(text[from:], partBytes))
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
