package terms

import "iter"

// Bytes is a set of bytes as a lookup table.
type Bytes [256]bool

// The letters and digits of ASCII.
const (
	Smalls   = "abcdefghijklmnopqrstuvwxyz"
	Capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	Digits   = "0123456789"
	Alnum    = Smalls + Capitals + Digits
)

// BytesOf returns the set of the bytes of chars.
func BytesOf(chars string) (set Bytes) {
	for i := range len(chars) {
		set[chars[i]] = true
	}
	return set
}

// Not returns the complement of b.
func (b Bytes) Not() Bytes {
	for c := range b {
		b[c] = !b[c]
	}
	return b
}

// End returns the end of the run of bytes of the set that begins at s[i].
func (b *Bytes) End(s string, i int) int {
	for i < len(s) && b[s[i]] {
		i++
	}
	return i
}

// Find returns the index of the first byte of the set in s[i:], or len(s).
func (b *Bytes) Find(s string, i int) int {
	for i < len(s) && !b[s[i]] {
		i++
	}
	return i
}

// Runs yields the maximal runs of bytes of the set in s.
func (b *Bytes) Runs(s string) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for from := b.Find(s, 0); from < len(s); {
			to := b.End(s, from)
			if !yield(from, to) {
				return
			}
			from = b.Find(s, to)
		}
	}
}

// Begin returns the start of the run of bytes of the set that ends before s[i].
func (b *Bytes) Begin(s string, i int) int {
	for i > 0 && b[s[i-1]] {
		i--
	}
	return i
}

// AnyIn reports whether s contains a byte of the set.
func (b *Bytes) AnyIn(s string) bool {
	return b.Find(s, 0) < len(s)
}

// Lower returns c in lower case if it is an ASCII letter.
func Lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// HashWord returns the 32-bit FNV-1a hash of a word with its ASCII letters in lower case.
func HashWord(w string) uint32 { return HashAfter(HashSeed, w) }

// HashAfter returns the hash of a word that begins with the text of hash h, and ends with rest.
func HashAfter(h uint32, rest string) uint32 {
	for i := range len(rest) {
		h = HashByte(h, Lower(rest[i]))
	}
	return h
}
