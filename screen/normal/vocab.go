package normal

import (
	_ "embed"
	"math"
	"strings"
	"sync"

	"github.com/memproxy/memproxy/screen/terms"
)

// common has the words by which decoded text is recognised as language: the most frequent
// English words, and words of instructions.
//
//go:embed common.txt
var common string

// shared has words that many sources of texts share, the most shared first, and more has
// further ones, then, after an empty line, those of other languages and of commands (go run
// ./bench/screen -words). They are for recognising words without spaces, or with mixed
// letters.
//
//go:embed words.txt
var shared string

//go:embed more.txt
var more string

// vocabulary has the known words by hash. The table is small and fast, and wrong for
// about one unknown word in a million (hash collisions).
type vocabulary struct {
	words  terms.Table[known]
	begins [27*27*27/64 + 1]uint64 // bit set of the first three letters of words
}

// known is the entry of a word.
type known struct {
	// cost is the word's information content by its rank, in sixteenths of a bit, or 0
	// for a word that is in no list.
	cost   int16
	list   byte // 0: none; 1: common; 2: shared or the English part of more; others
	letter byte // the letter that it means in a spelling alphabet
	small  byte // its kind in smallWords
}

// The frequency of words falls with their rank (Zipf's law): the first nearRank ranks
// cost about the same, and rankCost is an offset of the logarithm. Words of the list others
// cost foreignCost more.
const nearRank, rankCost, others, foreignCost = 8, 43, 3, 16 * 3

const beginning = 3 // length of the beginnings in vocabulary.begins

// three returns the index of the first three letters of w in vocabulary.begins.
func three(w string) int {
	return (int(places[w[0]])*27+int(places[w[1]]))*27 + int(places[w[2]])
}

// wide returns the vocabulary. It is built once, and read-only.
var wide = sync.OnceValue(func() *vocabulary {
	v := &vocabulary{}
	english, foreign, _ := strings.Cut(more, "\n\n")
	for list, words := range [...]string{common, shared + english, foreign} {
		for rank, w := range strings.Fields(words) {
			is, cost := v.words.At(terms.HashWord(w)), int16(16*math.Log2(float64(rank+nearRank)))+rankCost
			if is.list == 0 {
				is.list, is.cost = byte(list+1), cost+int16(list/2*foreignCost)
			}
			is.cost = min(is.cost, cost+int16(list/2*foreignCost))
			if len(w) >= beginning {
				v.begins[three(w)/64] |= 1 << (three(w) % 64)
			}
		}
	}
	for _, w := range strings.Fields(spellingWords) {
		v.words.At(terms.HashWord(w)).letter = w[0]
	}
	for _, w := range strings.Fields(spellingGaps) {
		v.words.At(terms.HashWord(w)).letter = ' '
	}
	for kind, words := range smallWords {
		for _, w := range strings.Fields(words) {
			v.words.At(terms.HashWord(w)).small = kind
		}
	}
	return v
})

func (v *vocabulary) has(h uint32) bool { return v.words.Get(h).cost != 0 }

// word reports whether s is in the vocabulary, in any case.
func (v *vocabulary) word(s string) bool { return v.has(terms.HashWord(s)) }

// common reports whether the word with a hash is a common one.
func (v *vocabulary) common(h uint32) bool { return v.words.Get(h).list == 1 }

// letterPairs is a character bigram model: for each pair, the log-likelihood ratio of the
// second letter following the first in words against chance, in sixteenths of a bit.
// Index 26 is the word boundary. It recognises language for which there is no word list,
// in most languages in Latin script.
type letterPairs [27][27]int16

var pairs = sync.OnceValue(func() *letterPairs {
	var n [27][27]float64
	var sum [27]float64
	count := func(words string, weight float64) {
		last := byte(apart)
		for i := range len(words) {
			c := places[words[i]]
			if c != apart || last != apart {
				n[last][c] += weight
				sum[last] += weight
			}
			last = c
		}
	}
	count(common, 4)
	count(shared, 1)
	var p letterPairs
	for a := range p {
		for b := range p[a] {
			p[a][b] = int16(16 * math.Log2((n[a][b]+1)/(sum[a]+27)*27))
		}
	}
	return &p
})

const apart = 26 // index of any byte that is no letter

// places maps each byte to its index in the alphabet.
var places = func() (p [256]byte) {
	for c := range p {
		p[c] = apart
		if isLetter(byte(c)) {
			p[c] = terms.Lower(byte(c)) - 'a'
		}
	}
	return p
}()

const (
	// fluent is the average bigram score of language: all but one in twenty windows of
	// prose score higher.
	fluent = 7
	better = 6 // the minimum gain in score under the right cipher
)

// sense returns the average bigram score of s.
func sense(s string) int {
	p := pairs()
	sum, n, last := 0, 0, byte(apart)
	for i := range len(s) {
		c := places[s[i]]
		if c == apart && last == apart {
			continue
		}
		sum += int(p[last][c])
		n++
		last = c
	}
	return sum / max(n, 1)
}

const minLanguage = 6 // the fewest letters that distinguish language from chance

// language reports whether s is mostly letters and its bigram score is that of language.
func language(s string) bool { return legible(s, 70, fluent) }

// legible reports whether at least percent of the visible characters of s are letters,
// and its bigram score is at least least.
func legible(s string, percent, least int) bool {
	letters, signs := 0, 0
	for i := range len(s) {
		if s[i] > ' ' {
			signs++
		}
		if places[s[i]] != apart {
			letters++
		}
	}
	return letters >= minLanguage && letters*100 >= signs*percent && sense(s) >= least
}

// foreign reports whether s is mostly in scripts other than Latin, for which there is no
// model.
func foreign(s string) bool {
	n := 0
	for i := range len(s) {
		if s[i] >= 0x80 {
			n++
		}
	}
	return n*2 > len(s)
}
