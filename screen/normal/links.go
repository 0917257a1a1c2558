package normal

import (
	"bytes"
	"slices"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

const (
	minLinked = 3 // the fewest words of links, besides those of any address, for them to be read
	seldom    = 3 // a character that occurs in a word this much less often than separators is no separator
)

// links appends the reading of v with the words of URLs, of any scheme, as words: those
// in host, path, query and fragment. Text that uses other characters as spaces is read
// alike. The surrounding text stays, because a sentence may continue in the next link. A
// link with parameter names is read with and without them.
func links(found []View, v *View) []View {
	s := v.Text
	glued := glued(s)
	if !glued && !strings.Contains(s, "://") {
		return found
	}
	b := newBuilder(len(s))
	defer b.free()
	var names []span // of parameters, in b
	known, words := 0, 0
	innocent := !glued // only web addresses
	chained := false   // only white space since the last link
	fields(s, func(i, j int, _ bool) {
		for k := i; k > 0 && s[k-1] <= ' '; k-- { // the white space before this field
			b.space(s[k-1], k-1)
		}
		at := strings.Index(s[i:j], "://")
		if at < 0 && !glued {
			chained = false
			b.copy(s, i, j)
			return
		}
		web := false
		if at >= 0 {
			scheme := schemeStart(s, i, i+at)
			web = s[scheme:i+at] == "http" || s[scheme:i+at] == "https"
			b.copy(s, i, scheme)
			i += at
			n, in, all, foreign := linkWords(s[i:j])
			words += n
			if foreign || in >= minLinked && in*3 >= all || !web && sense(s[i:j]) >= legibleLink {
				known += n
			}
			innocent = innocent && web && !chained
			chained = true
		}
		within := ""
		for k := i; k < j; k++ {
			if k == i || valueSigns[s[k-1]] {
				within = inWords(s[k:j])
			}
			c := s[k]
			if strings.IndexByte(within, c) < 0 {
				c = linkByte(s, k, j, web)
			}
			if b.space(c, k); s[k] == '=' {
				name := bytes.TrimRight(b.text[:len(b.text)-1], terms.Alnum)
				names = append(names, span{len(name), len(b.text)})
			}
		}
	})
	if !glued && words < minLinked {
		return found
	}
	rough := known*2 < words && !(glued && language(string(b.text)))
	add := func(b *builder) {
		out := mapped(Linked, b, v)
		out.Noisy, out.Overt = rough, innocent
		found = append(found, out)
	}
	if add(b); len(names) < minLinked {
		return found
	}
	bare := newBuilder(len(b.text)) // without the names
	defer bare.free()
	from := 0
	for _, n := range append(names, span{len(b.text), 0}) {
		to := max(n.start, from) // two signs in a row have one name
		bare.text, bare.at = append(bare.text, b.text[from:to]...), append(bare.at, b.at[from:to]...)
		from = n.end
	}
	add(bare)
	return found
}

// legibleLink is the bigram score from which a link has words: less than that of prose,
// because of abbreviations.
const legibleLink = 4

// glued reports whether a text uses other characters as spaces.
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

// space writes c, but no white space after white space.
func (b *builder) space(c byte, at int) {
	if n := len(b.text); c > ' ' || n == 0 || b.text[n-1] > ' ' {
		b.byte(c, int32(at))
	} else if c == '\n' {
		b.text[n-1] = c
	}
}

var valueSigns = terms.BytesOf("=#?&") // they separate the values of a link

const wordSigns = "/+-_.@" // they separate words

// inWords returns the characters of wordSigns that belong to words in the value at the
// beginning of s, as in an address or a name, because other characters separate its
// words.
func inWords(s string) string {
	s = strings.TrimPrefix(s, "://")
	var count [256]int
	for i := 0; i < len(s) && !valueSigns[s[i]]; i++ {
		count[s[i]]++
	}
	most := 0
	for _, c := range wordSigns {
		most = max(most, count[c])
	}
	in := ""
	for _, c := range wordSigns[1:] { // a slash always separates
		if n := count[c]; n > 0 && n*seldom <= most {
			in += string(c)
		}
	}
	return in
}

// linkByte returns the character that byte i of a link ending at end is read as. A value
// may be a sentence of its own, and so may the parts of a web address; separators become
// spaces; and punctuation is kept where it ends a clause.
func linkByte(s string, i, end int, web bool) byte {
	switch c := s[i]; c {
	case '=', '#', '?':
		if c == '?' && i+1 < end && strings.IndexByte("+/_-&", s[i+1]) >= 0 {
			return c
		}
		if value := valueSigns.Find(s[:end], i+1); c == '=' || web || c == '?' && value < end && s[value] == '=' {
			return '\n'
		}
		return ' '
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

// schemeStart returns the start of the scheme that ends at end, which is no word of the
// link's content. At the end of a text there is none.
func schemeStart(s string, from, end int) int {
	if end == len(s) {
		return end
	}
	return from + len(strings.TrimRight(s[from:end], terms.Alnum+"+.-"))
}

// linkWords counts the words of a link: n are those that say something, letters of
// scripts without spaces included; all are those of two letters or more, and common the
// common ones among them. foreign is set if there are letters beyond ASCII.
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
		all++
		if wide().common(h) {
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
