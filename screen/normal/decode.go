package normal

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
)

// minRun is the shortest run that is taken for an encoding: twelve bytes in
// base64, eight in hex. Shorter ones say too little.
const minRun = 16

// decode adds what base64, base32, hex and groups of numbers in v say.
func (r *reader) decode(found []View, v *View, m marks) []View {
	if m&markRun != 0 {
		found = r.runs(found, v)
	}
	if m&markGroups != 0 {
		found = r.groups(found, v)
		found = r.morse(found, v)
	}
	return found
}

func isRun(c byte) bool { return isAlnum(c) || c == '+' || c == '/' || c == '_' || c == '-' }

// runs decodes unbroken runs of letters and digits.
func (r *reader) runs(found []View, v *View) []View {
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
			if t := decodeRun(strings.ReplaceAll(s[i:j], "\n", "")); t != nil {
				found = append(found, r.clean(r.whole(Encoded, t, v, i, end)))
			}
		}
		i = j
	}
	return found
}

// standard turns the alphabet of URLs into the usual one. It is built once: a text
// may have thousands of candidates.
var standard = strings.NewReplacer("-", "+", "_", "/")

// decodeRun returns the text that a run encodes, or nil.
func decodeRun(s string) []byte {
	if s = strings.Trim(s, "-_"); len(s) < 8 {
		return nil
	}
	if t := decodeHex(s); t != nil {
		return t
	}
	if t := decodeBits(s); t != nil {
		return t
	}
	if b32 := strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""; b32 {
		if t, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(s[:len(s)-len(s)%8]); err == nil && len(t) > 7 && printable(t) {
			return t
		}
	}
	std := standard.Replace(s)
	if len(std)%4 == 1 {
		std = std[:len(std)-1]
	}
	if t, err := base64.RawStdEncoding.DecodeString(std); err == nil && printable(t) {
		return t
	}
	return nil
}

func decodeHex(s string) []byte {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "0x"), "0X")
	if len(s)%2 != 0 || s == "" || unhex(s[0]) < 0 {
		return nil
	}
	if t, err := hex.DecodeString(s); err == nil && printable(t) {
		return t
	}
	return nil
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
	if printable(t) {
		return t
	}
	return nil
}

// groups decodes sequences of at least six numbers as characters.
func (r *reader) groups(found []View, v *View) []View {
	s := v.Text
	for i := 0; i < len(s); {
		if !isDigit(s[i]) && (unhex(s[i]) < 0 || i > 0 && isAlnum(s[i-1])) {
			i++
			continue
		}
		var list []string
		j := i
		for j < len(s) {
			k := j
			if strings.HasPrefix(s[k:], "0x") {
				k += 2
			}
			start := k
			for k < len(s) && unhex(s[k]) >= 0 && k-start < 9 {
				k++
			}
			if n := k - start; n < 2 || n > 8 {
				break
			}
			list = append(list, s[start:k])
			j = k
			for k < len(s) && k-j < 3 && strings.IndexByte(" ,;-\n:[]", s[k]) >= 0 {
				k++
			}
			if k == j {
				break
			}
			if k == len(s) {
				break
			}
			if unhex(s[k]) < 0 {
				break
			}
			j = k
		}
		if len(list) >= 6 {
			if t := decodeGroups(list); t != nil {
				found = append(found, r.clean(r.whole(Encoded, t, v, i, min(j, len(s)))))
			}
			i = max(j, i+1)
			continue
		}
		for i = max(i+1, j); i < len(s) && isAlnum(s[i]); i++ {
		}
	}
	return found
}

// decodeGroups reads a list of numbers in the base in which it is language.
func decodeGroups(list []string) []byte {
	for _, base := range [...]int{2, 16, 10, 8} {
		t := make([]byte, 0, len(list))
		for _, g := range list {
			if base == 2 && len(g) < 6 || base == 16 && len(g) != 2 {
				t = nil
				break
			}
			c, err := strconv.ParseUint(g, base, 8)
			if err != nil || c < 9 {
				t = nil
				break
			}
			t = append(t, byte(c))
		}
		if t != nil && printable(t) && (base == 2 || english().isLanguage(string(t), 2) || wordy(t)) {
			return t
		}
	}
	return nil
}

// wordy reports words of whatever language: letters with spaces between them, and
// next to nothing else. Numbers that mean something else are hardly that.
func wordy(t []byte) bool {
	letters, spaces := 0, 0
	for _, c := range t {
		switch {
		case isLetter(c):
			letters++
		case c == ' ':
			spaces++
		}
	}
	return letters >= 12 && spaces >= 2 && spaces*10 >= letters && (letters+spaces)*100 >= len(t)*85
}

// morse decodes groups of dots and dashes.
func (r *reader) morse(found []View, v *View) []View {
	s := v.Text
	start, end, codes := -1, 0, 0
	var out []byte
	flush := func() {
		if codes >= 6 && english().isLanguage(string(out), 1) {
			found = append(found, r.whole(Encoded, out, v, start, end))
		}
		start, codes, out = -1, 0, nil
	}
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '.' || c == '-':
			j, code := i, 1
			for j < len(s) && (s[j] == '.' || s[j] == '-') {
				if code < 256 {
					code <<= 1
					if s[j] == '-' {
						code |= 1
					}
				}
				j++
			}
			if j-i > 6 {
				flush()
			} else {
				if start < 0 {
					start = i
				}
				codes++
				out = append(out, morseChar(code))
				end = j
			}
			i = j
		case c == ' ' && i+2 < len(s) && s[i+1] == ' ', c == '/', c == '|', c == '\n':
			if start >= 0 {
				out = append(out, ' ')
			}
			i++
		case c == ' ', c == '*':
			i++
		default:
			flush()
			i++
		}
	}
	flush()
	return found
}

func morseChar(code int) byte {
	if i := strings.IndexByte(morseLetters, byte(code)); i >= 0 {
		return morsePlain[i]
	}
	return ' '
}

// The codes as bits behind a leading one (dash is one), and what they mean.
const (
	morseLetters = "\x05\x18\x1a\x0c\x02\x12\x0e\x10\x04\x17\x0d\x14\x07\x06\x0f\x16\x1d\x0a\x08\x03\x09\x11\x0b\x19\x1b\x1c\x3f\x2f\x27\x23\x21\x20\x30\x38\x3c\x3e\x5e"
	morsePlain   = "abcdefghijklmnopqrstuvwxyz0123456789'"
)
