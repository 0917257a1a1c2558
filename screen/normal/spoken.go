package normal

import (
	"slices"
	"strings"
	"sync"

	"github.com/memproxy/memproxy/screen/terms"
)

const (
	minScrambled = 3 // words that are others with their inner letters mixed
	minAnagram   = 5 // letters of a word that are one other in any order
	minPig       = 4 // words of pig Latin
	minBare      = 4 // words without vowels, for each manyBare of which one may have some
	manyBare     = 3
	sureBare     = 6  // in a text of other words
	minBackward  = 4  // words of a text that may run backward
	sureBackward = 1  // signs that it does
	mostWords    = 30 // of a clause for each sign that it does
)

// spoken adds the readings of texts whose words a person would read at once
// and a table of words does not: with their inner letters mixed, without vowels,
// spelled, in pig Latin, and in reverse order.
func spoken(found []View, v *View) []View {
	s, vocab := v.Text, wide()
	words, scrambled, spelled, longest := 0, 0, 0, 0
	known, strange, mistyped, telling := 0, 0, 0, false
	var pigs, bare dense
	order := order{text: s}
	eachWord(s, func(i, j int, h uint32) {
		if j-i > 1 {
			words++
			bare.add(!vowel.In(s[i:j]), 1, manyBare, i, j)
		}
		is, _ := vocab.words.Get(h)
		order.clause(i, j)
		order.word(is.small)
		if is.letter > ' ' {
			spelled++
			longest = max(longest, spelled)
		} else if j-i > 1 {
			spelled = 0
		}
		if j-i < 3 {
			return
		}
		pigs.add(terms.Lower(s[j-1]) == 'y' && terms.Lower(s[j-2]) == 'a' && is.cost == 0, 1, 1, i, j)
		if is.cost != 0 {
			known++
			return
		}
		strange++
		if j-i >= 4 && scrambles()[signature(s[i:j])] != "" {
			scrambled++
		}
		if w := typed().of(s[i:j], h); w != "" {
			mistyped++
			telling = telling || vocab.common(terms.Word(w))
		}
	})
	order.clause(len(s), len(s))
	if longest >= minSpelled {
		found = spelledOut(found, v, &spellings[byWord])
	}
	if scrambled >= minScrambled {
		found = append(found, replaced(v, span{0, len(s)}, func(w string) string {
			if len(w) < 4 || vocab.word(w) {
				return ""
			}
			if other := scrambles()[signature(w)]; other != "" || len(w) < minAnagram {
				return other
			}
			return scrambles()[anagram(w)]
		}))
	}
	if mistyped >= minMistyped && (telling || mistyped*oftenMistyped >= words) &&
		2*(strange-mistyped) <= known+mistyped && (v.Name == Plain || v.decoded()) {
		found = append(found, retyped(v))
	}
	if part, ok := bare.part(s, minBare, sureBare); ok { // and not a few abbreviations
		found = append(found, replaced(v, part, restored))
	}
	if part, ok := pigs.part(s, minPig, minPig); ok { // no language ends every second word so
		found = append(found, replaced(v, part, unpig))
	}
	if v.Name == Reversed || v.guessed() && order.all.backward*mostWords+ends(s) < max(sureBackward, words*(len(s)/leastTrimmed)) {
		return found // there are both ways
	}
	if all := order.all; words >= minBackward && all.backward >= all.forward && !v.piece && strings.ContainsAny(strings.TrimSpace(s), " \n\t") {
		b := backward(v, []span{{0, len(s)}})
		b.Rough = all.backward+ends(s) < sureBackward || all.backward < 2*all.forward
		b.Innocent = b.Rough
		found = append(found, b)
	} else if len(order.clauses) > 0 && !v.guessed() {
		found = append(found, backward(v, order.clauses))
	}
	return found
}

// eachWord calls f for every word of ASCII letters, with its hash.
func eachWord(s string, f func(i, j int, h uint32)) {
	for i := 0; i < len(s); {
		if !isLetter(s[i]) {
			i++
			continue
		}
		h, j := terms.Start, i
		for ; j < len(s) && isLetter(s[j]); j++ {
			h = terms.Next(h, terms.Lower(s[j]))
		}
		f(i, j, h)
		i = j
	}
}

