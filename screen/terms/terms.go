// Package terms has the hashes, byte sets and tables that the layers of screening share
// to look words up.
//
// Hashes are the same in every process and version: models and snapshots store them.
package terms

import (
	"strings"
	"unicode/utf8"
)

// Set returns the set of the words of a list, which white space separates.
func Set(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// Hash returns the 64-bit FNV-1a hash of s.
func Hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// ASCII reports whether s is ASCII.
func ASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// HashSeed is the 32-bit FNV-1a hash of the empty string.
const HashSeed = uint32(2166136261)

// HashByte returns the hash h extended by one byte.
func HashByte(h uint32, c byte) uint32 { return (h ^ uint32(c)) * 16777619 }

// Truncate returns a prefix of s of at most most bytes that splits no character. If s is
// not valid UTF-8 there, it is exactly most bytes long, so that a loop over s makes
// progress.
func Truncate(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for n := most; n >= max(0, most-utf8.UTFMax+1); n-- {
		if utf8.RuneStart(s[n]) {
			return s[:n]
		}
	}
	return s[:most]
}

// IsAddress reports whether a word is an external address: a URL, a mail address, or a
// domain name.
func IsAddress(w string) bool {
	if strings.IndexByte(w, '.') < 0 && strings.IndexByte(w, ':') < 0 {
		return false // most words
	}
	if strings.Contains(w, "://") {
		return true
	}
	_, w, mail := strings.Cut("@"+w, "@")
	if i := strings.LastIndexByte(w, '@'); i >= 0 {
		w, mail = w[i+1:], true
	}
	w, _, _ = strings.Cut(w, "/")
	w, _, _ = strings.Cut(w, ":")
	dot := strings.LastIndexByte(w, '.')
	if dot < 1 || len(w)-dot-1 < 2 || !mail && len(w) < 4 {
		return false
	}
	return !strings.ContainsFunc(w[dot+1:], func(r rune) bool { return r < 'a' || r > 'z' }) && !fileEnd[w[dot+1:]]
}

// fileEnd are file extensions that are hardly ever top-level domains.
var fileEnd = Set("md txt json yaml yml go py js ts tsx jsx html css csv toml xml pdf png jpg gz tar zip log sql env lock mod sum conf cfg ini exe dll")
