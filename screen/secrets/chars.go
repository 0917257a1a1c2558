package secrets

import "strings"

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isAlpha(c byte) bool { return isUpper(c) || isLower(c) }
func alnum(c byte) bool   { return isAlpha(c) || isDigit(c) }

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
