package normal

import (
	"strings"
	"sync"

	"github.com/memproxy/memproxy/screen/terms"
)

const (
	// A text is corrected if one of its mistyped words is a word of instructions, or if it has
	// minMistyped mistyped words and one word in oftenMistyped is mistyped.
	minMistyped   = 2
	oftenMistyped = 8

	minTyped = 5 // fewest letters of a correct word; shorter ones are too similar to each other
	maxTyped = 24
)

// retyped reads v with its mistyped words corrected. A typing error is no evidence of
// anything by itself, so the reading is as innocent as v.
func retyped(v *View) View {
	vocab := wide()
	out := replaced(v, span{0, len(v.Text)}, func(w string) string {
		h := terms.HashWord(w)
		is := vocab.words.Get(h)
		if w = typed().of(w, h); is.list == 0 || is.list == others && vocab.words.Get(terms.HashWord(w)).list < others {
			return w
		}
		return ""
	})
	out.Overt = v.Overt
	return out
}

// neighbours finds known words at an edit distance of one (Damerau-Levenshtein): a letter
// is missing, added, replaced, or swapped with the next. Two such words are equal once one
// letter is deleted from either or both (symmetric deletion, as in SymSpell, W. Garbe, 2012).
type neighbours struct {
	words []string // index 0 is no word
	// The tables map hashes to indices in words: without has each word with one letter
	// omitted, whole the words themselves, mixed their signatures and anagrams, and bare the
	// words without vowels. Of several words the most usual is kept.
	without, whole, mixed, bare terms.Table[uint16]
}

var typed = sync.OnceValue(func() *neighbours {
	n := &neighbours{words: append([]string{""}, strings.Fields("your are is use and must "+common+" "+shared+" "+more)...)}
	for k, w := range n.words {
		first(&n.bare, terms.HashWord(vowels.Replace(w)), k)
		if len(w) >= 4 {
			first(&n.mixed, signature(w).hash(), k)
		}
		if len(w) < minTyped || len(w) > maxTyped {
			continue
		}
		first(&n.mixed, anagram(w).hash(), k)
		first(&n.whole, terms.HashWord(w), k)
		for i := range len(w) {
			first(&n.without, terms.HashWord(w[:i]+w[i+1:]), k)
		}
	}
	return n
})

// first sets the index of a word for a hash that has none.
func first(in *terms.Table[uint16], h uint32, k int) {
	if at := in.At(h); *at == 0 {
		*at = uint16(k)
	}
}

// of returns the most usual word at an edit distance of one from w, whose hash is h, or "".
func (n *neighbours) of(w string, h uint32) string {
	if len(w) < minTyped-1 || len(w) > maxTyped || plural(w) {
		return ""
	}
	best := n.without.Get(h)
	if !oneKey(n.words[best], w) {
		best = 0
	}
	if len(w) < minTyped {
		return n.words[best]
	}
	before := terms.HashSeed // the hash of w[:i]
	for i := range len(w) {
		h := terms.HashAfter(before, w[i+1:])
		before = terms.HashByte(before, terms.Lower(w[i]))
		for _, table := range [...]*terms.Table[uint16]{&n.whole, &n.without} {
			if k := table.Get(h); (best == 0 || k < best) && oneKey(w, n.words[k]) {
				best = k
			}
		}
	}
	return n.words[best]
}

// plural reports whether w is the plural of an English word.
func plural(w string) bool {
	n := len(w) - 1
	list := wide().words.Get(terms.HashWord(w[:n])).list
	return terms.Lower(w[n]) == 's' && terms.Lower(w[n-1]) != 's' && list != 0 && list != others
}

// oneKey reports whether the edit distance of two words is one. short must have as many
// letters as long, or one less.
func oneKey(long, short string) bool {
	if len(long) != len(short) && len(long) != len(short)+1 {
		return false // a hash collision, which an attacker can search for
	}
	i := 0
	for i < len(short) && terms.Lower(long[i]) == terms.Lower(short[i]) {
		i++
	}
	switch {
	case len(long) > len(short):
		return strings.EqualFold(long[i+1:], short[i:])
	case i == len(short):
		return false // equal words
	}
	if strings.EqualFold(long[i+1:], short[i+1:]) {
		return true
	}
	return i+1 < len(short) && terms.Lower(long[i]) == terms.Lower(short[i+1]) && terms.Lower(long[i+1]) == terms.Lower(short[i]) && strings.EqualFold(long[i+2:], short[i+2:])
}
