package normal

import (
	"strings"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/terms"
)

// spelling is a way to write letters one by one.
type spelling struct {
	least int                                        // the fewest letters of a text
	first terms.Bytes                                // the first bytes of a letter
	next  func(s string, i int) (letter byte, n int) // parses the letter at s[i]; n is its length, 0 for none
	gap   terms.Bytes                                // the bytes that may separate two letters
	meant func(string) bool                          // whether the result is plausible
}

const (
	minAlphabet = 12 // the fewest numbers that are read as letters
	minSpelled  = 5  // the fewest words of a spelling alphabet
	minJoined   = 12 // letters without a gap that may be several words
)

var (
	byNumber = spelling{minAlphabet, digit, byPlace, alnum.Not(), language}
	inMorse  = spelling{minNumbers, beeps, morseLetter, terms.BytesOf(" \n/|,*"), func(s string) bool { return legible(s, 90, 3) }}
	byWord   = spelling{minSpelled, letter, spellingWord, noLetter, func(s string) bool { return strings.TrimSpace(s) != "" }}
)

// spelledOut decodes letters that are written one by one. The most frequent separator
// separates letters; any other separates words.
func spelledOut(found []View, v *View, by *spelling) []View {
	s := v.Text
	var letters []byte
	var gaps []string // before each
	for i := by.first.Find(s, 0); i < len(s); i = by.first.Find(s, i) {
		letters, gaps = letters[:0], gaps[:0]
		end := i
		for at := i; at < len(s); {
			c, n := by.next(s, at)
			if n == 0 {
				break
			}
			letters, gaps = append(letters, c), append(gaps, s[end:at])
			end = at + n
			at = by.gap.End(s, end)
		}
		if len(letters) >= by.least {
			b := spaced(letters, gaps)
			if by.meant(string(b.text)) {
				found = append(found, whole(Encoded, b.text, v, i, end))
			}
			b.free()
		}
		i = max(end, i+1)
	}
	return found
}

// spaced writes letters, with a space where the separator is not the usual one, and
// segments long words.
func spaced(letters []byte, gaps []string) *builder {
	count, usual := map[string]int{}, ""
	for _, gap := range gaps[1:] {
		if count[gap]++; count[gap] > count[usual] {
			usual = gap
		}
	}
	b := newBuilder(len(letters) + len(letters)/4)
	from := 0 // start of the last word
	for k, c := range letters {
		if k > 0 && gaps[k] != usual || c == ' ' {
			if b.part(from); c != ' ' {
				b.byte(' ', 0)
			}
			from = len(b.text)
		}
		b.byte(c, 0)
	}
	b.part(from)
	return b
}

// part segments the letters from an offset on.
func (b *builder) part(from int) {
	if len(b.text)-from >= minJoined {
		segment(b, from)
	}
}

// byPlace parses a number from 1 to 26 as a letter of the alphabet.
func byPlace(s string, i int) (letter byte, n int) {
	if i > 0 && isAlnum(s[i-1]) {
		return 0, 0
	}
	n = alnum.End(s[:min(len(s), i+3)], i) - i
	is, ok := number(s[i:i+n], 10)
	if !ok || is < 1 || is > 26 {
		return 0, 0
	}
	return 'a' - 1 + byte(is), n
}

const maxBeeps = 6 // of one letter, digit or punctuation mark

// morseLetter parses dots and dashes, in any of their characters, as Morse code.
func morseLetter(s string, i int) (letter byte, n int) {
	_, before := utf8.DecodeLastRuneInString(s[:i])
	if _, is := beep(s[i-before:]); is > 0 && before > 0 {
		return 0, 0
	}
	code, beeps := 1, 0
	for bit, size := beep(s[i:]); size > 0; bit, size = beep(s[i+n:]) {
		code, n = code<<1|bit, n+size
		if beeps++; beeps > maxBeeps {
			return 0, 0
		}
	}
	if k := strings.IndexByte(morseLetters, byte(code)); k >= 0 {
		return morsePlain[k], n
	}
	return ' ', n
}

// beep parses a dot (0) or dash (1) at the beginning of s; length 0 means none.
func beep(s string) (bit, n int) {
	if s == "" || !beeps[s[0]] {
		return 0, 0
	}
	c, n := utf8.DecodeRuneInString(s)
	switch {
	case strings.ContainsRune(dots, c):
		return 0, n
	case strings.ContainsRune(dashes, c):
		return 1, n
	}
	return 0, 0
}

var beeps = terms.BytesOf(dots + dashes)

const dots, dashes = ".·•∙⋅・●", "-_−–—▬━"

// Morse codes as bits after a leading 1 (a dash is 1), and their characters.
const (
	morseLetters = "\x05\x18\x1a\x0c\x02\x12\x0e\x10\x04\x17\x0d\x14\x07\x06\x0f\x16\x1d\x0a\x08\x03\x09\x11\x0b\x19\x1b\x1c\x3f\x2f\x27\x23\x21\x20\x30\x38\x3c\x3e\x5e"
	morsePlain   = "abcdefghijklmnopqrstuvwxyz0123456789'"
)

// spellingWords are the words of the ICAO spelling alphabet and of older English ones,
// each of which stands for its first letter. spellingGaps stand for a space.
const (
	spellingWords = `alfa alpha bravo charlie delta echo foxtrot golf hotel india juliett juliet kilo lima mike november oscar papa
quebec romeo sierra tango uniform victor whiskey whisky xray yankee zulu able baker dog easy fox george how item jig king love nan oboe peter
queen roger sugar tare uncle william yoke zebra`
	spellingGaps = "space stop break dash"
)

// spellingWord parses a word of a spelling alphabet.
func spellingWord(s string, i int) (c byte, n int) {
	n = letter.End(s, i) - i
	w := s[i : i+n]
	if x := min(len(s), i+len("x-ray")); n == 1 && strings.EqualFold(w, "x") && strings.HasSuffix(strings.ToLower(s[i+n:x]), "ray") {
		return 'x', x - i
	}
	if c = wide().words.Get(terms.HashWord(w)).letter; c == 0 {
		return 0, 0
	}
	return c, n
}
