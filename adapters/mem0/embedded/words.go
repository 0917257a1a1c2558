package embedded

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// bag is the words of a text with their counts, sorted by the word's hash.
type bag struct {
	words []wordCount
	norm  float64
}

type wordCount struct {
	hash  uint64
	count float64
}

// noise are words that match everything and so tell nothing.
var noise = wordSet("a an and are as at be by do does for from has have how in is it of on or s " +
	"that the their this to user was what when where which who will with")

func wordSet(list string) map[string]bool {
	set := make(map[string]bool)
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// fnv1a hashes a word. A collision makes two words one, which no test notices.
func fnv1a(word string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(word) {
		h = (h ^ uint64(word[i])) * 1099511628211
	}
	return h
}

// bagOf counts a text's words: lower case, without noise and plural endings.
func bagOf(text string) bag {
	var b bag
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r)
	}) {
		if noise[w] {
			continue
		}
		if len(w) > 3 {
			w = strings.TrimSuffix(w, "s")
		}
		b.words = append(b.words, wordCount{fnv1a(w), 1})
	}
	if len(b.words) == 0 {
		b.words = []wordCount{{0, 1}} // wordless texts resemble each other
	}
	slices.SortFunc(b.words, func(x, y wordCount) int { return cmp.Compare(x.hash, y.hash) })
	last := 0
	for _, w := range b.words[1:] {
		if w.hash == b.words[last].hash {
			b.words[last].count++
		} else {
			last++
			b.words[last] = w
		}
	}
	b.words = b.words[:last+1]
	var sum float64
	for _, w := range b.words {
		sum += w.count * w.count
	}
	b.norm = math.Sqrt(sum)
	return b
}

// likeness is the cosine of two bags, 0 (no word in common) to 1.
func (b bag) likeness(other bag) float64 {
	var dot float64
	for i, j := 0, 0; i < len(b.words) && j < len(other.words); {
		x, y := b.words[i], other.words[j]
		switch {
		case x.hash < y.hash:
			i++
		case x.hash > y.hash:
			j++
		default:
			dot += x.count * y.count
			i++
			j++
		}
	}
	return min(dot/(b.norm*other.norm), 1)
}

// hit is a memory with its relevance.
type hit struct {
	*memory
	score float64
}

// rank returns the k likest memories from the threshold up, likest first.
func rank(query string, from []*memory, threshold float64, k int) []hit {
	q := bagOf(query)
	hits := []hit{}
	for _, m := range from {
		if s := q.likeness(m.words); s >= threshold {
			hits = append(hits, hit{m, s})
		}
	}
	slices.SortStableFunc(hits, func(x, y hit) int { return cmp.Compare(y.score, x.score) })
	return hits[:min(k, len(hits))]
}
