package embedded

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// bag is the words of a text with their counts.
type bag struct {
	counts map[string]float64
	norm   float64
}

var stopWords = strings.Fields("a an and are as at be by do does for from has have how in it is of on or s " +
	"that the their this to user was what when where which who will with")

// bagOf counts a text's words in lower case, without stop words and plural endings.
func bagOf(text string) bag {
	b := bag{counts: make(map[string]float64)}
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r)
	}) {
		if slices.Contains(stopWords, w) {
			continue
		}
		if len(w) > 3 {
			w = strings.TrimSuffix(w, "s")
		}
		b.counts[w]++
	}
	if len(b.counts) == 0 {
		b.counts[""] = 1 // texts without words are similar to each other
	}
	var sum float64
	for _, n := range b.counts {
		sum += n * n
	}
	b.norm = math.Sqrt(sum)
	return b
}

// similarity is the cosine similarity of two bags, from 0 (no word in common) to 1.
func (b bag) similarity(other bag) float64 {
	var dot float64
	for w, n := range b.counts {
		dot += n * other.counts[w]
	}
	return min(dot/(b.norm*other.norm), 1)
}

// hit is a memory with its relevance.
type hit struct {
	*memory
	score float64
}

// rank returns the k most similar memories above the threshold, best first.
func rank(query string, from []*memory, threshold float64, k int) []hit {
	q := bagOf(query)
	hits := []hit{}
	for _, m := range from {
		if s := q.similarity(m.words); s >= threshold {
			hits = append(hits, hit{m, s})
		}
	}
	slices.SortStableFunc(hits, func(x, y hit) int { return cmp.Compare(y.score, x.score) })
	return hits[:min(k, len(hits))]
}
