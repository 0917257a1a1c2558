// Package terms has what the layers of screening share that look words up.
//
// It promises that a hash is the same in every process: models and snapshots hold
// hashes.
package terms

import (
	"strings"
	"unicode/utf8"
)

// Set has the words of a list, which spaces part.
func Set(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// Hash is the 64-bit FNV-1a hash of s.
func Hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// ASCII reports whether s has no other bytes than those of ASCII.
func ASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Start is the 32-bit FNV-1a hash of the empty string.
const Start = uint32(2166136261)

// Next is the 32-bit hash h with one byte more.
func Next(h uint32, c byte) uint32 { return (h ^ uint32(c)) * 16777619 }

// Head is the beginning of s, of at most so many bytes, with no character cut. It has
// that many of what is not UTF-8, so that whoever takes a text apart by it comes to its end.
func Head(s string, most int) string {
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

// Address reports whether a word is an address outside: a URL, a mail address,
// a domain name.
func Address(w string) bool {
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

// fileEnd are what files end in, and domain names hardly.
var fileEnd = Set("md txt json yaml yml go py js ts tsx jsx html css csv toml xml pdf png jpg gz tar zip log sql env lock mod sum conf cfg ini exe dll")
