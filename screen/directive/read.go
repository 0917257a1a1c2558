package directive

import (
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/normal"
	"github.com/memproxy/memproxy/screen/terms"
)

const (
	kindOther = iota
	kindLower
	kindUpper
	kindDigit
	kindStop // ends a sentence if white space follows
	kindLine
)

// kinds maps each byte to its kind.
var kinds = func() (of [256]uint8) {
	for c := range of {
		switch {
		case c >= 'a' && c <= 'z':
			of[c] = kindLower
		case c >= 'A' && c <= 'Z':
			of[c] = kindUpper
		case c >= '0' && c <= '9':
			of[c] = kindDigit
		case c == '.' || c == '!' || c == '?' || c == ';' || c == ':':
			of[c] = kindStop
		case c == '\n':
			of[c] = kindLine
		}
	}
	return of
}()

const stemBytes = 5 // length of a stem

// Read appends the words of text to dst.
func (v *Vocabulary) Read(dst []Word, text string) []Word {
	flags := FlagSentenceStart | FlagLineStart
	first := len(dst)
	for i := 0; i < len(text); {
		c := text[i]
		k := kinds[c]
		switch {
		case c >= utf8.RuneSelf:
			ch, n := utf8.DecodeRuneInString(text[i:])
			switch {
			case dense(ch):
				h := terms.HashWord(text[i : i+n])
				dst = append(dst, Word{Start: int32(i), End: int32(i + n), Hash: h, Stem: h, Flags: flags | FlagUnspaced})
				v.addConcepts(&dst[len(dst)-1])
				flags = 0
				i += n
				continue
			case unicode.IsLetter(ch) || unicode.IsMark(ch):
			default:
				if ch == '。' || ch == '！' || ch == '？' || ch == '；' || ch == '：' || ch == '।' || ch == '؟' {
					flags |= FlagSentenceStart
				}
				i += n
				continue
			}
		case k == kindOther:
			if c == '@' && len(dst) > first && int(dst[len(dst)-1].End) == i && i+1 < len(text) && kinds[text[i+1]] != kindOther {
				at := &dst[len(dst)-1].Concepts
				*at = at.or(v.email)
			}
			i++
			continue
		case k == kindLine:
			flags |= FlagSentenceStart | FlagLineStart
			i++
			continue
		case k == kindStop:
			if c == ':' && i+2 < len(text) && text[i+1] == '/' && text[i+2] == '/' && len(dst) > first && int(dst[len(dst)-1].End) == i {
				w := &dst[len(dst)-1]
				for i < len(text) && text[i] > ' ' && text[i] != '"' && text[i] != '\'' && text[i] != ')' && text[i] != '>' && text[i] != '`' {
					i++
				}
				w.End = int32(i)
				w.Concepts = w.Concepts.or(v.url)
				continue
			}
			if i+1 == len(text) || text[i+1] <= ' ' || text[i+1] == '"' || text[i+1] >= utf8.RuneSelf {
				flags |= FlagSentenceStart
			}
			i++
			continue
		}
		dst = append(dst, Word{Start: int32(i), Flags: flags})
		w := &dst[len(dst)-1] // a pointer: copying words would take a third of the time
		if n := normal.Identifier(text[i:]); n > 0 {
			w.Hash, w.Stem = 2, 2
			w.Flags |= FlagDigits
			i += n
		} else {
			i = v.word(text, i, w)
		}
		w.End = int32(i)
		if k == kindUpper && flags&FlagSentenceStart == 0 && w.End-w.Start > 1 {
			w.Concepts = w.Concepts.or(v.name)
		}
		flags = 0
		if w.Concepts.meets(v.tld) {
			if w.Start == 0 || text[w.Start-1] != '.' || len(dst) == first+1 || dst[len(dst)-2].End != w.Start-1 {
				w.Concepts = w.Concepts.less(v.tld)
			} else {
				w.Concepts = w.Concepts.or(v.url)
			}
		}
	}
	v.phrases(dst[first:], text)
	return dst
}

