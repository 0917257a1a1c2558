package terms

// Bytes is a set of bytes: a table, in which one look tells.
type Bytes [256]bool

// What ASCII has of letters and digits.
const (
	Smalls   = "abcdefghijklmnopqrstuvwxyz"
	Capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	Digits   = "0123456789"
	Alnum    = Smalls + Capitals + Digits
)

// BytesOf are the bytes of chars.
func BytesOf(chars string) (set Bytes) {
	for i := range len(chars) {
		set[chars[i]] = true
	}
	return set
}

// Not are all other bytes.
func (b Bytes) Not() Bytes {
	for c := range b {
		b[c] = !b[c]
	}
	return b
}

// End is where bytes of the set end that stand from s[i] on.
func (b *Bytes) End(s string, i int) int {
	for i < len(s) && b[s[i]] {
		i++
	}
	return i
}

// Find is where the first byte of the set stands from s[i] on, or the end of s.
func (b *Bytes) Find(s string, i int) int {
	for i < len(s) && !b[s[i]] {
		i++
	}
	return i
}

// Begin is where bytes of the set begin that stand before s[i].
func (b *Bytes) Begin(s string, i int) int {
	for i > 0 && b[s[i-1]] {
		i--
	}
	return i
}

// In reports whether s has any of the set.
func (b *Bytes) In(s string) bool {
	return b.Find(s, 0) < len(s)
}

// Lower is c in lower case, if it is a letter of ASCII.
func Lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// Word is the 32-bit hash of a word, with the letters of ASCII in lower case.
func Word(w string) uint32 {
	h := Start
	for i := range len(w) {
		h = Next(h, Lower(w[i]))
	}
	return h
}
