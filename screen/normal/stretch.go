package normal

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"unicode"
	"unicode/utf8"
)

// minStretch is the number of consecutive bytes of text that hardly occurs in binary
// data: three in eight random bytes are printable.
const minStretch = 20

const sample = 512 // digits of an enciphered run in which language or compression must begin

// stretches returns the text within the bytes that s encodes in these encodings, if these are not
// text as a whole: a file with words in it, or an encoding after other digits. all is false if some
// of it is compressed and exceeds a bound. What was enciphered is read if it begins with language or is compressed.
func stretches(s string, in []*codec, ciphered bool) (text []byte, all bool) {
	all = true
	if len(s) < min85 || len(s) < 2*minStretch && in[0].base < 85 {
		return nil, true
	}
	buf := make([]byte, 0, len(s))
	for _, c := range in {
		for skip := range c.in {
			digits := s[skip:]
			if c.in <= 2 {
				digits = digits[:len(digits)&^1]
			}
			begins := func() bool {
				head := c.decode(buf, digits[:min(len(digits), sample)])
				return packer(head) != nil || language(string(textIn(head)))
			}
			if !ciphered || begins() {
				b, whole := inflate(c.decode(buf, digits), maxLayers)
				text, all = append(text, textIn(b)...), all && whole
			}
			if c.in > 4 {
				break // too many digits may be before it
			}
		}
	}
	return text, all
}

// maxPacked bounds decompression, as a multiple of the compressed length: prose
// compresses to a third.
const maxPacked = 4

// maxLayers bounds nested compression.
const maxLayers = 4

// packer returns the reader of compressed data with this beginning, or nil.
func packer(b []byte) func(io.Reader) (io.Reader, error) {
	switch {
	case len(b) < 2:
		return nil
	case b[0] == 0x1f && b[1] == 0x8b: // RFC 1952
		return func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case b[0]&0xf == 8 && (int(b[0])<<8|int(b[1]))%31 == 0: // RFC 1950
		return func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }
	}
	return nil
}

// inflate decompresses gzip or zlib data, even if truncated, up to layers times. all is
// false, and nothing is returned, if the data exceeds maxPacked or maxLayers (a
// decompression bomb). Other data is returned as it is.
func inflate(b []byte, layers int) (out []byte, all bool) {
	open := packer(b)
	if open == nil {
		return b, true
	}
	r, err := open(bytes.NewReader(b))
	if err != nil {
		return b, true
	}
	if layers == 0 {
		return nil, false
	}
	most := maxPacked*len(b) + 1<<8
	switch out, err = io.ReadAll(io.LimitReader(r, int64(most))); {
	case len(out) == most:
		return nil, false
	case err != nil && len(out) == 0:
		return b, true
	}
	return inflate(out, layers-1)
}

// textIn returns the text among bytes: every long enough part, or all of it if most bytes
// are text and it is language. Zero bytes are dropped if there are many, as in UTF-16.
func textIn(b []byte) (text []byte) {
	if bytes.Count(b, []byte{0})*4 > len(b) {
		b = bytes.ReplaceAll(b, []byte{0}, nil)
	}
	most, parts := 0, 0
	for i := 0; i < len(b); i++ {
		if c := b[i]; c < utf8.RuneSelf && !shown[c] || c >= utf8.RuneSelf && !utf8.RuneStart(c) {
			parts++ // most bytes that are not text
			continue
		}
		n := shows(b[i:])
		if n >= minStretch {
			text = append(append(text, b[i:i+n]...), '\n')
		}
		most, i = most+n, i+n
		parts++
	}
	if most+parts < 2*minStretch || most < parts*5 {
		return text
	}
	all := make([]byte, 0, most+parts)
	for len(b) > 0 {
		n := shows(b)
		all, b = append(append(all, b[:n]...), ' '), b[min(n+1, len(b)):]
	}
	if language(string(all)) {
		return all
	}
	return text
}

// shows returns the length of the printable prefix of b.
func shows(b []byte) (n int) {
	for n < len(b) {
		if c := b[n]; c < utf8.RuneSelf {
			if !shown[c] {
				break
			}
			n++
			continue
		}
		if !utf8.RuneStart(b[n]) || n+1 < len(b) && utf8.RuneStart(b[n+1]) {
			break // most bytes that are not text
		}
		c, size := utf8.DecodeRune(b[n:])
		if c == utf8.RuneError && size == 1 || !unicode.IsPrint(c) && !unicode.IsSpace(c) {
			break
		}
		n += size
	}
	return n
}

// shown says which ASCII characters are printable.
var shown = func() (of [utf8.RuneSelf]bool) {
	for c := range of {
		of[c] = unicode.IsPrint(rune(c)) || unicode.IsSpace(rune(c))
	}
	return of
}()
