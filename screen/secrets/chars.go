package secrets

import (
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

// Alphabets of the formats. Most tokens use base64url, word64.
var (
	alnum, digits, letters                  = terms.BytesOf(terms.Alnum), terms.BytesOf(terms.Digits), terms.BytesOf(terms.Smalls + terms.Capitals)
	upperDigit, hex                         = terms.BytesOf(terms.Capitals + terms.Digits), terms.BytesOf(terms.Digits + "abcdef")
	alnumUnder, alnumHyphen, alnumDotHyphen = terms.BytesOf(terms.Alnum + "_"), terms.BytesOf(terms.Alnum + "-"), terms.BytesOf(terms.Alnum + ".-")
	word64, word64Dot                       = terms.BytesOf(terms.Alnum + "_-"), terms.BytesOf(terms.Alnum + "_-.")
)

// hasFold reports whether s begins with prefix, ignoring case.
func hasFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// variety returns the number of distinct bytes of s, up to n.
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

func hasDigit(s string) bool  { return digits.AnyIn(s) }
func hasLetter(s string) bool { return letters.AnyIn(s) }
