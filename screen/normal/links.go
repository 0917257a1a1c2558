package normal

import "strings"

// minLinked is how many words a link must have, beside those that addresses are
// made of, for these to be read.
const minLinked = 3

// links opens what "://" makes one word of: the words in an address, in its
// path, its query and its fragment, are read as words, whatever the scheme. The
// text around them stays, because a sentence may go on in the next link.
func (r *reader) links(found []View, v *View) []View {
	s := v.Text
	if !strings.Contains(s, "://") {
		return found
	}
	b := newBuilder(len(s))
	opened, language := 0, false
	for i := 0; i < len(s); {
		at := strings.Index(s[i:], "://")
		if at < 0 {
			at = len(s) - i
		}
		end := i + at
		for scheme := schemeStart(s, i, end); i < scheme; i++ {
			b.byte(s[i], int32(i))
		}
		i = end
		for end < len(s) && s[end] > ' ' {
			end++
		}
		n, known, foreign := linkWords(s[i:end])
		opened, language = max(opened, n), language || foreign || known >= minLinked && known*3 >= n
		for ; i < end; i++ {
			b.byte(linkByte(s, i, end), int32(i))
		}
	}
	if opened < minLinked {
		return found
	}
	out := r.mapped(Linked, b, v)
	out.Rough = !language
	return append(found, out)
}

// linkByte is what byte i of a link that goes up to end reads as: a value may be
// a sentence of its own, signs part words, and those that end a clause do so where
// a word follows.
func linkByte(s string, i, end int) byte {
	switch c := s[i]; c {
	case '=':
		return '\n'
	case '.', ',', ';', ':', '?':
		if i+1 == end || c == ':' && strings.HasPrefix(s[i:end], "://") {
			return ' '
		}
		if strings.IndexByte("+/_-", s[i+1]) >= 0 {
			return c
		}
		return ' '
	case '#', '/', '&', '+', '-', '_', '~', '@', '|', '*', '$', '(', ')', '[', ']', '{', '}':
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
	for end > from && (isAlnum(s[end-1]) || strings.IndexByte("+.-", s[end-1]) >= 0) {
		end--
	}
	return end
}

// linkWords counts the words in the rest of a link, those in scripts without
// spaces by letter, and those of English among them; foreign is set if there are
// letters beyond ASCII.
func linkWords(s string) (n, known int, foreign bool) {
	for i := 0; i < len(s); {
		if s[i] >= 0x80 {
			n, foreign = n+1, true
			for i++; i < len(s) && s[i]&0xc0 == 0x80; i++ {
			}
			continue
		}
		j := i
		for j < len(s) && isLetter(s[j]) {
			j++
		}
		if j-i >= 2 && !addressWord(s[i:j]) {
			n++
			if english().word(s[i:j]) {
				known++
			}
		}
		i = max(j, i+1)
	}
	return n, known, foreign
}

// addressWord reports words that most addresses have and that say nothing.
func addressWord(w string) bool {
	switch strings.ToLower(w) {
	case "www", "com", "org", "net", "io", "dev", "example", "html", "php", "htm", "http", "https", "github", "blob", "main", "master", "docs", "en", "index", "id":
		return true
	}
	return false
}
