package assembly

import (
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// split returns the spans of the words of s: letters, digits, marks,
// apostrophes and underscores.
func split(s string) []span {
	return slices.AppendSeq(make([]span, 0, len(s)/wordBytes+1), runs(s, &inWords, func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '’'
	}))
}

// ascii says of each character of ASCII whether a stretch goes on with it.
type ascii [utf8.RuneSelf]bool

var inWords = asciiOf(func(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '\'' || c == '_'
})

func asciiOf(in func(byte) bool) (a ascii) {
	for c := range a {
		a[c] = in(byte(c))
	}
	return a
}

// wordBytes is about how many bytes of a text there are for each of its words.
const wordBytes = 6

// runs yields the longest stretches of s of whose characters plain holds, or in
// where they are not of ASCII.
func runs(s string, plain *ascii, in func(rune) bool) iter.Seq[span] {
	return func(yield func(span) bool) {
		from := -1
		for i, r := range s {
			switch is := r < utf8.RuneSelf && plain[r] || r >= utf8.RuneSelf && in(r); {
			case is && from < 0:
				from = i
			case !is && from >= 0:
				if !yield(span{from, i}) {
					return
				}
				from = -1
			}
		}
		if from >= 0 {
			yield(span{from, len(s)})
		}
	}
}

// inside returns the words within p.
func inside(words []span, p span) []span {
	from, _ := slices.BinarySearchFunc(words, p.from, func(w span, at int) int { return w.from - at })
	to, _ := slices.BinarySearchFunc(words, p.to, func(w span, at int) int { return w.to - at - 1 })
	return words[from:max(from, to)]
}

// fold returns word i of s in lower case, or "".
func fold(s string, words []span, i int) string {
	if i < 0 || i >= len(words) {
		return ""
	}
	return strings.ToLower(s[words[i].from:words[i].to])
}

func trim(s string, p span) span {
	t := s[p.from:p.to]
	p.from += len(t) - len(strings.TrimLeftFunc(t, unicode.IsSpace))
	p.to -= len(t) - len(strings.TrimRightFunc(t, unicode.IsSpace))
	if p.from > p.to {
		p.from = p.to
	}
	return p
}

func ends(r rune) bool {
	switch r {
	case '.', '!', '?', '…', '。', '！', '？', '؟', '।', '\n':
		return true
	}
	return false
}

// sentences returns the spans of the sentences of s, with their ends. A sign
// inside a word (3.14, example.com, ?q=) ends nothing.
func sentences(s string) []span {
	var out []span
	from := 0
	for next := 0; next < len(s); {
		r, n := utf8.DecodeRuneInString(s[next:])
		next += n
		if !ends(r) || r < 128 && r != '\n' && next < len(s) && s[next] != ' ' && s[next] != '\n' {
			continue
		}
		if p := trim(s, span{from, next}); p.len() > 0 {
			out = append(out, p)
		}
		from = next
	}
	if p := trim(s, span{from, len(s)}); p.len() > 0 {
		out = append(out, p)
	}
	return out
}
