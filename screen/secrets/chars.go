package secrets

import "strings"

// The kinds of bytes at which something may begin, or by which it is recognised.
const (
	letter = iota + 1
	digit
	sign
)

var kinds = func() (of [256]uint8) {
	for c := range 256 {
		switch c := byte(c); {
		case isUpper(c), 'a' <= c && c <= 'z':
			of[c] = letter
		case isDigit(c):
			of[c] = digit
		case strings.IndexByte("@-:=+(", c) >= 0:
			of[c] = sign
		}
	}
	return of
}()

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isAlpha(c byte) bool { return kinds[c] == letter }
func alnum(c byte) bool   { return kinds[c]-letter <= digit-letter }

// word64 is the alphabet of base64url, which most tokens use.
func word64(c byte) bool { return alnum(c) || c == '_' || c == '-' }

// hasFold reports whether s begins with prefix, in whatever case.
func hasFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// variety counts the different bytes of s, up to n.
func variety(s string, n int) int {
	var seen [256]bool
	count := 0
	for i := 0; i < len(s) && count < n; i++ {
		if !seen[s[i]] {
			seen[s[i]] = true
			count++
		}
	}
	return count
}

func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }

func hasLetter(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < 0x80 && isAlpha(byte(r)) })
}
