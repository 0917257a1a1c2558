package screen

import (
	"math/bits"

	"github.com/memproxy/memproxy/screen/classify"
	"github.com/memproxy/memproxy/screen/directive"
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
// the place of the first.
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
		for c := w.Concepts; c != 0; c &= c - 1 {
			a := uint32(bits.TrailingZeros64(c))
			if i > 0 && words[i-1].Concepts>>a&1 != 0 {
				continue // the same phrase
			}
			dst = append(dst, classify.Feature{Hash: hash(kindConcept, a, 0), At: p})
			for j := max(0, i-reach); j < i; j++ {
				for d := words[j].Concepts; d != 0; d &= d - 1 {
					dst = append(dst, classify.Feature{Hash: hash(kindConceptPair, uint32(bits.TrailingZeros64(d)), a), At: p})
				}
			}
		}
		before2, before = before, w
	}
	return dst
}
