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
	in list // the lists that contain it
}

// list is a bit set of word lists. A word is looked up once for all of them.
type list uint8

const (
	conditional list = 1 << iota // begins a condition
	referring                    // refers to something stored elsewhere
	leading                      // may precede an imperative
	acting                       // an imperative
	running                      // precedes a name that is executed
	meaning                      // separates a name from its definition
	dangling                     // cannot end a sentence
	cueing                       // has a cue about a piece of a secret, or has parts that may
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

// hash returns the hash of a word in lower case, in any script.
func hash(w string) uint32 {
	if !terms.ASCII(w) {
		w = strings.ToLower(w)
	}
	return terms.HashWord(w)
}

// split appends the words of s.
func split(words []word, s string) []word {
	for i := 0; i < len(s); {
		from, h, ascii, in := i, terms.HashSeed, true, list(0)
		for i < len(s) {
			if c := s[i]; c < utf8.RuneSelf {
				if !inWord[c] {
					break
				}
				if c == '_' {
					in = cueing
				}
				h = terms.HashByte(h, terms.Lower(c))
				i++
				continue
			}
			r, n := utf8.DecodeRuneInString(s[i:])
			if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '’' {
				break
			}
			ascii = false
			i += n
		}
		if i == from {
			_, n := utf8.DecodeRuneInString(s[i:])
			i += n
			continue
		}
		if !ascii {
			h = hash(s[from:i])
		}
		words = append(words, word{span{from, i}, in | lists.Get(h)})
	}
	return words
}

var (
	digits, joints = terms.BytesOf(terms.Digits), terms.BytesOf("_-")
	inWord         = terms.BytesOf(terms.Alnum + "'_") // of ASCII
)

// inside returns the words within p.
func inside(words []word, p span) []word {
	from, _ := slices.BinarySearchFunc(words, p.from, func(w word, at int) int { return w.from - at })
	to, _ := slices.BinarySearchFunc(words, p.to, func(w word, at int) int { return w.to - at - 1 })
	return words[from:max(from, to)]
}

// fold returns word i of s in lower case, or "" if there is none.
func fold(s string, words []word, i int) string {
	if i < 0 || i >= len(words) {
		return ""
	}
	return strings.ToLower(s[words[i].from:words[i].to])
}

func trim(s string, p span) span {
	t := strings.TrimLeftFunc(s[p.from:p.to], unicode.IsSpace)
	p.from = p.to - len(t)
	p.to = p.from + len(strings.TrimRightFunc(t, unicode.IsSpace))
	return p
}

func ends(r rune) bool { return strings.ContainsRune(terms.EndMarks, r) }

// sentences returns the spans of the sentences of s.
func sentences(s string) []span {
	out := make([]span, 0, 8)
	for from, to := range terms.Sentences(s, terms.EndMarks, " \n", len(s)) {
		out = append(out, span{from, to})
	}
	return out
}
