package normal

import (
	_ "embed"
	"strings"
	"sync"

	"math"

	"github.com/memproxy/memproxy/screen/terms"
)

// common are words by which a decoding is recognised as language: the most
// frequent words of English, and the words of instructions.
//
//go:embed common.txt
var common string

// shared are words that many sources of texts share, the most shared first
// (go run ./bench/screen -words): by which words are told where nothing parts
// them, or their letters are out of order.
//
//go:embed words.txt
var shared string

// usual are all of these words, the most usual first.
func usual() []string { return strings.Fields(common + " " + shared) }

// vocabulary is what is known of words, by hash. The table is small and quick, and wrong
// on about one strange word in a million.
type vocabulary struct {
	words  terms.Table[known]
	begins [27*27*27/64 + 1]uint64 // with which three letters words begin, a bit each
}

// known is what is known of a word.
type known struct {
	// cost is how surprising it is where any word may stand, by its rank, in sixteenths of
	// a bit, or 0 where it is in no list.
	cost   int16
	common bool // it is one of the words by which a decoding is recognised
	letter byte // for which it stands in a spelling alphabet
	small  byte // the kind of a small word
}

// The frequency of words falls with their rank (Zipf): nearRank ranks have much the
// same, and rankCost is what the first of them costs less than their logarithm says.
const nearRank, rankCost = 8, 43

const beginning = 3 // how many letters tell whether any word begins so

// three is the place of the first letters of w among all.
func three(w string) int {
	return (int(places[w[0]])*27+int(places[w[1]]))*27 + int(places[w[2]])
}

// wide returns the vocabulary, made when it is first asked for and read-only from then
// on. Words are ranked in their list, which has the most usual first.
var wide = sync.OnceValue(func() *vocabulary {
	v := &vocabulary{}
	for list, words := range [...]string{common, shared} {
		for rank, w := range strings.Fields(words) {
			is, cost := v.words.At(terms.Word(w)), int16(16*math.Log2(float64(rank+nearRank)))+rankCost
			if is.cost == 0 || cost < is.cost {
				is.cost = cost
			}
			is.common = is.common || list == 0
			if len(w) >= beginning {
				v.begins[three(w)/64] |= 1 << (three(w) % 64)
			}
		}
	}
	for _, w := range strings.Fields(spellingWords) {
		v.words.At(terms.Word(w)).letter = w[0]
	}
	for _, w := range strings.Fields(spellingGaps) {
		v.words.At(terms.Word(w)).letter = ' '
	}
	for kind, words := range smallWords {
		for _, w := range strings.Fields(words) {
			v.words.At(terms.Word(w)).small = kind
		}
	}
	return v
})

func (v *vocabulary) has(h uint32) bool {
	w, _ := v.words.Get(h)
	return w.cost != 0
}

// word reports whether s, in whatever case, is in the vocabulary.
func (v *vocabulary) word(s string) bool { return v.has(terms.Word(s)) }

// common reports whether the word with a hash is a common one.
func (v *vocabulary) common(h uint32) bool {
	w, _ := v.words.Get(h)
	return w.common
}

// letterPairs says how much likelier one letter follows another in words than by
// chance, in sixteenths of a bit: 26 is what parts words. It knows language by its
// letters where no list has its words, in most languages that are written in Latin.
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

const apart = 26 // the place of what is no letter

// places are those of bytes in the alphabet.
var places = func() (p [256]byte) {
	for c := range p {
		if p[c] = apart; isLetter(byte(c)) {
			p[c] = terms.Lower(byte(c)) - 'a'
		}
	}
	return p
}()

const (
	// fluent is how much letters follow each other, on average, in language: all
	// but one in twenty of its stretches have more.
	fluent = 7
	better = 6 // how much more they do so under the right cipher
)

// sense is how much the letters of s follow each other as in words, on average.
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

const minLanguage = 6 // how many letters tell language from chance

// language reports texts whose letters follow each other as in words and are most of it.
func language(s string) bool { return legible(s, 70, fluent) }

// legible reports texts of whose signs so many percent are letters, which follow each
// other so much as in words.
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

// foreign reports texts that are mostly in other scripts than Latin, of whose letters
// nothing is known.
func foreign(s string) bool {
	n := 0
	for i := range len(s) {
		if s[i] >= 0x80 {
			n++
		}
	}
	return n*2 > len(s)
}
