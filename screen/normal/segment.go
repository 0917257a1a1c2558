package normal

import (
	"math"
	"slices"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

const (
	// crowded is the number of letters without a space that may be several words, and
	// crowdedText that in a text with hardly any spaces.
	crowded, crowdedText = 18, 6
	fewSpaces            = 20 // such a text has more bytes than this per space
)

// split separates words that were run together, and sentences, whose punctuation has no
// spaces then.
func split(found []View, v *View) []View {
	all, b := newBuilder(len(v.Text)), newBuilder(len(v.Text)+len(v.Text)/4)
	defer all.free()
	defer b.free()
	all.copy(v.Text, 0, len(v.Text))
	taken := parting(b, v.Text, all.at, v.Name == Joined && !v.pieced || spaceless(v.Text))
	if taken < crowded && taken*fewSpaces < len(v.Text) || taken == 0 { // probably encoded letters
		return found
	}
	return append(found, mapped(Split, b, v))
}

// spaceless reports whether a text has hardly any spaces.
func spaceless(s string) bool { return strings.Count(s, " ")*fewSpaces < len(s) }

// parting writes s, whose bytes have the offsets at, with spaces between its words, and
// returns the number of letters in separated words. bare is a text without spaces of its own.
func parting(b *builder, s string, at []int32, bare bool) (taken int) {
	least := crowded
	if bare {
		least = crowdedText
	}
	for i := 0; i < len(s); {
		j := letter.End(s, i)
		for j > i && contracted(s[j:]) > 0 {
			j = letter.End(s, j+1)
		}
		from, end := len(b.text), max(j, i+1)
		b.text, b.at = append(b.text, s[i:end]...), append(b.at, at[i:end]...)
		if j-i >= least && segment(b, from) {
			taken += j - i
			if j < len(s) && isDigit(s[j]) {
				b.byte(' ', at[j])
			}
		}
		if i = end; bare && i < len(s) && (strings.IndexByte(",;!?)", s[i-1]) >= 0 && isAlnum(s[i]) || strings.IndexByte(".:", s[i-1]) >= 0 && classes[s[i]] == cUpper) {
			b.byte(' ', at[i]) // after punctuation, except in an address or a number
		}
	}
	return taken
}

// regrouped joins letters in groups of one length, which ignore word boundaries, and finds
// the words in them.
func regrouped(found []View, v *View) []View {
	s := v.Text
	if strings.Count(s, " ") < minEven-1 {
		return found
	}
	var even [maxEven + 1]dense
	var told [maxEven + 1]int // groups that were added to each dense
	from, groups := 0, 0
	for group := range strings.SplitSeq(s, " ") { // a group may contain a line end
		if to := from + len(group); len(group) > 1 || from == 0 && group != "" {
			if size := len(group); size <= maxEven {
				even[size].add(false, 1, (groups-told[size])*evenOdd, from, to)
				even[size].add(true, 1, evenOdd, from, to)
				told[size] = groups + 1
			}
			groups++
		}
		from += len(group) + 1
	}
	for size := range even {
		even[size].add(false, 1, (groups-told[size])*evenOdd, len(s), len(s))
	}
	best := slices.MaxFunc(even[2:], func(a, b dense) int { return a.yes - a.no - b.yes + b.no })
	in, ok := best.part(s, minEven, sureEven)
	if !ok {
		if best = slices.MaxFunc(even[2:], func(a, b dense) int { return a.best - b.best }); best.best < sureEven {
			return found
		}
		in = best.span
	}
	joined := newBuilder(len(s))
	defer joined.free()
	for i := in.start; i < in.end; i++ {
		if s[i] != ' ' {
			joined.byte(s[i], int32(i))
		}
	}
	b := newBuilder(len(s) + len(s)/4)
	defer b.free()
	b.copy(s, 0, in.start)
	parting(b, string(joined.text), joined.at, true)
	b.copy(s, in.end, len(s))
	return append(found, mapped(Split, b, v))
}

const (
	// maxEven is the longest group of letters. minEven is the fewest groups, or sureEven
	// in a text with other words; one group in evenOdd may have another length, because
	// of a letter of several bytes.
	maxEven, minEven, sureEven, evenOdd = 8, 5, 10, 4
)

const (
	maxWord = 16 // the longest word of the vocabulary
	// Costs in sixteenths of a bit: of a word that is in no list, besides its letters; of
	// an inflected form of a known word; of the words "a" and "I"; and of a letter, less its
	// bigram score.
	strangeWord, formOf, article, letterCost = 16 * 12, 16 * 2, 16 * 5, 76
)

// cut is the best segmentation of a prefix: its cost, the number of letters in known
// words, and the length of the last word.
type cut struct{ cost, known, n int32 }

// segment puts spaces between the words of b.text[from:]. It takes the segmentation with
// the lowest cost: known words cost by their rank, and unknown ones by their bigram
// scores. It returns false and leaves b unchanged if less than half of the letters are in
// known words, unless the text is language with capitalised words.
func segment(b *builder, from int) bool {
	w := string(b.text[from:])
	best, humps := cuts(w)
	if all := best[len(w)]; int(all.known)*2 < len(w) && (humps < minHumps || humps*maxWord < len(w) || !language(w)) || int(all.n) == len(w) {
		return false
	}
	at := slices.Clone(b.at[from:])
	begins := make([]bool, len(w)+1)
	for i := len(w); i > 0; i -= int(best[i].n) {
		begins[i] = true
	}
	b.text, b.at = b.text[:from], b.at[:from]
	for i := range len(w) {
		if begins[i] {
			b.byte(' ', at[i])
		}
		b.byte(w[i], at[i])
	}
	return true
}

// cuts returns the best segmentation of every prefix of w (dynamic programming, as the
// Viterbi algorithm), and the number of humps.
func cuts(w string) (best []cut, humps int) {
	p, vocab := pairs(), wide()
	best = make([]cut, len(w)+1)
	var put func(i, n int, cost int32)
	put = func(i, n int, cost int32) {
		if c := best[i].cost + cost; best[i+n].n == 0 || c < best[i+n].cost {
			best[i+n] = cut{c, best[i].known + int32(n), int32(n)}
		}
		if m := contracted(w[i+n:]); m > 0 {
			put(i, n+m, cost+formOf)
		}
	}
	// through is the lowest cost at which an unknown word begins, at start, less the cost
	// of the letters up to there.
	sum, through, start := int32(0), int32(math.MaxInt32), 0
	for i := range len(w) + 1 {
		last := byte(apart)
		if i > 0 {
			last = places[w[i-1]]
			if all := through + sum + letterCost - int32(p[last][apart]); best[i].n == 0 || all < best[i].cost {
				best[i] = cut{all, best[start].known, int32(i - start)}
			}
		}
		if i == len(w) {
			break
		}
		c := places[w[i]]
		if i > 0 {
			sum += letterCost - int32(p[last][c])
		}
		if i > 0 && hump(w, i) {
			humps++
		}
		if begun := best[i].cost + strangeWord + letterCost - int32(p[apart][c]) - sum; begun < through {
			through, start = begun, i
		}
		if c == 0 || c == 'i'-'a' { // "a" and "i" are words
			put(i, 1, article)
		}
		h := terms.HashSeed
		for n := 1; n <= maxWord && i+n <= len(w); n++ {
			h = terms.HashByte(h, terms.Lower(w[i+n-1]))
			if n == 1 {
				continue
			}
			if n == beginning && vocab.begins[three(w[i:])/64]>>(three(w[i:])%64)&1 == 0 {
				break
			}
			known := vocab.words.Get(h)
			if known.cost == 0 {
				continue
			}
			cost := int32(known.cost)
			put(i, n, cost)
			if n == 2 || i+n == len(w) || strings.IndexByte("sdeil", terms.Lower(w[i+n])) < 0 {
				continue
			}
			for _, end := range [...]string{"s", "d", "ed", "ing", "ly"} { // inflected forms
				if m := n + len(end); i+m <= len(w) && strings.EqualFold(w[i+n:i+m], end) {
					put(i, m, cost+formOf)
				}
			}
		}
	}
	return best, humps
}

// contracted returns the length of the contraction or ending with an apostrophe at the
// beginning of s, or 0.
func contracted(s string) int {
	if len(s) < 2 || s[0] != '\'' && s[1] != '\'' {
		return 0
	}
	for _, end := range [...]string{"n't", "'re", "'ve", "'ll", "'s", "'t", "'d", "'m"} {
		if len(s) >= len(end) && strings.EqualFold(s[:len(end)], end) {
			return len(end)
		}
	}
	return 0
}

const minHumps = 3 // capitals after lower-case letters (camel case) that separate words

// hump reports whether w[i] is a capital after a lower-case letter.
func hump(w string, i int) bool { return classes[w[i]] == cUpper && classes[w[i-1]] == cLower }