// word reads the word that begins at text[i] into w and returns its end.
func (v *Vocabulary) word(text string, i int, w *Word) int {
	h := terms.HashSeed
	lowerSeen, letters, bytes, rest := false, 0, 0, 0 // rest: continuation bytes of the current letter
	var concepts Set
	for ; i < len(text); i++ {
		c := text[i]
		switch k := kinds[c]; {
		case rest > 0:
			rest--
		case k == kindLower:
			lowerSeen = true
			letters++
		case k == kindUpper:
			c += 'a' - 'A'
			letters++
		case k == kindDigit:
		case c == '\'' && bytes > 0 && contracted(text[i+1:]):
			continue // don't is read as dont
		case c < utf8.RuneSelf:
			goto end
		default:
			ch, size := utf8.DecodeRuneInString(text[i:])
			if dense(ch) || !unicode.IsLetter(ch) && !unicode.IsMark(ch) {
				goto end
			}
			lowerSeen = true
			letters += size
			rest = size - 1
		}
		h = terms.HashByte(h, c)
		if bytes++; bytes == stemBytes {
			w.Stem = h
		}
		if bytes >= minPrefix && v.prefixed[h>>6&(1<<12-1)]>>(h&63)&1 != 0 {
			concepts = concepts.or(v.prefixes.Get(h).concepts)
		}
	}
end:
	w.Hash, w.Concepts = h, concepts
	if bytes < stemBytes {
		w.Stem = h
	}
	if letters == 0 {
		w.Flags |= FlagDigits
		if bytes >= 3 {
			w.Concepts = concepts.or(v.numbers)
		}
		w.Hash, w.Stem = 2, 2
	} else if !lowerSeen && letters >= 2 {
		w.Flags |= FlagCapitals
	}
	v.addConcepts(w)
	return i
}

// contracted reports whether the letters after an apostrophe end its word, as in don't
// and you're. After an elision, as in l'utilisateur, another word begins.
func contracted(rest string) bool {
	n := 0
	for n < len(rest) && kinds[rest[n]] == kindLower {
		n++
	}
	return n == 1 || n == 2
}

// addConcepts adds the concepts of the whole word.
func (v *Vocabulary) addConcepts(w *Word) {
	m := v.exact.Get(w.Hash)
	w.Concepts = w.Concepts.or(m.concepts)
	if m.more {
		w.Flags |= starter
	}
}

// phrases adds the concepts of each known phrase to all words of it.
func (v *Vocabulary) phrases(words []Word, text string) {
	for i := range words {
		if words[i].Flags&starter == 0 {
			continue
		}
		h := words[i].Hash
		for j := i + 1; j < len(words) && j-i < v.longest; j++ {
			if words[j].Flags&FlagLineStart != 0 && words[j].Start-words[j-1].End > 1 {
				break
			}
			open := v.opening(h, text[words[j].Start:words[j].End])
			h = joinHash(h, words[j].Hash)
			m := v.exact.Get(h)
			if c := m.concepts.or(open); !c.empty() {
				for k := i; k <= j; k++ {
					words[k].Concepts = words[k].Concepts.or(c)
				}
			}
			if !m.more {
				break
			}
		}
	}
}

// opening returns the concepts of phrases whose first words hash to h and whose last word
// is given by a prefix of word.
func (v *Vocabulary) opening(h uint32, word string) (found Set) {
	if v.openings[h>>6&(1<<12-1)]>>(h&63)&1 == 0 {
		return found
	}
	p := terms.HashSeed
	for i := 0; i < len(word) && i < maxPrefix; i++ {
		p = terms.HashByte(p, terms.Lower(word[i]))
		if i >= 2 {
			found = found.or(v.exact.Get(joinHash(h, p^prefixSalt)).concepts)
		}
	}
	return found
}

const maxPrefix = 24 // the longest prefix of a word that is looked up in phrases

// dense reports whether a character is of a script without spaces between words.
func dense(ch rune) bool {
	return ch >= 0x3040 && ch <= 0x30ff || ch >= 0x3400 && ch <= 0x9fff || ch >= 0xf900 && ch <= 0xfaff || ch >= 0x20000 && ch <= 0x3ffff ||
		ch >= 0x0e00 && ch <= 0x0e7f
}
