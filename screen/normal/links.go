package normal

import (
	"bytes"
	"slices"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

const (
	minLinked = 3 // how many words a link must have, besides those that addresses are made of, for these to be read
	seldom    = 3 // how many signs that part words there are for each that is in one
)

// links opens what "://", or other signs in the place of spaces, make one word of:
// the words in an address, in its path, its query and its fragment, are read as
// words, whatever the scheme. The text around them stays, because a sentence may go
// on in the next link. What has names of parameters is read with and without them.
func links(found []View, v *View) []View {
	s := v.Text
	glued := glued(s)
	if !glued && !strings.Contains(s, "://") {
		return found
	}
	b, bare := newBuilder(len(s)), newBuilder(len(s))
	defer b.free()
	defer bare.free()
	copied := func(i, j int) {
		b.copy(s, i, j)
		bare.copy(s, i, j)
	}
	sum, opened, known, words, values := 0, 0, 0, 0, 0
	innocent := !glued // there are but addresses on the web
	chained := false   // nothing but spaces since the last link
	fields(s, func(i, j int, _ bool) {
		for k := i; k > 0 && s[k-1] <= ' '; k-- { // what parts this field from the last
			b.space(s[k-1], k-1)
			bare.space(s[k-1], k-1)
		}
		at := strings.Index(s[i:j], "://")
		if at < 0 && !glued {
			chained = false
			copied(i, j)
			return
		}
		web := false
		if at >= 0 {
			scheme := schemeStart(s, i, i+at)
			web = s[scheme:i+at] == "http" || s[scheme:i+at] == "https"
			copied(i, scheme)
			i += at
			n, in, all, foreign := linkWords(s[i:j])
			if words += n; foreign || in >= minLinked && in*3 >= all || !web && sense(s[i:j]) >= legibleLink {
				known += n
			}
			if sum += n; !chained && web {
				sum = n
			}
			innocent = innocent && web && !(chained && sum > n)
			chained, opened = true, max(opened, sum)
		}
		within := ""
		for k := i; k < j; k++ {
			if k == i || strings.IndexByte(valueSigns, s[k-1]) >= 0 {
				within = inWords(s[k:j])
			}
			c := s[k]
			if strings.IndexByte(within, c) < 0 {
				c = linkByte(s, k, j, web)
			}
			if s[k] == '=' {
				values++
				bare.word()
				bare.space(' ', k)
			} else {
				bare.space(c, k)
			}
			b.space(c, k)
		}
	})
	if !glued && opened < minLinked {
		return found
	}
	rough := known*2 < words && !(glued && language(string(b.text)))
	for _, b := range [...]*builder{b, bare} {
		if b == bare && values < minLinked {
			break
		}
		out := mapped(Linked, b, v)
		out.Rough, out.Innocent = rough, innocent
		found = append(found, out)
	}
	return found
}

// legibleLink is how much the letters of a link follow each other where it has words:
// less than in prose, for what is abbreviated.
const legibleLink = 4

// glued reports texts in which signs stand where spaces should.
func glued(s string) bool {
	spaces, signs := 0, 0
	for i := 1; i+1 < len(s); i++ {
		switch c := s[i]; {
		case c <= ' ':
			spaces++
		case classes[c]&(cLower|cUpper|cDigit|cWide) == 0 && isLetter(s[i-1]) && isLetter(s[i+1]):
			if i > 1 && isLetter(s[i-2]) || i+2 < len(s) && isLetter(s[i+2]) {
				signs++
			}
		}
	}
	return signs >= minLinked && signs > 2*spaces
}

func (b *builder) copy(s string, i, j int) {
	b.text = append(b.text, s[i:j]...)
	n := len(b.at)
	b.at = slices.Grow(b.at, j-i)[:n+j-i]
	for k := range b.at[n:] {
		b.at[n+k] = int32(i + k)
	}
}

// space writes c, but no second space.
func (b *builder) space(c byte, at int) {
	if n := len(b.text); c > ' ' || n == 0 || b.text[n-1] > ' ' {
		b.byte(c, int32(at))
	} else if c == '\n' {
		b.text[n-1] = c
	}
}

// word takes back the letters at the end: a name.
func (b *builder) word() {
	n := len(bytes.TrimRight(b.text, terms.Alnum))
	b.text, b.at = b.text[:n], b.at[:n]
}

// valueSigns stand between the values of a link, and wordSigns between their words.
const valueSigns, wordSigns = "=#?&", "/+-_.@"

// inWords returns the signs that stand in words of the value with which s begins, as
// in an address or a name, because others part them.
func inWords(s string) string {
	s = strings.TrimPrefix(s, "://")
	if end := strings.IndexAny(s, valueSigns); end >= 0 {
		s = s[:end]
	}
	most := 0
	for i := range len(wordSigns) {
		most = max(most, strings.Count(s, wordSigns[i:i+1]))
	}
	return strings.Map(func(c rune) rune {
		if n := strings.Count(s, string(c)); c == '/' || n == 0 || n*seldom > most {
			return -1
		}
		return c
	}, wordSigns)
}

// linkByte is what byte i of a link that goes up to end reads as: a value may be
// a sentence of its own, as are the parts of an address on the web, signs part words, and those that end a clause do so where
// a word follows.
func linkByte(s string, i, end int, web bool) byte {
	switch c := s[i]; c {
	case '=', '#', '?':
		if c == '?' && i+1 < end && strings.IndexByte("+/_-&", s[i+1]) >= 0 {
			return c
		}
		if c != '=' && !web {
			return ' '
		}
		return '\n'
	case '.', ',', ';', ':':
		if c == ':' && strings.HasPrefix(s[i:end], "://") || i+1 < end && strings.IndexByte("+/_-&", s[i+1]) < 0 || i == 0 || !isAlnum(s[i-1]) {
			return ' '
		}
		return c
	case '/', '&', '+', '-', '_', '~', '@', '|', '*', '$', '(', ')', '[', ']', '{', '}':
		return ' '
	default:
		return c
	}
}

// schemeStart is where the scheme begins that ends before end: it is no word of
// what the link says. At the end of a text there is none.
func schemeStart(s string, from, end int) int {
	if end == len(s) {
		return end
	}
	return from + len(strings.TrimRight(s[from:end], terms.Alnum+"+.-"))
}

// linkWords counts the words in the rest of a link that say something, those in scripts
// without spaces by letter; common ones among all of two letters and more; foreign is
// set if there are letters beyond ASCII.
func linkWords(s string) (n, common, all int, foreign bool) {
	for i := range len(s) {
		if s[i] >= 0xc0 {
			n, foreign = n+1, true
		}
	}
	eachWord(s, func(i, j int, h uint32) {
		if j-i < 2 {
			return
		}
		if all++; wide().common(h) {
			common++
		}
		if !addressWords[strings.ToLower(s[i:j])] {
			n++
		}
	})
	return n, common, all, foreign
}

// addressWords are words that most addresses have and that say nothing.
var addressWords = terms.Set("www com org net io dev example html php htm http https github blob main master docs en index id")
