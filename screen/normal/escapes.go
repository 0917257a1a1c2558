package normal

import (
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unescape resolves percent escapes, character entities and backslash escapes.
// Nothing is added when nothing was escaped.
func (r *reader) unescape(found []View, v *View) []View {
	s := v.Text
	b := (*builder)(nil)
	printed := quoted(s)
	for i := 0; i < len(s); {
		ch, n := escapeAt(s, i)
		if printed && s[i] == '=' {
			ch, n = quotedAt(s, i)
		}
		if n == 0 {
			if b != nil {
				b.byte(s[i], int32(i))
			}
			i++
			continue
		}
		if b == nil {
			b = newBuilder(len(s))
			for j := 0; j < i; j++ {
				b.byte(s[j], int32(j))
			}
		}
		switch {
		case ch < 0: // the end of a line that goes on
		case s[i] == '%' || s[i] == '=' || s[i] == '\\' && s[i+1] == 'x':
			b.byte(byte(ch), int32(i)) // bytes of UTF-8, one by one
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
	return append(found, r.clean(r.mapped(Unescaped, b, v)))
}

// minQuoted is how many escapes of quoted-printable a text must have to be read
// as such: fewer are sums and assignments.
const minQuoted = 3

// quoted reports whether s has escapes of quoted-printable (RFC 2045, 6.7).
func quoted(s string) bool {
	n := 0
	for {
		i := strings.IndexByte(s, '=')
		if i < 0 {
			return false
		}
		if _, size := quotedAt(s, i); size == 3 {
			if n++; n == minQuoted {
				return true
			}
		}
		s = s[i+1:]
	}
}

// quotedAt decodes the escape that begins with the = at s[i]: a byte, or -1 for
// a line's end that is none. Length 0 means no escape.
func quotedAt(s string, i int) (rune, int) {
	if rest := s[i+1:]; strings.HasPrefix(rest, "\n") {
		return -1, 2
	} else if strings.HasPrefix(rest, "\r\n") {
		return -1, 3
	}
	if i+2 < len(s) {
		if hi, lo := unhex(s[i+1]), unhex(s[i+2]); hi >= 2 && lo >= 0 {
			return rune(hi<<4 | lo), 3
		}
	}
	return 0, 0
}

// clean folds a derived reading that is not clean ASCII.
func (r *reader) clean(v View) View {
	if scan(v.Text)&markWide == 0 {
		return v
	}
	invisible := r.out.Invisible
	f := r.fold(v.Text)
	r.out.Invisible = invisible
	b := &builder{text: []byte(f.Text), at: f.at}
	return r.mapped(v.Name, b, &v)
}

// escapeAt decodes the escape that begins at s[i]; length 0 means none.
func escapeAt(s string, i int) (rune, int) {
	switch s[i] {
	case '%':
		if i+2 < len(s) {
			if hi, lo := unhex(s[i+1]), unhex(s[i+2]); hi >= 0 && lo >= 0 && (hi > 1 || hi == 0 && lo == 10) && hi < 16 {
				return rune(hi<<4 | lo), 3
			}
		}
	case '&':
		return entityAt(s, i)
	case '\\':
		if i+3 < len(s) && s[i+1] == 'x' {
			if hi, lo := unhex(s[i+2]), unhex(s[i+3]); hi >= 0 && lo >= 0 {
				return rune(hi<<4 | lo), 4
			}
		}
		if i+5 < len(s) && (s[i+1] == 'u' || s[i+1] == 'U') {
			j := i + 2
			if s[j] == '{' {
				if k := strings.IndexByte(s[j:min(len(s), j+9)], '}'); k > 1 {
					if c, err := strconv.ParseUint(s[j+1:j+k], 16, 32); err == nil && c <= utf8.MaxRune {
						return rune(c), k + 3
					}
				}
				return 0, 0
			}
			for _, n := range [...]int{8, 4} {
				if n == 8 && s[i+1] == 'u' || j+n > len(s) {
					continue
				}
				if c, err := strconv.ParseUint(s[j:j+n], 16, 32); err == nil && c <= utf8.MaxRune {
					return rune(c), n + 2
				}
			}
		}
		if i+3 < len(s) && s[i+1] >= '0' && s[i+1] <= '3' {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 16); err == nil && c >= 32 {
				return rune(c), 4
			}
		}
	}
	return 0, 0
}

func entityAt(s string, i int) (rune, int) {
	if i+2 >= len(s) {
		return 0, 0
	}
	if s[i+1] == '#' {
		j, base := i+2, 10
		if s[j] == 'x' || s[j] == 'X' {
			j, base = j+1, 16
		}
		k := j
		for k < len(s) && k-j < 8 && (base == 16 && unhex(s[k]) >= 0 || isDigit(s[k])) {
			k++
		}
		c, err := strconv.ParseUint(s[j:k], base, 32)
		if err != nil || c == 0 || c > utf8.MaxRune {
			return 0, 0
		}
		if k < len(s) && s[k] == ';' {
			k++
		}
		return rune(c), k - i
	}
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

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// strip takes out markup that stands inside words: emphasis, and tags and
// comments between two letters.
func (r *reader) strip(found []View, v *View) []View {
	s := v.Text
	b := newBuilder(len(s))
	inside := 0 // pieces taken from within words
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '*' || c == '~' || c == '`' || c == '_':
			j := i
			for j < len(s) && (s[j] == '*' || s[j] == '~' || s[j] == '`' || s[j] == '_') {
				j++
			}
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
			if end := tagsEnd(s, i); end > 0 {
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
	return append(found, r.mapped(Stripped, b, v))
}

// tagsEnd returns the end of the tags and comments that begin at s[i] and
// follow each other, or 0.
func tagsEnd(s string, i int) int {
	end := tagEnd(s, i)
	for next := end; next > 0 && next < len(s) && s[next] == '<'; {
		if next = tagEnd(s, next); next > 0 {
			end = next
		}
	}
	return end
}

// tagEnd returns the end of the tag or comment that begins at s[i], or 0.
func tagEnd(s string, i int) int {
	if strings.HasPrefix(s[i:], "<!--") {
		if k := strings.Index(s[i:min(len(s), i+256)], "-->"); k > 0 {
			return i + k + 3
		}
		return 0
	}
	if i+2 < len(s) && (isLetter(s[i+1]) || s[i+1] == '/') {
		if k := strings.IndexByte(s[i:min(len(s), i+128)], '>'); k > 0 {
			return i + k + 1
		}
	}
	return 0
}
