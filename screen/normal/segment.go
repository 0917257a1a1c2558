package normal

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

const (
	// crowded is how many letters without a space are taken for several words, and
	// crowdedText in a text that has hardly any spaces.
	crowded, crowdedText = 18, 6
	fewSpaces            = 20 // how many bytes such a text has for each
)

// split takes apart words that were run together.
func split(found []View, v *View) []View {
	s := v.Text
	b := newBuilder(len(s) + 32)
	taken, least := 0, crowded // letters that were taken apart
	if strings.Count(s, " ")*fewSpaces < len(s) {
		least = crowdedText
	}
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && isLetter(s[j]) {
			j++
		}
		from := len(b.text)
		b.copy(s, i, max(j, i+1))
		if j-i >= least && (unhump(b, from) || segment(b, from)) {
			taken += j - i
			if j < len(s) && isDigit(s[j]) {
				b.byte(' ', int32(j))
			}
		}
		i = max(j, i+1)
	}
	if taken < crowded && taken*fewSpaces < len(s) || taken == 0 { // letters of a code
		return found
	}
	return append(found, mapped(Split, b, v))
}

// evenly joins letters that stand in groups of one length, whatever they part, and
// finds the words in them.
func evenly(found []View, v *View) []View {
	s := v.Text
	groups, odd, size := 0, 0, 0
	for group := range strings.SplitSeq(s, " ") { // an end of a line may stand in one
		if groups++; size == 0 {
			size = len(group)
		}
		if len(group) != size {
			odd++
		}
	}
	if size < 2 || size > maxEven || groups < minEven || odd > 1+groups/evenOdd {
		return found
	}
	b := newBuilder(len(s))
	from := 0
	for i := range len(s) {
		if s[i] > ' ' && !isLetter(s[i]) {
			if segment(b, from); len(b.text) > from {
				b.byte(s[i], int32(i))
			}
			from = len(b.text)
		} else if s[i] > ' ' {
			b.byte(s[i], int32(i))
		}
	}
	segment(b, from)
	return append(found, mapped(Split, b, v))
}

const (
	// maxEven is the longest group of letters, and minEven how many there are, of
	// which one in evenOdd may have another length: a letter of several bytes.
	maxEven, minEven, evenOdd = 8, 6, 12
)

const minHumps = 3 // how many capitals behind small letters part words

// unhump puts spaces before the capitals of b.text[from:] that begin words.
func unhump(b *builder, from int) bool {
	cuts := 0
	text, at := string(b.text[from:]), slices.Clone(b.at[from:])
	b.text, b.at = b.text[:from], b.at[:from]
	for i := range len(text) {
		if i > 0 && classes[text[i]] == cUpper && classes[text[i-1]] == cLower {
			cuts++
			b.byte(' ', at[i])
		}
		b.byte(text[i], at[i])
	}
	if cuts < minHumps || cuts*maxWord < len(text) || !language(string(b.text[from:])) {
		b.text, b.at = append(b.text[:from], text...), append(b.at[:from], at...)
		return false
	}
	return true
}

const (
	maxWord = 14 // the longest word that segment looks for
	// manyWords of three letters and more, one behind the other, are a sentence.
	manyWords = 6
)

// segment puts spaces between the words of b.text[from:], by the segmentation
// that covers most letters with known words. It reports whether that was most
// of them, or many words, and leaves b alone otherwise.
func segment(b *builder, from int) bool {
	w := string(b.text[from:])
	at := append([]int32(nil), b.at[from:]...)
	// best[i] is the cost of w[:i]: unknown letters cost most, words a little.
	best := make([]int32, len(w)+1)
	prev := make([]uint8, len(w)+1)
	two, vocab := english(), wide()
	for i := range w {
		if c := best[i] + 8; prev[i+1] == 0 || c < best[i+1] {
			best[i+1], prev[i+1] = c, 1
		}
		h := terms.Start
		for n := 1; n <= maxWord && i+n <= len(w); n++ {
			h = terms.Next(h, lower(w[i+n-1]))
			if n < 2 || n == 2 && !two.has(h) || n > 2 && !vocab.has(h) {
				continue
			}
			c := best[i] + 3 + int32(max(0, 4-n))*2
			for _, end := range [...]string{"", "s", "d", "ed", "ing", "ly"} { // other forms of it
				if m := n + len(end); n > 2 || end == "" {
					if i+m <= len(w) && w[i+n:i+m] == end && (prev[i+m] == 0 || c < best[i+m]) {
						best[i+m], prev[i+m] = c, uint8(m)
					}
				}
				c++
			}
		}
	}
	known := 0
	for i := len(w); i > 0; i -= int(prev[i]) {
		if prev[i] >= 3 {
			known++
		}
	}
	// A sentence may have words that nobody listed.
	if most := int(best[len(w)]); most > len(w)*2 && (known < manyWords || most > len(w)*3) {
		return false
	}
	var cuts []int
	for i := len(w); i > 0; i -= int(prev[i]) {
		if prev[i] > 1 || i == len(w) || prev[i+1] > 1 {
			cuts = append(cuts, i-int(prev[i]))
		}
	}
	b.text, b.at = b.text[:from], b.at[:from]
	next := len(cuts) - 1
	for i := range len(w) {
		if next >= 0 && cuts[next] == i {
			if i > 0 {
				b.byte(' ', at[i])
			}
			next--
		}
		b.byte(w[i], at[i])
	}
	return true
}
