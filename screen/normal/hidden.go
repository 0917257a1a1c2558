package normal

import "unicode/utf8"

// hidden returns what invisible characters of the original spell: tag
// characters, bytes in variation selectors, bits in zero-width characters.
func (r *reader) hidden(s string) []View {
	var tags, bytes, bits []byte
	tagAt, byteAt, bitAt := -1, -1, -1
	var acc, n int
	flag := false // within a flag made of tags, which is a letter of its own
	note := func(at *int, i int) {
		if *at < 0 {
			*at = i
		}
	}
	for i, ch := range s {
		switch {
		case ch == 0x1f3f4:
			flag = true
			continue
		case ch == 0xe007f:
			flag = false
		case ch >= 0xe0020 && ch <= 0xe007e:
			if !flag {
				note(&tagAt, i)
				tags = append(tags, byte(ch-0xe0000))
			}
			continue
		case ch >= 0xfe00 && ch <= 0xfe0e:
			note(&byteAt, i)
			bytes = append(bytes, byte(ch-0xfe00))
		case ch >= 0xe0100 && ch <= 0xe01ef:
			note(&byteAt, i)
			bytes = append(bytes, byte(ch-0xe0100+16))
		case ch == 0x200b || ch == 0x200c || ch == 0x2062 || ch == 0x2064:
			note(&bitAt, i)
			acc <<= 1
			if ch == 0x200c || ch == 0x2064 {
				acc |= 1
			}
			if n++; n == 8 {
				bits = append(bits, byte(acc))
				acc, n = 0, 0
			}
		}
		if ch != 0xe0001 {
			flag = false
		}
	}
	var out []View
	for _, h := range []struct {
		text []byte
		at   int
	}{{tags, tagAt}, {bytes, byteAt}, {bits, bitAt}} {
		if len(h.text) < 4 || !printable(h.text) {
			continue
		}
		out = append(out, View{Name: Hidden, Text: string(h.text), Depth: 1, orig: s, from: h.at, to: lastInvisible(s), whole: true})
	}
	return out
}

// lastInvisible returns the end of the last invisible carrier.
func lastInvisible(s string) int {
	for i := len(s); i > 0; {
		ch, n := utf8.DecodeLastRuneInString(s[:i])
		if carrier(ch) {
			return i
		}
		i -= n
	}
	return len(s)
}

// printable reports whether b is text: valid UTF-8, hardly any control
// characters, and more than half letters, digits and spaces.
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
	return bad*20 <= len(b) && good*2 > len(b)
}
