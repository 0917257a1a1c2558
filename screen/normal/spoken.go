package normal

import (
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

const (
	minScrambled = 3 // fewest words with mixed inner letters
	minAnagram   = 5 // fewest letters of a word whose letters are in any order
	minPig       = 4 // fewest words of pig Latin
	minBare      = 4 // fewest words without vowels; one word in manyBare may have some
	manyBare     = 3
	sureBare     = 6  // fewest of them in a text with other words
	minBackward  = 4  // fewest words of a text in reversed word order
	sureBackward = 1  // evidence that suffices for it
	mostWords    = 30 // the most words per piece of evidence
)

var vowelDigits = terms.BytesOf("0134") // of leetspeak

// spoken appends the readings of texts that a person understands at once and a word list
// does not: with mixed inner letters, without vowels, in a spelling alphabet, in pig
// Latin, and in reversed word order.
func spoken(found []View, v *View) []View {
	s, vocab := v.Text, wide()
	words, scrambled, spelled, longest := 0, 0, 0, 0
	known, strange, mistyped, telling := 0, 0, 0, false
	var pigs, bare dense
	mayErr := v.Name == Plain || v.decoded() // what was guessed has no typing errors
	order := order{text: s}
	eachWord(s, func(i, j int, h uint32) {
		if j-i > 1 {
			words++
			leet := i > 0 && vowelDigits[s[i-1]] || j < len(s) && vowelDigits[s[j]]
			bare.add(!leet && !vowel.AnyIn(s[i:j]), 1, manyBare, i, j)
		}
		is := vocab.words.Get(h)
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
		if j-i >= 4 && scrambled < minScrambled && signature(s[i:j]).of() != "" {
			scrambled++
		}
		if !mayErr {
			return
		}
		if w := typed().of(s[i:j], h); w != "" {
			mistyped++
			telling = telling || vocab.common(terms.HashWord(w))
		}
	})
	order.clause(len(s), len(s))
	if longest >= minSpelled {
		found = spelledOut(found, v, &byWord)
	}
	if scrambled >= minScrambled {
		found = append(found, replaced(v, span{0, len(s)}, func(w string) string {
			if len(w) < 4 || vocab.word(w) {
				return ""
			}
			if other := signature(w).of(); other != "" || len(w) < minAnagram {
				return other
			}
			return anagram(w).of()
		}))
	}
	if (telling || mistyped >= minMistyped && mistyped*oftenMistyped >= words) &&
		2*(strange-mistyped) <= known+mistyped {
		found = append(found, retyped(v))
	}
	if part, ok := bare.part(s, minBare, sureBare); ok { // more than a few abbreviations
		found = append(found, replaced(v, part, restored))
	}
	if part, ok := pigs.part(s, minPig, minPig); ok { // no language has this ending in every second word
		found = append(found, replaced(v, part, unpig))
	}
	if v.Name == Reversed || v.guessed() && order.all.backward*mostWords+ends(s) < max(sureBackward, words*(len(s)/leastTrimmed[0])) {
		return found // v is a reversal of another reading
	}
	if all := order.all; words >= minBackward && all.backward >= all.forward && !v.piece && strings.ContainsAny(strings.TrimSpace(s), " \n\t") {
		b := backward(v, []span{{0, len(s)}})
		b.Noisy = all.backward+ends(s) < sureBackward || all.backward < 2*all.forward
		b.Overt = b.Noisy
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
		h, j := terms.HashSeed, i
		for ; j < len(s) && isLetter(s[j]); j++ {
			h = terms.HashByte(h, terms.Lower(s[j]))
		}
		f(i, j, h)
		i = j
	}
}

// inner is the signature of a word: its first and last letter, its length, and an
// order-independent hash of its inner letters.
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

// anagram returns the signature of a word with all letters in any order.
func anagram(w string) inner {
	k := signature(" " + w + " ")
	k.first, k.last = 0, 0
	return k
}

func (k inner) hash() uint32 {
	return uint32((k.sum + uint64(k.first)<<8 + uint64(k.last)<<16 + uint64(k.n)) * 0x9e3779b97f4a7c15 >> 32)
}

// of returns the most usual word with a signature or anagram, or "".
func (k inner) of() string {
	n := typed()
	if w := n.words[n.mixed.Get(k.hash())]; w != "" && (signature(w) == k || anagram(w) == k) { // no hash collision
		return w
	}
	return ""
}

var vowel, vowels = terms.BytesOf("aeiouAEIOU"), strings.NewReplacer("a", "", "e", "", "i", "", "o", "", "u", "")

// dressed returns the most usual word that bare is without its vowels, or "".
func dressed(bare string) string {
	n := typed()
	if w := n.words[n.bare.Get(terms.HashWord(bare))]; vowels.Replace(w) == bare {
		return w
	}
	return ""
}

// restored returns the word, or inflected form of a word, that bare is without its
// vowels, or "".
func restored(bare string) string {
	bare = strings.ToLower(bare)
	if w := dressed(bare); w != "" {
		return w
	}
	for _, form := range [...]struct{ bare, end string }{{"ng", "ing"}, {"ly", "ly"}, {"s", "s"}, {"d", "ed"}} {
		if stem, ok := strings.CutSuffix(bare, form.bare); ok && len(stem) >= leastStem && dressed(stem) != "" {
			return dressed(stem) + form.end
		}
	}
	return ""
}

const leastStem = 4 // fewest consonants of a word whose inflected forms are recognised

// replaced returns the reading of v with the words in a span replaced by those that
// another returns; "" keeps a word.
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

// unpig returns the word that a word of pig Latin stands for, or "". In an unknown word
// the consonants at the end are moved to the front, as many as give the best bigram
// score.
func unpig(w string) string {
	if len(w) < 4 || !strings.EqualFold(w[len(w)-2:], "ay") {
		return ""
	}
	stem := strings.ToLower(w[:len(w)-2])
	last := stem[len(stem)-1]
	bare := stem[:len(stem)-1] // the candidate for a word that begins with a vowel
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
