package normal

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// minRun is the shortest run that is taken for an encoding: twelve bytes in
// base64, eight in hex. Shorter ones say too little.
const minRun = 16

func isRun(c byte) bool { return isAlnum(c) || c == '+' || c == '/' || c == '_' || c == '-' }

// runs decodes unbroken runs of letters and digits.
func runs(found []View, v *View) []View {
	s := v.Text
	for i := 0; i < len(s); i++ {
		if !isRun(s[i]) {
			continue
		}
		j := i
		var kinds uint8
		for j < len(s) && isRun(s[j]) {
			kinds |= classes[s[j]]
			j++
		}
		// Lines of one wrapped encoding are one run.
		for j-i >= 32 && j+1 < len(s) && s[j] == '\n' && isRun(s[j+1]) {
			k := j + 1
			for k < len(s) && isRun(s[k]) {
				k++
			}
			if k-j < 17 && k < len(s) && s[k] != '=' && s[k] != '\n' {
				break
			}
			j = k
		}
		end := j
		for end < len(s) && s[end] == '=' && end-j < 6 {
			end++
		}
		if j-i >= minRun && (kinds&cDigit != 0 || kinds&cUpper != 0 && kinds&cLower != 0) {
			run := strings.ReplaceAll(s[i:j], "\n", "")
			t, all := decodeRun(run), true
			if t == nil {
				t, all = stretches(run)
			}
			if !all {
				return append(found, View{cut: true})
			}
			if t != nil {
				found = clean(found, whole(Encoded, t, v, i, end))
			}
		}
		i = j
	}
	return found
}

// standard turns the alphabet of URLs into the usual one. It is built once: a text
// may have thousands of candidates.
var standard = strings.NewReplacer("-", "+", "_", "/")

// decodeRun returns the text that a run encodes, or nil. What is no text at its
// beginning is not decoded to its end: a text may have thousands of candidates.
func decodeRun(s string) []byte {
	if s = strings.Trim(s, "-_"); len(s) < 8 {
		return nil
	}
	for _, decode := range [...]func(string) []byte{decodeHex, decodeBits, decode32, decode64} {
		if len(s) > opening && !opens(decode(s[:opening])) {
			continue
		}
		if t := readable(decode(s)); t != nil {
			return t
		}
	}
	return nil
}

// Decoded returns the text that a run of letters and digits encodes, or "". Its end may
// be missing, and with it a part of the last character.
func Decoded(run string) string {
	run = strings.TrimRight(run, "=")
	for cut := 0; cut <= utf8.UTFMax && cut < len(run); cut++ {
		if t := decodeRun(run[:len(run)-cut]); t != nil {
			return string(t)
		}
	}
	return ""
}

// minStretch is how many bytes of text in a row hardly ever occur in bytes that are not
// text: random ones are letters and signs for three in eight.
const minStretch = 20

// stretches returns the text that is in a code whose bytes are not text as a whole, or
// nil: a file with words in it, or a code that other digits precede. All is false where
// more is packed in it than is unpacked.
func stretches(s string) (text []byte, all bool) {
	all = true
	if len(s) < 2*minStretch {
		return nil, true
	}
	add := func(b []byte) {
		b, whole := inflate(b, maxLayers)
		text, all = append(text, textIn(b)...), all && whole
	}
	for skip := range 4 {
		if cut := s[skip:]; skip < 2 {
			add(decodeHex(cut[:len(cut)&^1]))
		}
		add(decode64(s[skip:]))
	}
	return append(append(text, textIn(decode32(s))...), textIn(decodeBits(s))...), all
}

// maxPacked is how many times as long as its code a packed text is at most: prose is
// three times as long.
const maxPacked = 4

// maxLayers is how many times a text is unpacked that was packed again.
const maxLayers = 4

