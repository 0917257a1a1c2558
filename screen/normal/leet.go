package normal

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

// leetLetters maps a byte to the letters that it may stand for in a word, the likeliest
// first.
var leetLetters = [256]string{
	'0': "o", '1': "il", '!': "il", '|': "li", '3': "e", '4': "a", '@': "a", '5': "s", '$': "s", '6': "gb", '9': "gq", '7': "tl",
	'+': "t", '8': "b", '2': "z", '(': "c", '<': "c", '#': "h",
}

// drawing is a letter that is drawn with several characters.
type drawing struct{ sign, letter string }

// drawings has those that begin with each character, the longest first.
var drawings = func() (by [256][]drawing) {
	for _, d := range [...]drawing{
		{`/\/\`, "m"}, {`\/\/`, "w"}, {"|v|", "m"}, {"|V|", "m"}, {"(_)", "u"}, {"|_|", "u"}, {`|\|`, "n"}, {`/\/`, "n"}, {"|-|", "h"}, {"]-[", "h"},
		{`/\`, "a"}, {`\/`, "v"}, {"|<", "k"}, {"|{", "k"}, {"()", "o"}, {"[]", "o"}, {"|)", "d"}, {"|]", "d"}, {"|3", "b"}, {"|_", "l"}, {"|=", "f"},
		{"|2", "r"}, {"|>", "p"}, {"_|", "j"}, {"><", "x"},
	} {
		by[d.sign[0]] = append(by[d.sign[0]], d)
	}
	return by
}()

// glyph is one position of a leetspeak word: the letters that it may be, and its span.
type glyph struct {
	may      string
	from, to int
}

// leet appends the reading of v with digits and punctuation as letters, if that gives
// known words.
func leet(found []View, v *View) []View {
	s := v.Text
	b := newBuilder(len(s))
	defer b.free()
	known, tried := 0, 0
	g := guesser{s: s, left: maxReadingGuesses}
	passed := 0 // signs from which no word began, since the last letter or space
	var word []glyph
	for i := 0; i < len(s); {
		j, letters, digits := letter.End(s, i), 0, 0
		sign := leads[s[i]]
		if passed == maxPassed && sign {
			j = leads.End(s, i)
			b.copy(s, i, j)
			i = j
			continue
		} else if s[i] <= ' ' || isAlnum(s[i]) {
			passed = 0
		}
		if j > i && (j == len(s) || leetLetters[s[j]] == "" && drawings[s[j]] == nil) { // most words have no such character
			b.copy(s, i, j)
			i = j
			continue
		}
		j = i
		word = word[:0]
		for j < len(s) && s[j] > ' ' && (!sign || len(word) <= maxLeet) {
			is := glyphAt(s, j)
			if is.may == "" {
				break
			}
			if is.to > j+1 || isLetter(s[j]) {
				letters++
			}
			if is.to > j+1 || !isLetter(s[j]) {
				digits++
			}
			j = is.to
			if len(word) <= maxLeet {
				word = append(word, is)
			}
		}
		n, ok, end := len(word), false, j // end: of the glyphs that are kept
		if n > maxLeet {
			n, end = 0, word[n-1].to
		} else if n == 1 && s[i] == '1' && contracted(s[j:]) > 0 {
			ok = true // I'm
		} else if digits > 0 {
			if best := g.guess(i, j); len(best) > 0 {
				word, n, ok, end = append(word[:0], best...), len(best), true, best[len(best)-1].to
				j = max(j, end)
			}
		}
		for !ok && n > 0 && strings.IndexByte("!|+(<#", s[word[n-1].from]) >= 0 && word[n-1].to-word[n-1].from == 1 {
			n--
		}
		if len(word) == 0 || !ok && sign {
			b.byte(s[i], int32(i)) // punctuation before a word, or alone
			i++
			if sign {
				passed++
			}
			continue
		}
		if digits > 0 && letters > 0 {
			tried++
		}
		if ok && letters > 0 && slices.ContainsFunc(word[:n], func(g glyph) bool { return !isLetter(s[g.from]) }) {
			known++
			if len(word) >= 5 {
				known++
			}
		}
		for k, g := range word {
			if k >= n || digits == 0 || letters == 0 && !ok {
				b.copy(s, g.from, g.to)
			} else {
				b.byte(g.may[0], int32(g.from))
			}
		}
		b.copy(s, end, j)
		i = j
	}
	if known < 2 || known < sureLeet && known*3 < tried {
		return found
	}
	return append(found, mapped(Leet, b, v))
}

var leads = terms.BytesOf("(<#+|[") // signs that may precede a word

const maxPassed = 3 // the most signs at each of which a word may begin

const (
	maxLeet    = 24  // the longest word of leetspeak
	maxGuesses = 256 // bounds the letters that are tried for a word

	// maxReadingGuesses bounds those for all words of a reading, after which a word has one
	// in sixteen.
	maxReadingGuesses = 4 << 10
	sureLeet          = 8 // this many leetspeak words suffice regardless of the rest
)

// guesser chooses letters for s[:end] from a position on, so that they are the most usual word.
type guesser struct {
	s                string
	end, tries, cost int
	left             int     // the tries that are left for the reading
	word, known      []glyph // the letters so far, and those of the best word, of a cost
}

// glyphAt returns the glyph at s[i], without letters if it is none.
func glyphAt(s string, i int) glyph {
	for _, d := range drawings[s[i]] {
		if strings.HasPrefix(s[i:], d.sign) {
			return glyph{d.letter, i, i + len(d.sign)}
		}
	}
	switch {
	case isLetter(s[i]):
		return glyph{s[i : i+1], i, i + 1}
	case s[i] == '(' || s[i] == '<': // no letter if it is closed in the same word
		if end := closing.Find(s[:min(len(s), i+2*maxLeet)], i); end < len(s) && closing[s[end]] && s[end] > ' ' {
			return glyph{"", i, i + 1}
		}
	}
	return glyph{leetLetters[s[i]], i, i + 1}
}

var closing = terms.BytesOf(")> \n")

// guess returns the letters of the most usual word that the characters from i to j may be, or
// more of them if it is drawn, with or without punctuation at its end; none if there is no
// such word. They are valid until the next call.
func (g *guesser) guess(i, j int) []glyph {
	g.known = g.known[:0]
	g.tries = min(maxGuesses, max(maxGuesses/16, g.left))
	g.left -= g.tries
	for end := inLeet.End(g.s[:min(len(g.s), i+2*maxLeet)], j); ; end = j {
		for g.end = end; g.end > i && len(g.known) == 0; g.end-- {
			g.word = g.word[:0]
			if g.from(i, terms.HashSeed); isAlnum(g.s[g.end-1]) {
				break
			}
		}
		if len(g.known) > 0 || end == j {
			g.left += max(0, g.tries)
			return g.known
		}
	}
}

var inLeet = terms.BytesOf(terms.Alnum + "!|@$+(<#/\\)[]_>") // the characters of leetspeak

// from searches the letters from i on, after those with a hash (backtracking).
func (g *guesser) from(i int, h uint32) {
	n, vocab := len(g.word), wide()
	if g.tries--; g.tries < 0 || n > maxWord {
		return
	}
	if i == g.end {
		if is := vocab.words.Get(h); is.cost != 0 && (n > 3 || is.list < others) && (len(g.known) == 0 || int(is.cost) < g.cost) {
			g.known, g.cost = append(g.known[:0], g.word...), int(is.cost)
		}
		return
	}
	next := func(letter string, size int) {
		g.word = append(g.word[:n], glyph{letter, i, i + size})
		g.from(i+size, terms.HashByte(h, terms.Lower(letter[0])))
	}
	for _, d := range drawings[g.s[i]] {
		if strings.HasPrefix(g.s[i:g.end], d.sign) {
			next(d.letter, len(d.sign))
		}
	}
	for _, may := range [...]string{g.s[i : i+1], leetLetters[g.s[i]]} {
		for k := 0; k < len(may) && isLetter(may[k]); k++ {
			next(may[k:k+1], 1)
		}
	}
}
