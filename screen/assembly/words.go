package assembly

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/terms"
)

// word is a word of a text: letters, digits, marks, apostrophes and underscores.
type word struct {
	span
	in list // the lists that have it
}

// list is a set of lists of words. A word is looked up once, for all of them.
type list uint8

const (
	conditional list = 1 << iota // begins a condition
	referring                    // points at what is kept elsewhere
	leading                      // stands before an instruction
	acting                       // begins one
	running                      // stands before what is run
	meaning                      // stands between a name and its meaning
	dangling                     // no sentence stops there
	cueing                       // says something of a piece of a secret, or has parts that may
)

var lists = func() (all terms.Table[list]) {
	add := func(to list, words iter.Seq[string]) {
		for w := range words {
			*all.At(hash(w)) |= to
		}
	}
	for to, words := range map[list]string{
		conditional: condWords, referring: refers, leading: "then please just you must should and", acting: actionWords,
		running: runWords, meaning: meansWords, dangling: dangles,
	} {
		add(to, strings.FieldsSeq(words))
	}
	add(cueing, maps.Keys(cues))
	return all
}()

// hash is that of a word in lower case.
func hash(w string) uint32 {
	h := terms.Start
	for i := range len(w) {
		c := w[i]
		if c >= utf8.RuneSelf {
			return hashLower(strings.ToLower(w))
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		h = terms.Next(h, c)
	}
	return h
}

func hashLower(w string) uint32 {
	h := terms.Start
	for i := range len(w) {
		h = terms.Next(h, w[i])
	}
	return h
}

// split returns the words of s.
func split(s string) []word {
	words := make([]word, 0, len(s)/wordBytes+1)
	for i := 0; i < len(s); {
		from, h, plain, more := i, terms.Start, true, false
		for i < len(s) {
			if c := s[i]; c < utf8.RuneSelf {
				if !inWords[c] {
					break
				}
				if 'A' <= c && c <= 'Z' {
					c += 'a' - 'A'
				}
				h, more = terms.Next(h, c), more || c == '_'
				i++
				continue
			}
			r, n := utf8.DecodeRuneInString(s[i:])
			if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '’' {
				break
			}
			plain = false
			i += n
		}
		if i == from {
			_, n := utf8.DecodeRuneInString(s[i:])
			i += n
			continue
		}
		w := word{span: span{from, i}}
		if !plain {
			h = hash(s[from:i])
		}
		if w.in, _ = lists.Get(h); more {
			w.in |= cueing
		}
		words = append(words, w)
	}
	return words
}

// bytes says of each byte whether a stretch goes on with it.
type bytes [256]bool

var inWords = bytesOf(func(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '\'' || c == '_'
})

func bytesOf(in func(byte) bool) (b bytes) {
	for c := range b {
		b[c] = in(byte(c))
	}
	return b
}

// wordBytes is about how many bytes of a text there are for each of its words.
const wordBytes = 6

// next returns the first of the longest stretches of s from i on, or an empty one.
func (b *bytes) next(s string, i int) span {
	for i < len(s) && !b[s[i]] {
		i++
	}
	from := i
	for i < len(s) && b[s[i]] {
		i++
	}
	return span{from, i}
}

// any reports whether s has one of the bytes.
func (b *bytes) any(s string) bool {
	for i := range len(s) {
		if b[s[i]] {
			return true
		}
	}
	return false
}

var digits, joints = bytesOf(func(c byte) bool { return '0' <= c && c <= '9' }), bytesOf(func(c byte) bool { return c == '_' || c == '-' })

// inside returns the words within p.
func inside(words []word, p span) []word {
	from, _ := slices.BinarySearchFunc(words, p.from, func(w word, at int) int { return w.from - at })
	to, _ := slices.BinarySearchFunc(words, p.to, func(w word, at int) int { return w.to - at - 1 })
	return words[from:max(from, to)]
}

// fold returns word i of s in lower case, or "".
func fold(s string, words []word, i int) string {
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
	out := make([]span, 0, 8)
	from := 0
	for next := 0; next < len(s); {
		r, n := rune(s[next]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(s[next:])
		}
		next += n
		if !ends(r) || r < utf8.RuneSelf && r != '\n' && next < len(s) && s[next] != ' ' && s[next] != '\n' {
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