// inner is the signature of a word: its ends, its length, and its inner letters
// in any order.
type inner struct {
	first, last byte
	n           int
	sum         uint64
}

func signature(w string) inner {
	k := inner{first: terms.Lower(w[0]), last: terms.Lower(w[len(w)-1]), n: len(w)}
	for i := 1; i+1 < len(w); i++ {
		x := uint64(terms.Lower(w[i])) * 0x9e3779b97f4a7c15
		k.sum += x ^ x>>29
	}
	return k
}

// anagram is the signature of a word all of whose letters may be in any order.
func anagram(w string) inner {
	k := signature(" " + w + " ")
	k.first, k.last = 0, 0
	return k
}

// scrambles are the known words of four letters and more by signature, and those of
// five and more by anagram. One that two of them have is the first's.
var scrambles = sync.OnceValue(func() map[inner]string {
	all := map[inner]string{}
	for _, w := range slices.Backward(usual()) {
		if len(w) >= 4 {
			all[signature(w)] = w
		}
		if len(w) >= minAnagram {
			all[anagram(w)] = w
		}
	}
	return all
})

var vowel, vowels = terms.BytesOf("aeiouAEIOU"), strings.NewReplacer("a", "", "e", "", "i", "", "o", "", "u", "")

// skeletons are known words by what is left of them without their vowels: of those
// that leave the same, the most usual one.
var skeletons = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, w := range slices.Backward(append(strings.Fields("your are is use and"), usual()...)) {
		all[vowels.Replace(w)] = w
	}
	return all
})

// restored is the word of a skeleton, or another form of one, or "".
func restored(bare string) string {
	bare = strings.ToLower(bare)
	if w := skeletons()[bare]; w != "" {
		return w
	}
	for _, form := range [...]struct{ bare, end string }{{"ng", "ing"}, {"ly", "ly"}, {"s", "s"}, {"d", "ed"}} {
		stem, ok := strings.CutSuffix(bare, form.bare)
		if w := skeletons()[stem]; ok && len(stem) >= leastStem && w != "" {
			return w + form.end
		}
	}
	return ""
}

const leastStem = 4 // how many consonants a word has of which there may be other forms

// replaced reads v with other words in the place of those between two places for which
// another gives one.
func replaced(v *View, in span, another func(string) string) View {
	s := v.Text
	b := newBuilder(len(s))
	defer b.free()
	done := 0
	eachWord(s, func(i, j int, _ uint32) {
		w := ""
		if i >= in.start && j <= in.end {
			w = another(s[i:j])
		}
		if w == "" {
			return
		}
		b.copy(s, done, i)
		for k := range len(w) {
			b.byte(w[k], int32(min(i+k, j-1)))
		}
		done = j
	})
	b.copy(s, done, len(s))
	return mapped(Scrambled, b, v)
}

// unpig returns the word that a word of pig Latin stands for, or "". Of one that is
// not known consonants at the end began it, as many as make it most like a word.
func unpig(w string) string {
	if len(w) < 4 || !strings.EqualFold(w[len(w)-2:], "ay") {
		return ""
	}
	stem := strings.ToLower(w[:len(w)-2])
	last := stem[len(stem)-1]
	bare := stem[:len(stem)-1] // of a word that begins with a vowel
	known := len(bare) > 1 && wide().word(bare)
	if last == 'w' && known {
		return bare
	}
	for k := 1; k <= 4 && k < len(stem); k++ {
		if t := stem[len(stem)-k:] + stem[:len(stem)-k]; wide().word(t) {
			return t
		}
	}
	if last == 'w' || last == 'y' && known {
		return bare
	}
	best, most := stem, -1<<31
	for k := len(stem) - 1; k > 0 && len(stem)-k <= 3 && strings.IndexByte("aeiou", stem[k]) < 0; k-- {
		t := stem[k:] + stem[:k]
		if n := sense(t); n > most {
			best, most = t, n
		}
	}
	return best
}
