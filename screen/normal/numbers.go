package normal

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/terms"
)

var hexDigit = terms.BytesOf(terms.Digits + "abcdefABCDEF")

const minNumbers = 6 // the fewest numbers that are decoded

// groups decodes sequences of at least minNumbers numbers as character codes.
func groups(found []View, v *View) []View {
	s := v.Text
	var list []string
	for i := 0; i < len(s); {
		if !isDigit(s[i]) && (unhex(s[i]) < 0 || i > 0 && isAlnum(s[i-1])) {
			i++
			continue
		}
		list = list[:0]
		j := i
		for j < len(s) {
			k := j
			if strings.HasPrefix(s[k:], "0x") {
				k += 2
			}
			start := k
			k = hexDigit.End(s[:min(len(s), start+9)], start)
			if n := k - start; n < 2 || n > 8 {
				break
			}
			list = append(list, s[start:k])
			j = k
			if k += betweenNumbers(s[k:]); k == j || k == len(s) || unhex(s[k]) < 0 {
				break
			}
			j = k
		}
		if len(list) >= minNumbers {
			sure, guesses := decodeGroups(list)
			if sure != nil {
				found = clean(found, whole(Encoded, sure, v, i, min(j, len(s))))
			}
			for _, t := range guesses {
				found = clean(found, whole(Joined, t, v, i, min(j, len(s))))
			}
			i = max(j, i+1)
			continue
		}
		i = alnum.End(s, max(i+1, j))
	}
	return found
}

const (
	manyNumbers = 24 // this many numbers are hardly all printable by chance
	fewPoints   = 6  // one number in this many may be a code point instead of a byte
)

// decodeGroups decodes a list of numbers in the base in which it is language (sure), or
// else in those in which it is printable (guesses), which may be encoded again.
func decodeGroups(list []string) (sure []byte, guesses [][]byte) {
	var among []byte
	for _, base := range [...]int{2, 16, 10, 8} {
		t, low, points := make([]byte, 0, len(list)), false, 0
		for _, g := range list {
			c, ok := number(g, base)
			if c > 0xff {
				points++
			}
			if !ok || base == 2 && len(g) < 6 || base == 16 && len(g) != 2 || points*fewPoints > len(list) {
				t = nil
				break
			}
			low = low || c < 9
			if c > 0xff {
				t = utf8.AppendRune(t, c)
			} else {
				t = append(t, byte(c))
			}
		}
		if among == nil {
			among = textIn(t)
		}
		switch text := string(t); {
		case t == nil || low || !utf8.Valid(t):
		case base == 2 && printable(t) || language(text) || legible(text, 90, 2) || foreign(text) && printable(t):
			return t, nil
		case len(list) >= manyNumbers && strings.IndexFunc(text, func(c rune) bool { return unicode.IsControl(c) && !unicode.IsSpace(c) }) < 0:
			guesses = append(guesses, t)
		}
	}
	if guesses == nil && among != nil {
		guesses = append(guesses, among)
	}
	return nil, guesses
}

// number parses a character in a base.
func number(s string, base int) (n rune, ok bool) {
	c, err := strconv.ParseUint(s, base, 21)
	return rune(c), err == nil && c <= utf8.MaxRune
}

const maxCall = 32 // the most bytes between the arguments of two calls, as in chr(73)+chr(103)

// betweenNumbers returns the length of the separator between two numbers at the beginning
// of s: punctuation, or the end of one call and the beginning of the next.
func betweenNumbers(s string) int {
	if strings.HasPrefix(s, ")") {
		for n := 1; n < min(len(s), maxCall) && !isDigit(s[n]); n++ {
			if s[n] == '(' {
				return n + 1
			}
		}
		return 0
	}
	return numberGap.End(s[:min(len(s), 3)], 0)
}

var numberGap = terms.BytesOf(" ,;-\n:[]")
