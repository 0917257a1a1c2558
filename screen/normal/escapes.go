package normal

import (
	"html"
	"strings"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/terms"
)

// unescape resolves percent escapes, character entities and backslash escapes. It appends
// nothing if there are none.
func unescape(found []View, v *View) []View {
	s := v.Text
	b := (*builder)(nil)
	defer func() { b.free() }()
	printed := quoted(s)
	for i := 0; i < len(s); {
		ch, n := escapeAt(s, i, printed)
		if n == 0 {
			end := mayEscape.Find(s, i+1)
			if b != nil {
				b.copy(s, i, end)
			}
			i = end
			continue
		}
		if b == nil {
			b = newBuilder(len(s))
			b.copy(s, 0, i)
		}
		switch {
		case ch < 0: // a soft line break
		case ch <= 0xff && strings.IndexByte("%=\\", s[i]) >= 0 && s[i+1] != 'u' && s[i+1] != 'U':
			b.byte(byte(ch), int32(i)) // one byte of UTF-8
		default:
			b.rune(ch, int32(i))
		}
		i += n
	}
	if b == nil {
		return found
	}
	if !utf8.Valid(b.text) {
		for i, c := range b.text {
			if c >= utf8.RuneSelf {
				b.text[i] = ' '
			}
		}
	}
	return clean(found, mapped(Unescaped, b, v))
}

var mayEscape = terms.BytesOf(`%=&\U`) // the first bytes of escapes

// minQuoted is the number of quoted-printable escapes from which a text is read as such:
// fewer are assignments and equations.
const minQuoted = 3

// quoted reports whether s is quoted-printable (RFC 2045, 6.7).
func quoted(s string) bool {
	n := 0
	for i := strings.IndexByte(s, '='); i >= 0 && i+2 < len(s) && n < minQuoted; i++ {
		if s[i] == '=' && (unhex(s[i+1]) >= 2 && unhex(s[i+2]) >= 0 || s[i+1:i+3] == "\r\n") {
			n++
		}
	}
	return n == minQuoted
}

// clean appends a derived reading, folded unless it is clean ASCII, and the messages in
// its invisible characters.
func clean(found []View, v View) []View {
	if scan(v.Text)&markWide == 0 {
		return append(found, v)
	}
	b, odd := fold(v.Text)
	found = odd.read(found, &v, b)
	folded := mapped(v.Name, b, &v)
	folded.start, folded.end, folded.changed = v.start, v.end, nil
	b.free()
	return append(found, folded)
}

const minPoints = 3 // the number of code points (U+0069) from which a text is read as such

// escapes are the numeric escapes, in the order in which they are tried: beginning, base,
// number of digits, terminator, and whether the terminator is optional. The last two are
// those of CSS.
var escapes = [...]struct {
	begin             string
	base, least, most int
	end               string
	open              bool
}{
	{"&#x", 16, 1, 8, ";", true}, {"&#X", 16, 1, 8, ";", true}, {"&#", 10, 1, 8, ";", true},
	{"%u", 16, 4, 4, "", true}, {"%", 16, 2, 2, "", true}, {"=", 16, 2, 2, "", true}, {"U+", 16, 4, 6, " ", true},
	{`\x`, 16, 2, 2, "", true}, {`\u{`, 16, 1, 6, "}", false}, {`\u`, 16, 4, 4, "", true}, {`\U`, 16, 8, 8, "", true}, {`\U`, 16, 4, 4, "", true},
	{`\`, 8, 3, 3, "", true}, {`\`, 16, 6, 6, " ", true}, {`\`, 16, 2, 5, " ", false},
}

// escapeAt decodes the escape at s[i]: a character, or -1 for a soft line break. printed says
// whether the text is quoted-printable. Length 0 means no escape.
func escapeAt(s string, i int, printed bool) (rune, int) {
	rest := s[i:]
	switch {
	case rest[0] == '&' && !strings.HasPrefix(rest, "&#"):
		return entityAt(s, i)
	case rest[0] == '=' && !printed:
		return 0, 0
	case strings.HasPrefix(rest, "=\n"):
		return -1, len("=\n")
	case strings.HasPrefix(rest, "=\r\n"):
		return -1, len("=\r\n")
	}
	for k := range escapes {
		e := &escapes[k]
		if last := len(e.begin) - 1; last >= len(rest) || rest[last] != e.begin[last] || !strings.HasPrefix(rest, e.begin) {
			continue
		}
		number := rest[len(e.begin):]
		ch, n := rune(0), 0
		for n < min(e.most, len(number)) && uint(unhex(number[n])) < uint(e.base) {
			ch = ch*rune(e.base) + rune(unhex(number[n]))
			n++
		}
		control := ch < ' ' && (ch != '\n' || e.base == 8) && len(e.begin) == 1
		if n < e.least || ch > utf8.MaxRune || e.base == 8 && ch > 0xff || ch <= 0 && rest[0] == '&' || control {
			continue
		}
		if after, ended := strings.CutPrefix(number[n:], e.end); ended || e.open {
			return ch, len(rest) - len(after)
		}
	}
	return 0, 0
}

// entityAt decodes the named entity at s[i].
func entityAt(s string, i int) (rune, int) {
	end := strings.IndexByte(s[i:min(len(s), i+12)], ';')
	if end < 3 {
		return 0, 0
	}
	u := html.UnescapeString(s[i : i+end+1])
	ch, n := utf8.DecodeRuneInString(u)
	if n != len(u) || ch == '&' && u != s[i:i+end+1] && s[i+1] != 'a' {
		return 0, 0
	}
	return ch, end + 1
}

// unhex returns the value of a hexadecimal digit, or -1.
func unhex(c byte) int { return int(codec16.value[c]) }

var emphasis = terms.BytesOf("*~`_")

// strip removes markup inside words: emphasis, and tags and comments between two letters.
func strip(found []View, v *View) []View {
	s := v.Text
	b := newBuilder(len(s))
	defer b.free()
	inside := 0 // pieces of markup removed from words
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case emphasis[c]:
			j := emphasis.End(s, i)
			if i > 0 && j < len(s) && isLetter(s[i-1]) && isLetter(s[j]) {
				if c == '_' {
					b.byte(' ', int32(i))
				} else {
					inside++
				}
			}
			i = j
			continue
		case c == '<':
			if end := tagsEnd(s, i); end > i {
				if i > 0 && end < len(s) && isLetter(s[i-1]) && isLetter(s[end]) {
					inside++
				}
				i = end
				continue
			}
		}
		b.byte(c, int32(i))
		i++
	}
	if inside < 2 {
		return found
	}
	return append(found, mapped(Stripped, b, v))
}

// tagsEnd returns the end of consecutive tags and comments at s[i].
func tagsEnd(s string, i int) int {
	for n := tagLength(s[i:]); n > 0; n = tagLength(s[i:]) {
		i += n
	}
	return i
}

// tagLength returns the length of the tag or comment at the beginning of s, or 0.
func tagLength(s string) int {
	mark, most := ">", 128
	switch {
	case strings.HasPrefix(s, "<!--"):
		mark, most = "-->", 256
	case len(s) < 3 || s[0] != '<' || !isLetter(s[1]) && s[1] != '/':
		return 0
	}
	if k := strings.Index(s[:min(len(s), most)], mark); k > 0 {
		return k + len(mark)
	}
	return 0
}
