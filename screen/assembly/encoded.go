package assembly

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

const minRun = 8 // the shortest encoded stretch that is taken for one

func base64Byte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/' || c == '-' || c == '_' || c == '='
}

// longestRun returns the longest stretch of base64 or hex in s that does not
// read like a word: it mixes cases, or letters and digits.
func longestRun(s string) span {
	var best span
	for i := 0; i < len(s); {
		if !base64Byte(s[i]) {
			i++
			continue
		}
		from := i
		upper, low, digit := false, false, false
		for i < len(s) && base64Byte(s[i]) {
			if s[i] == '=' { // padding, or the end of a name
				for i < len(s) && s[i] == '=' {
					i++
				}
				break
			}
			upper = upper || 'A' <= s[i] && s[i] <= 'Z' && i > from
			low = low || 'a' <= s[i] && s[i] <= 'z'
			digit = digit || '0' <= s[i] && s[i] <= '9'
			i++
		}
		if i-from >= minRun && i-from > best.len() && (upper && low || digit) {
			best = span{from, i}
		}
	}
	return best
}

// encoded joins the encoded stretches of the session when together they are a
// text: hashes and identifiers in consecutive writes are not.
func (j *joiner) encoded() {
	var runs []*piece
	size := 0
	for i := len(j.all) - 1; i >= 0; i-- {
		if p := j.all[i]; p.run.len() > 0 {
			if size += p.run.len(); size > maxLength {
				break
			}
			runs = append(runs, p)
		}
	}
	if len(runs) < 2 || !j.fresh(runs[0]) {
		return
	}
	// From the newest backwards, the longest row that decodes; a stretch in an
	// earlier write that has nothing to do with it spoils only longer rows.
	for n := len(runs); n >= 2; n-- {
		var raw, plain draft
		whole := true
		for i := n - 1; i >= 0; i-- {
			p := runs[i]
			raw.take(p, p.run)
			t, ok := decode(p.body[p.run.from:p.run.to])
			whole = whole && ok
			if whole {
				plain.decoded(p, p.run, t)
			}
		}
		if t, ok := decode(string(raw.text)); ok && len(t) > 0 {
			j.emit(Encoded, &raw)
			return
		}
		if whole { // each encoded by itself, with its own padding
			j.emit(Encoded, &plain)
			return
		}
	}
}

// decode returns what s stands for in hex or base64, if that is text.
func decode(s string) (string, bool) {
	s = strings.TrimRight(s, "=")
	if raw, err := hex.DecodeString(s); err == nil && readable(raw) {
		return string(raw), true
	}
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		cut := len(s)
		if cut%4 == 1 {
			cut-- // the last piece may be yet to come
		}
		if raw, err := e.DecodeString(s[:cut]); err == nil && readable(raw) {
			return string(raw), true
		}
	}
	return "", false
}

// readable reports whether b reads as text: valid UTF-8 but for a character
// cut at the end, nearly all of it letters, digits, spaces and the signs of sentences.
func readable(b []byte) bool {
	for i := 0; i < 3 && len(b) > 0 && !utf8.Valid(b); i++ {
		b = b[:len(b)-1]
	}
	if len(b) < 4 || !utf8.Valid(b) {
		return false
	}
	good, n := 0, 0
	for _, r := range string(b) {
		n++
		if unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || unicode.IsSpace(r) || strings.ContainsRune(".,;:!?'\"@/-_()", r) {
			good++
		}
	}
	return good*10 >= n*9
}
