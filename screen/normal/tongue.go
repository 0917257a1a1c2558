package normal

import (
	"math"
	"sync"
)

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
			p[c] = lower(byte(c)) - 'a'
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
