package normal

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/terms"
)

// minRun is the shortest run that is decoded: twelve bytes in base64, eight in hex.
// Shorter runs have too little content. min85 is the shortest base85 word: sixteen bytes.
const minRun, min85 = 16, 20

// codec is an encoding of bytes: groups of in digits that have the value of out bytes.
type codec struct {
	base    uint64
	in, out int
	least   int       // the fewest digits
	value   [256]int8 // of each byte, -1 if it is no digit
}

// newCodec returns the codec with an alphabet. Capital letters of base16 and base32 may also
// be lower case, and base64 has the signs of addresses after those of the standard.
func newCodec(base uint64, in, out, least int, alphabet string) *codec {
	c := codec{base: base, in: in, out: out, least: least}
	for b := range c.value {
		c.value[b] = int8(strings.IndexByte(alphabet, byte(b)))
		if b >= 'a' && b <= 'z' && base <= 32 {
			c.value[b] = c.value[b-'a'+'A']
		}
		if c.value[b] >= int8(base) {
			c.value[b] -= 2
		}
	}
	return &c
}

// codecs are the encodings that a run is tried in, in this order: base32 with its alphabet, that
// of base32hex (RFC 4648), and Crockford's. codecs85 are those of other words without spaces:
// Adobe's, that of RFC 1924 (also Python and git), and that of ZeroMQ.
var (
	codec16 = newCodec(16, 2, 1, 2, terms.Digits+"ABCDEF")
	codec64 = newCodec(64, 4, 3, 2, terms.Capitals+terms.Smalls+terms.Digits+"+/-_")
	codecs  = []*codec{
		codec16,
		newCodec(2, 8, 1, 48, "01"),
		newCodec(32, 8, 5, 8, terms.Capitals+"234567"),
		newCodec(32, 8, 5, 8, terms.Digits+"ABCDEFGHIJKLMNOPQRSTUV"),
		newCodec(32, 8, 5, 8, terms.Digits+"ABCDEFGHJKMNPQRSTVWXYZ"),
		codec64,
	}
	codecs85 = []*codec{
		newCodec(85, 5, 4, min85, "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstu"),
		newCodec(85, 5, 4, min85, terms.Digits+terms.Capitals+terms.Smalls+"!#$%&()*+-;<=>?@^_`{|}~"),
		newCodec(85, 5, 4, min85, terms.Digits+terms.Smalls+terms.Capitals+".-:+=^!/*?&<>()[]{}@%$#"),
	}
)

// decode appends the whole bytes that a run encodes to dst. It returns nil if the run is not in
// this encoding. Base16 and base2 have whole groups, and base32 letters of one case.
func (c *codec) decode(dst []byte, s string) []byte {
	if c.base == 16 {
		s = strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X")
	}
	if len(s) < c.least || c.base <= 16 && len(s)%c.in != 0 || c.base == 32 && small.AnyIn(s) && capital.AnyIn(s) {
		return nil
	}
	x, n := uint64(0), 0 // the value and the digits of a group
	put := func(bytes int) {
		for k := range bytes {
			dst = append(dst, byte(x>>(8*(c.out-1-k))))
		}
	}
	for i := range len(s) {
		v := c.value[s[i]]
		if s[i] == 'z' && v < 0 && n == 0 && c.base == 85 { // Adobe's sign for zeros
			put(c.out)
			continue
		}
		if v < 0 {
			return nil
		}
		x = x*c.base + uint64(v)
		if n++; n == c.in {
			put(c.out)
			x, n = 0, 0
		}
	}
	whole := n * c.out / c.in
	for ; n > 0 && n < c.in; n++ {
		x = x*c.base + c.base - 1 // padding
	}
	put(whole)
	return dst
}

// decodeRun returns the text that a run encodes in one of these encodings, or nil. A run whose
// beginning is not text is not decoded further: a text may have thousands of candidates.
func decodeRun(s string, in []*codec) []byte {
	if in[0].base <= 64 {
		s = strings.Trim(s, "-_") // of the sentence
	}
	if len(s) < 8 {
		return nil
	}
	var buf [opening]byte
	for _, c := range in {
		head := s[:min(len(s), opening-opening%c.in)]
		t := c.decode(buf[:0], head)
		if len(head) < len(s) {
			if !opens(t) {
				continue
			}
			t = c.decode(make([]byte, 0, len(s)), s)
		}
		if t = readable(t); len(t) >= 8 || t != nil && c.base != 32 { // a few bytes are text in one of three alphabets by chance
			return bytes.Clone(t)
		}
	}
	return nil
}

