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

// Start is the 32-bit FNV-1a hash of the empty string.
const Start = uint32(2166136261)

// Next is the 32-bit hash h with one byte more.
func Next(h uint32, c byte) uint32 { return (h ^ uint32(c)) * 16777619 }

// Head is the beginning of s, of at most so many bytes, with no character cut.
func Head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
