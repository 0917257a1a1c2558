package secrets

// The kinds of byte that the scan tells apart.
const (
	other byte = iota
	letter
	digit
	mark
)

var kinds = func() (k [256]byte) {
	for c := 'a'; c <= 'z'; c++ {
		k[c], k[c-'a'+'A'] = letter, letter
	}
	for c := '0'; c <= '9'; c++ {
		k[c] = digit
	}
	for _, c := range "@-:=+(" {
		k[c] = mark
	}
	return k
}()

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isAlpha(c byte) bool { return isUpper(c) || isLower(c) }
func alnum(c byte) bool   { return isAlpha(c) || isDigit(c) }

// word64 is the alphabet of base64url, which most tokens use.
func word64(c byte) bool { return alnum(c) || c == '_' || c == '-' }

func lower(c byte) byte {
	if isUpper(c) {
		return c + 'a' - 'A'
	}
	return c
}

// hasFold reports whether s begins with prefix, which is in lower case.
func hasFold(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := 0; i < len(prefix); i++ {
		if lower(s[i]) != prefix[i] {
			return false
		}
	}
	return true
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

func hasDigit(s string) bool { return has(s, digit) }

func hasLetter(s string) bool { return has(s, letter) }

func has(s string, kind byte) bool {
	for i := range len(s) {
		if kinds[s[i]] == kind {
			return true
		}
	}
	return false
}

// ends are the bytes that end a value that stands without quotes.
var ends = func() (t [256]bool) {
	for _, c := range []byte(" \t\n\r\"'`,;<>") {
		t[c] = true
	}
	return t
}()
