package normal

import "unicode/utf8"

const minHex = 8 // how many hexadecimal digits are no word

// Identifier returns the length of the UUID (RFC 9562) or hexadecimal number that a
// text begins with, or 0. It reads as a number does: what it happens to spell counts
// neither for nor against the words around it.
func Identifier(text string) int {
	n, digits := hexRun(text)
	switch {
	case n == 8 && uuid(text):
		return uuidBytes
	case n < minHex, digits == 0, digits == n:
		return 0
	}
	return n
}

const uuidBytes = 36

func uuid(text string) bool {
	if len(text) < uuidBytes {
		return false
	}
	at := 8
	for _, group := range [...]int{4, 4, 4, 12} {
		if n, _ := hexRun(text[at+1:]); text[at] != '-' || n != group {
			return false
		}
		at += 1 + group
	}
	return true
}

// hexRun returns how many hexadecimal digits a text begins with, and how many of
// them are decimal ones; 0 where a word goes on behind them.
func hexRun(text string) (n, digits int) {
	for ; n < len(text); n++ {
		switch c := text[n] | 0x20; {
		case text[n] >= '0' && text[n] <= '9':
			digits++
		case c >= 'a' && c <= 'f':
		case c >= 'a' && c <= 'z', text[n] >= utf8.RuneSelf:
			return 0, 0
		default:
			return n, digits
		}
	}
	return n, digits
}
