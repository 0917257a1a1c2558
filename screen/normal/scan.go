package normal

import (
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/memproxy/memproxy/screen/terms"
)

// marks says which decoders a text may need. A text without marks has only its plain
// reading, and those derived from its words.
type marks uint16

const (
	markWide    marks = 1 << iota // bytes beyond ASCII, or control characters
	markEscape                    // %, & or \ before something
	markMarkup                    // < or emphasis inside a word
	markRun                       // 16 or more letters and digits in a row, with digits or mixed case
	markGroups                    // groups of digits, or of dots and dashes
	markSpread                    // single letters with separators
	markLeet                      // digits or punctuation inside words
	markCrowded                   // crowded or more letters in a row
	markToken                     // 20 or more bytes without a space, with punctuation
)

const (
	cLower = 1 << iota
	cUpper
	cDigit
	cLeet   // @ $ ! | + in the place of letters
	cEscape // % & \
	cEmph   // * _ ~ ` and tags
	cB64    // + / = - _
	cWide
)

var classes = func() (of [256]uint8) {
	for c := range of {
		switch {
		case c >= 'a' && c <= 'z':
			of[c] = cLower
		case c >= 'A' && c <= 'Z':
			of[c] = cUpper
		case c >= '0' && c <= '9':
			of[c] = cDigit
		case c > '~' || c < ' ' && c != '\t' && c != '\n' && c != '\r':
			of[c] = cWide
		}
	}
	for class, signs := range map[uint8]string{cLeet: "!$@|", cEscape: "%&\\", cEmph: "*<_`~", cB64: "+-/=_"} {
		for i := range len(signs) {
			of[signs[i]] |= class
		}
	}
	return of
}()

func isLetter(c byte) bool { return letter[c] }
func isDigit(c byte) bool  { return digit[c] }
func isAlnum(c byte) bool  { return alnum[c] }

// Sets of bytes.
var (
	letter, digit, alnum = terms.BytesOf(terms.Smalls + terms.Capitals), terms.BytesOf(terms.Digits), terms.BytesOf(terms.Alnum)
	small, capital       = terms.BytesOf(terms.Smalls), terms.BytesOf(terms.Capitals)
	noLetter             = letter.Not()
)

const minToken = 20 // bytes without a space that are no word

func scan(s string) marks {
	var m marks
	run, letters, apart, groups := 0, 0, 0, 0
	token, signs := 0, 0 // since the last space
	var inRun uint8
	for i := 0; i <= len(s); i++ {
		from := i
		for i < len(s) && isLetter(s[i]) {
			inRun |= classes[s[i]]
			i++
		}
		run, letters, token = run+i-from, letters+i-from, token+i-from
		if letters >= crowded {
			m |= markCrowded
		}
		if token >= minToken && signs >= 2 { // both only grow until the next space
			m |= markToken
		}
		c := byte(' ') // a sentinel at the end of the text
		if i < len(s) {
			c = s[i]
		}
		k := classes[c]
		if c <= ' ' {
			token, signs = 0, 0
		} else if token++; k&(cLower|cUpper|cDigit|cWide) == 0 {
			signs++
		}
		// A non-letter: classify what it ends, and what it is.
		if letters == 1 && (i < 2 || !isAlnum(s[i-2])) {
			if apart++; apart == 4 {
				m |= markSpread
			}
		} else if letters > 1 {
			apart = 0
		}
		if k&cDigit != 0 {
			if letters > 0 || (i+1 < len(s) && isLetter(s[i+1])) {
				m |= markLeet
			}
			run++
			inRun |= k
			letters = 0
			continue
		}
		letters = 0
		if k&cB64 != 0 && run > 0 {
			run++
			if inRun == cDigit {
				groups++
			}
			if k&cEmph == 0 {
				continue
			}
		} else if run > 0 {
			if run >= 16 && inRun != cLower && inRun != cUpper {
				m |= markRun
			}
			if inRun == cDigit {
				if groups++; groups >= 6 {
					m |= markGroups
				}
			} else {
				groups = 0
			}
			run, inRun = 0, 0
		}
		switch {
		case k == 0:
			if c == '.' && i+2 < len(s) && (s[i+1] == '-' || s[i+1] == '.' || s[i+1] == ' ') && (s[i+2] == '-' || s[i+2] == '.') {
				m |= markGroups
			}
		case k&cWide != 0:
			m |= markWide
		case k&cEscape != 0:
			if i+2 < len(s) {
				m |= markEscape
			}
		case k&cLeet != 0:
			if i+1 < len(s) && isLetter(s[i+1]) {
				m |= markLeet
			}
		case k&cEmph != 0:
			if c == '<' || i > 0 && i+1 < len(s) && (isLetter(s[i-1]) || isLetter(s[i+1])) {
				m |= markMarkup
			}
		}
	}
	if len(s) >= crowded && spaceless(s) {
		m |= markCrowded
	}
	return m
}

const minHex = 8 // hexadecimal digits that are no word

// Identifier returns the length of the UUID (RFC 9562) or hexadecimal number at the
// beginning of a text, or 0. It is treated as a number: its spelling is no evidence.
func Identifier(text string) int {
	n := hexDigit.End(text, 0)
	switch {
	case n < minHex, n < len(text) && (isLetter(text[n]) || text[n] >= utf8.RuneSelf): // part of a longer word
		return 0
	case n == 8 && isUUID(text):
		return uuidBytes
	case !digit.AnyIn(text[:n]), digit.End(text, 0) == n:
		return 0
	}
	return n
}

const uuidBytes = 36

func isUUID(text string) bool {
	return len(text) >= uuidBytes && text[8] == '-' && uuid.Validate(text[:uuidBytes]) == nil && (len(text) == uuidBytes || !isLetter(text[uuidBytes]) && text[uuidBytes] < utf8.RuneSelf)
}
