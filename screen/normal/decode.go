package normal

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/terms"
)

// minRun is the shortest run that is decoded: twelve bytes in base64, eight in hex.
// Shorter runs have too little content.
const minRun = 16

var inRun = terms.BytesOf(terms.Alnum + "+/_-")

func isRun(c byte) bool { return inRun[c] }

// runs decodes unbroken runs of encoded characters.
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
		// Lines of a wrapped encoding are one run.
		for j-i >= 32 && j+1 < len(s) && s[j] == '\n' && isRun(s[j+1]) {
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

// digits are the digits of an encoding: bits per digit, and the value of each byte, -1 if
// it is no digit.
type digits struct {
	bits  uint
	value [256]int8
}

// values returns the value of each byte by its position in an alphabet.
func values(alphabet string) (of [256]int8) {
	for c := range of {
		of[c] = int8(strings.IndexByte(alphabet, byte(c)))
	}
	return of
}

// caseless returns digits whose capital letters may also be lower case.
func caseless(alphabet string, bits uint) *digits {
	d := digits{bits, values(alphabet)}
	for c := 'a'; c <= 'z'; c++ {
		d.value[c] = d.value[c-'a'+'A']
	}
	return &d
}

// codec is an encoding of bytes: its alphabets, and a function that returns the digits of
// a run that make whole bytes, or "" if the run cannot be in this encoding.
type codec struct {
	alphabets []*digits
	whole     func(run string) string
}

var (
	codec2 = &codec{[]*digits{{1, values("01")}}, func(s string) string {
		if len(s) < 48 || len(s)%8 != 0 {
			return ""
		}
		return s
	}}
	hexDigits = caseless(terms.Digits+"ABCDEF", 4)
	codec16   = &codec{[]*digits{hexDigits}, func(s string) string {
		if s = strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X"); len(s)%2 != 0 {
			return ""
		}
		return s
	}}
	// codec32 has the alphabets base32 and base32hex (RFC 4648), and Crockford's.
	codec32 = &codec{[]*digits{
		caseless(terms.Capitals+"234567", 5), caseless("0123456789ABCDEFGHIJKLMNOPQRSTUV", 5), caseless("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 5),
	}, func(s string) string {
		if small.AnyIn(s) && capital.AnyIn(s) {
			return ""
		}
		return s[:len(s)-len(s)%8+tail32[len(s)%8]]
	}}
	// codec64 has the standard alphabet and that of URLs together.
	codec64 = &codec{[]*digits{func() *digits {
		d := digits{6, values(terms.Capitals + terms.Smalls + terms.Digits + "+/")}
		d.value['-'], d.value['_'] = d.value['+'], d.value['/']
		return &d
	}()}, func(s string) string {
		if len(s)%4 == 1 {
			return s[:len(s)-1] // the last digit is no whole byte
		}
		return s
	}}
)

// tail32 is the number of digits, of a last group of this length, that make whole bytes.
var tail32 = [8]int{0, 0, 2, 2, 4, 5, 5, 7}

// decode appends the bytes that a run encodes to dst, in the first alphabet that gives
// text. It returns nil if the run is not in this encoding.
func (c *codec) decode(dst []byte, run string) (first []byte) {
	if run = c.whole(run); run == "" {
		return nil
	}
	for _, d := range c.alphabets {
		t := d.decode(dst, run)
		switch {
		case len(c.alphabets) == 1:
			return t
		case len(t) < 8:
		case readable(t) != nil:
			return t
		case first == nil:
			first, dst = t, nil
		}
	}
	return first
}

// decode appends the whole bytes that s encodes to dst. It returns nil if a byte is no
// digit.
func (d *digits) decode(dst []byte, s string) []byte {
	x, n := uint32(0), uint(0)
	for i := range len(s) {
		v := d.value[s[i]]
		if v < 0 {
			return nil
		}
		x, n = x<<d.bits|uint32(v), n+d.bits
		if n >= 8 {
			n -= 8
			dst = append(dst, byte(x>>n))
		}
	}
	return dst
}

// decodeRun returns the text that a run encodes, or nil. A run whose beginning is not
// text is not decoded further: a text may have thousands of candidates.
func decodeRun(s string) []byte {
	if s = strings.Trim(s, "-_"); len(s) < 8 {
		return nil
	}
	var buf [opening]byte
	head := s[:min(len(s), opening)]
	for _, code := range codecs {
		t := code.decode(buf[:0], head)
		if len(s) > opening {
			if !opens(t) {
				continue
			}
			t = code.decode(make([]byte, 0, len(s)), s)
		}
		if t = readable(t); t != nil {
			return bytes.Clone(t)
		}
	}
	return nil
}

// codecs are the encodings that a run is tried in, in this order.
var codecs = [...]*codec{codec16, codec2, codec32, codec64}

// Decoded returns the text that a run encodes, or "". The run may be truncated within a
// character.
func Decoded(run string) string {
	run = strings.TrimRight(run, "=")
	if !Begins(run[:max(0, len(run)-utf8.UTFMax)]) {
		return "" // however it is cut
	}
	for cut := 0; cut <= utf8.UTFMax && cut < len(run); cut++ {
		if t := decodeRun(run[:len(run)-cut]); t != nil {
			return string(t)
		}
	}
	return ""
}

// Begins reports whether an encoded text may begin with a run.
func Begins(run string) bool {
	run = strings.TrimLeft(strings.TrimRight(run, "="), "-_")
	run = run[:min(len(run), opening)&^7] // eight digits are whole bytes in each encoding
	if run == "" {
		return true
	}
	var buf [opening]byte
	for _, code := range codecs {
		whole := code.whole(run)
		for _, d := range code.alphabets {
			if opens(d.decode(buf[:0], whole)) {
				return true
			}
		}
	}
	return false
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
