package terms

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// EndMarks are the characters that end a sentence, and ClauseMarks those that end a clause.
const EndMarks, ClauseMarks = ".!?…。！？؟।\n", EndMarks + ";"

// Sentences yields the offsets of the sentences of s, each with its end mark and without
// white space around it. An ASCII mark ends a sentence before one of the characters in
// after, and not inside of a word (3.14, example.com, ?q=). A sentence of more than most
// bytes ends between two words.
func Sentences(s, marks, after string, most int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		from := 0
		for next := 0; next < len(s); {
			r, n := rune(s[next]), 1
			if r >= utf8.RuneSelf {
				r, n = utf8.DecodeRuneInString(s[next:])
			}
			next += n
			switch {
			case next == len(s):
			case r < utf8.RuneSelf && !mayEnd[r] && next-from <= most:
				continue // most bytes
			case strings.ContainsRune(marks, r) && (r >= utf8.RuneSelf || r == '\n' || strings.IndexByte(after, s[next]) >= 0):
			case next-from > most && unicode.IsSpace(r):
			default:
				continue
			}
			end := from + len(strings.TrimRightFunc(s[from:next], unicode.IsSpace))
			if t := strings.TrimLeftFunc(s[from:end], unicode.IsSpace); t != "" && !yield(end-len(t), end) {
				return
			}
			from = next
		}
	}
}

var mayEnd = BytesOf(".!?\n;")