// inflate unpacks what gzip or zlib packed, as far as it is whole, so many times at
// most. All is false, and nothing is unpacked, where that is a text too long for its
// code, or packed more often. Other bytes are returned as they are.
func inflate(b []byte, layers int) (out []byte, all bool) {
	var r io.Reader
	var err error
	switch {
	case len(b) < 8:
		return b, true
	case b[0] == 0x1f && b[1] == 0x8b: // RFC 1952
		r, err = gzip.NewReader(bytes.NewReader(b))
	case b[0]&0xf == 8 && (int(b[0])<<8|int(b[1]))%31 == 0: // RFC 1950
		r, err = zlib.NewReader(bytes.NewReader(b))
	default:
		return b, true
	}
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

// textIn returns the text among bytes: each part of it that is long enough, or all of
// it where most bytes are text, and language. Every second byte of UTF-16 may be zero.
func textIn(b []byte) (text []byte) {
	if bytes.Count(b, []byte{0})*4 > len(b) {
		b = bytes.ReplaceAll(b, []byte{0}, nil)
	}
	all, most := make([]byte, 0, len(b)), 0
	for len(b) > 0 {
		n := 0
		for n < len(b) {
			c, size := utf8.DecodeRune(b[n:])
			if c == utf8.RuneError && size == 1 || !unicode.IsPrint(c) && !unicode.IsSpace(c) {
				break
			}
			n += size
		}
		if n >= minStretch {
			text = append(append(text, b[:n]...), '\n')
		}
		all, most = append(append(all, b[:n]...), ' '), most+n
		b = b[min(n+1, len(b)):]
	}
	if len(all) >= 2*minStretch && most*6 >= len(all)*5 && language(string(all)) {
		return all
	}
	return text
}

const opening = 64 // how many digits of a code are decoded first

// opens reports bytes with which a text may begin that is readable, and cut off here.
func opens(b []byte) bool {
	if len(b) > 1 && (b[0] == 0 || b[1] == 0) { // UTF-16
		return true
	}
	for len(b) >= 2*utf8.UTFMax { // the last ones may be half a letter
		c, n := utf8.DecodeRune(b)
		if c == utf8.RuneError && n == 1 {
			return false
		}
		b = b[n:]
	}
	return len(b) > 0
}

// alphabets32 are those of base32: the usual one and the one with the order of
// hexadecimal digits (RFC 4648), and Crockford's.
var alphabets32 = [...]*base32.Encoding{
	base32.StdEncoding.WithPadding(base32.NoPadding), base32.HexEncoding.WithPadding(base32.NoPadding),
	base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding),
}

func decode32(s string) []byte {
	up := strings.ToUpper(s)
	if up != s && strings.ToLower(s) != s {
		return nil
	}
	up = up[:len(up)-len(up)%8+tail32[len(up)%8]]
	var first []byte
	for _, alphabet := range alphabets32 {
		t, err := alphabet.DecodeString(up)
		switch {
		case err != nil || len(t) < 8:
		case readable(t) != nil:
			return t
		case first == nil:
			first = t
		}
	}
	return first
}

func decode64(s string) []byte {
	if len(s)%4 == 1 {
		s = s[:len(s)-1]
	}
	t, err := base64.RawStdEncoding.DecodeString(standard.Replace(s))
	if err != nil {
		return nil
	}
	return t
}

// tail32 is how many of so many last digits of base32 are whole bytes.
var tail32 = [8]int{0, 0, 2, 2, 4, 5, 5, 7}

// readable returns b if it is text, in UTF-8 or in UTF-16, or nil.
func readable(b []byte) []byte {
	if n := len(b); n >= 4 && n%2 == 0 && (b[0] == 0 || b[1] == 0) {
		narrow := make([]byte, 0, n/2)
		for i := 0; i < n; i += 2 {
			if b[i] != 0 && b[i+1] != 0 {
				return nil
			}
			narrow = append(narrow, b[i]|b[i+1])
		}
		b = narrow
	}
	if len(b) == 0 || !printable(b) {
		return nil
	}
	return b
}

func decodeHex(s string) []byte {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X")
	if len(s)%2 != 0 || s == "" || unhex(s[0]) < 0 {
		return nil
	}
	t, err := hex.DecodeString(s)
	if err != nil {
		return nil
	}
	return t
}

func decodeBits(s string) []byte {
	if len(s)%8 != 0 || len(s) < 48 {
		return nil
	}
	t := make([]byte, 0, len(s)/8)
	for i := 0; i < len(s); i += 8 {
		c, err := strconv.ParseUint(s[i:i+8], 2, 8)
		if err != nil {
			return nil
		}
		t = append(t, byte(c))
	}
	return t
}
