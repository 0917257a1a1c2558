package static

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// wordPiece splits words into the longest pieces that the vocabulary has, from
// the left, as BERT does. A word of which some piece is unknown is left out.
type wordPiece struct {
	vocab   map[string]int
	prefix  string // of a piece that continues a word
	unknown int    // id of the unknown token, -1: none
	lower   bool
	accents bool // strip them
}

func (t *wordPiece) tokens(text string, limit int) []int {
	var ids []int
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 && len(ids) < limit {
			ids = t.pieces(ids, word.String())
		}
		word.Reset()
	}
	for _, r := range text {
		if len(ids) >= limit {
			break
		}
		if t.lower {
			r = unicode.ToLower(r)
		}
		if t.accents {
			if unicode.Is(unicode.Mn, r) {
				continue
			}
			r = plain(r)
		}
		switch {
		case r == 0 || r == utf8.RuneError || unicode.IsControl(r) && !unicode.IsSpace(r) || unicode.Is(unicode.Cf, r):
		case unicode.IsSpace(r):
			flush()
		case alone(r):
			flush()
			word.WriteRune(r)
			flush()
		default:
			if word.Len() < 4*maxWord+4 {
				word.WriteRune(r)
			}
		}
	}
	flush()
	return ids
}

// pieces appends the longest pieces of the vocabulary that make up a word, or
// nothing when some of it is unknown.
func (t *wordPiece) pieces(ids []int, word string) []int {
	if utf8.RuneCountInString(word) > maxWord {
		return ids
	}
	before := len(ids)
	for from := 0; from < len(word); {
		to := len(word)
		id, ok := 0, false
		for to > from {
			piece := word[from:to]
			if from > 0 {
				piece = t.prefix + piece
			}
			if id, ok = t.vocab[piece]; ok {
				break
			}
			_, n := utf8.DecodeLastRuneInString(word[from:to])
			to -= n
		}
		if !ok || id == t.unknown {
			return ids[:before]
		}
		ids = append(ids, id)
		from = to
	}
	return ids
}

// alone reports whether r is a word of its own: a sign, or a character of a
// script without spaces.
func alone(r rune) bool {
	return unicode.IsPunct(r) || r < 128 && unicode.IsSymbol(r) || unicode.Is(unicode.Han, r)
}

// letters without their accents, for the Latin alphabets of Europe. What is
// not here keeps its accent and is most likely unknown, as its word would be.
var plains = func() map[rune]rune {
	m := map[rune]rune{}
	for base, marked := range map[rune]string{
		'a': "àáâãäåāăą", 'c': "çćĉċč", 'd': "ď", 'e': "èéêëēĕėęě", 'g': "ĝğġģ", 'h': "ĥ", 'i': "ìíîïĩīĭį", 'j': "ĵ", 'k': "ķ", 'l': "ĺļľ",
		'n': "ñńņň", 'o': "òóôõöōŏő", 'r': "ŕŗř", 's': "śŝşšș", 't': "ţťț", 'u': "ùúûüũūŭůűų", 'w': "ŵ", 'y': "ýÿŷ", 'z': "źżž",
	} {
		for _, r := range marked {
			m[r] = base
			m[unicode.ToUpper(r)] = unicode.ToUpper(base)
		}
	}
	return m
}()

func plain(r rune) rune {
	if p, ok := plains[r]; ok {
		return p
	}
	return r
}
