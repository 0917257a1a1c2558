package normal

import (
	"cmp"
	"maps"
	"slices"
	"unicode/utf8"
)

// hidden appends the messages in invisible characters of v: tag characters, bytes in
// variation selectors, and bits in two zero-width characters.
func hidden(found []View, v *View) []View {
	var tags, bytes []byte
	var silent []rune
	first, last := -1, 0
	flag := false // within an emoji flag of tag characters, which is legitimate
	for i, ch := range v.Text {
		if carrier(ch) {
			if first < 0 {
				first = i
			}
			last = i + utf8.RuneLen(ch)
		}
		switch {
		case ch == 0x1f3f4:
			flag = true
			continue
		case ch >= 0xe0020 && ch <= 0xe007e:
			if !flag {
				tags = append(tags, byte(ch))
			}
			continue
		case ch >= 0xfe00 && ch <= 0xfe0e:
			bytes = append(bytes, byte(ch))
		case ch >= 0xe0100 && ch <= 0xe01ef:
			bytes = append(bytes, byte(ch+16))
		case carrier(ch):
			silent = append(silent, ch)
		}
		flag = flag && ch == 0xe0001
	}
	texts := [][]byte{tags, bytes}
	if len(silent) >= minSilent {
		texts = append(texts, inBits(silent)...)
	}
	for _, t := range texts {
		if len(t) >= 4 && printable(t) {
			found = clean(found, whole(Hidden, t, v, first, last))
		}
	}
	return found
}

const minSilent = 32 // the fewest invisible characters that are read as bits

// inBits reads the two most frequent invisible characters as bits, with either one as 1.
func inBits(silent []rune) [][]byte {
	count := map[rune]int{}
	for _, r := range silent {
		count[r]++
	}
	kinds := slices.SortedFunc(maps.Keys(count), func(a, b rune) int { return cmp.Or(count[b]-count[a], int(a-b)) })
	if len(kinds) < 2 {
		return nil
	}
	var out [2][]byte
	n := 0
	var bits byte
	for _, r := range silent {
		if r != kinds[0] && r != kinds[1] {
			continue
		}
		bits <<= 1
		if r == kinds[0] {
			bits |= 1
		}
		if n++; n%8 == 0 {
			out[0], out[1] = append(out[0], bits), append(out[1], ^bits)
		}
	}
	return out[:]
}

// printable reports whether b is text: valid UTF-8, hardly any control characters, and
// more than a third letters, digits and spaces.
func printable(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	good, bad := 0, 0
	for _, c := range b {
		switch {
		case isAlnum(c) || c == ' ' || c >= utf8.RuneSelf:
			good++
		case c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f:
			bad++
		}
	}
	return bad*20 <= len(b) && good*3 > len(b)
}
