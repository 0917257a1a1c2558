package similar

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type span struct{ from, to int }

// windows cuts text into stretches of at most size bytes, at the ends of
// sentences where there are any, else between words, else between characters.
// Of a text with more than limit windows, limit are taken, spread evenly, the
// first and the last among them; limit is at least 2.
func windows(text string, size, limit int) []span {
	var out []span
	for from := 0; from < len(text); {
		to := min(len(text), from+size)
		if to < len(text) {
			to = from + cut(text[from:to])
		}
		if strings.ContainsFunc(text[from:to], func(r rune) bool { return !unicode.IsSpace(r) }) {
			out = append(out, span{from, to})
		}
		from = to
	}
	if len(out) <= limit {
		return out
	}
	picked := make([]span, limit)
	for i := range picked {
		picked[i] = out[i*(len(out)-1)/(limit-1)]
	}
	return picked
}

// cut returns where to end a window that fills s: after its last sentence, if
// that leaves a quarter of it; else after its last word; else before a
// character that would be cut.
func cut(s string) int {
	if at := strings.LastIndexAny(s, ".!?\n。！？"); at >= len(s)/4 {
		_, n := utf8.DecodeRuneInString(s[at:])
		return at + n
	}
	if at := strings.LastIndexByte(s, ' '); at >= len(s)/4 {
		return at + 1
	}
	for at := len(s); at > 1 && at > len(s)-utf8.UTFMax; at-- {
		if r, n := utf8.DecodeLastRuneInString(s[:at]); r != utf8.RuneError || n != 1 {
			return at
		}
	}
	return len(s) // not UTF-8 to begin with
}