// coded appends the text that a run encodes, or the text among the bytes that it encodes, as the
// reading of bytes i to end of v.
func coded(found []View, v *View, i, end int, run string, in []*codec) []View {
	t, all := decodeRun(run, in), true
	if t == nil {
		t, all = stretches(run, in, v.ciphered)
	}
	switch {
	case !all:
		return append(found, View{cut: true})
	case t == nil:
		return found
	}
	return clean(found, whole(Encoded, t, v, i, end))
}

const runBytes = terms.Alnum + "+/_-"

var inRun = terms.BytesOf(runBytes)

// runs decodes unbroken runs of encoded characters.
func runs(found []View, v *View) []View {
	s := v.Text
	for i := inRun.Find(s, 0); i < len(s); i = inRun.Find(s, i) {
		j := i
		var kinds uint8
		for j < len(s) && inRun[s[j]] {
			kinds |= classes[s[j]]
			j++
		}
		// Lines of a wrapped encoding are one run.
		for j-i >= 32 && j+1 < len(s) && s[j] == '\n' && inRun[s[j+1]] {
			k := inRun.End(s, j+1)
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
			found = coded(found, v, i, end, strings.ReplaceAll(s[i:j], "\n", ""), codecs)
		}
		i = j
	}
	return found
}

var visible = terms.BytesOf(terms.Alnum + "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

// base85 decodes words that are base85 in one of its alphabets. Text between <~ and ~> is
// one word.
func base85(found []View, v *View) []View {
	s := v.Text
	last := 0
	if strings.Contains(s, "<~") {
		last = strings.LastIndex(s, "~>")
	}
	for i := visible.Find(s, 0); i < len(s); i = visible.Find(s, i) {
		j := visible.End(s, i)
		text := s[i:j]
		if strings.HasPrefix(text, "<~") && last > i {
			j = i + strings.Index(s[i:], "~>") + len("~>")
			text = strings.Join(strings.Fields(s[i+2:max(j-2, i+2)]), "")
		}
		if len(text) >= min85 {
			before := len(found)
			found = coded(found, v, i, j, text, codecs85)
			// Quotes and a full stop of the sentence may surround it.
			if bare := strings.Trim(text, "\"'`.,:;()"); len(found) == before && len(bare) < len(text) {
				found = coded(found, v, i, j, bare, codecs85)
			}
		}
		i = j
	}
	return found
}

// Decoded returns the text that a run encodes, or "". The run may be truncated within a
// character.
func Decoded(run string) string {
	run = strings.TrimRight(run, "=")
	if !Begins(run[:max(0, len(run)-utf8.UTFMax)]) {
		return "" // however it is cut
	}
	for cut := 0; cut <= utf8.UTFMax && cut < len(run); cut++ {
		if t := decodeRun(run[:len(run)-cut], codecs); t != nil {
			return string(t)
		}
	}
	return ""
}

// Begins reports whether an encoded text may begin with a run.
func Begins(run string) bool {
	run = strings.TrimLeft(strings.TrimRight(run, "="), "-_")
	run = run[:min(len(run), opening)&^7] // eight digits are whole bytes in each encoding
	var buf [opening]byte
	return run == "" || slices.ContainsFunc(codecs, func(c *codec) bool { return opens(c.decode(buf[:0], run)) })
}

const opening = 64 // digits that are decoded first

// opens reports whether b, which may be truncated, may be the beginning of text.
func opens(b []byte) bool {
	if len(b) > 1 && (b[0] == 0 || b[1] == 0) { // UTF-16
		return true
	}
	rest := b
	for utf8.FullRune(rest) { // the last bytes may be part of a character
		c, n := utf8.DecodeRune(rest)
		if c == utf8.RuneError && n == 1 {
			return false
		}
		rest = rest[n:]
	}
	return len(b) > 0
}

// readable returns b if it is text in UTF-8 or UTF-16 (converted), or nil.
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
