package normal

import (
	"encoding/ascii85"
	"strings"
)

const min85 = 20 // the shortest word that is taken for base85: sixteen bytes

// alphabet85 are the digits of RFC 1924, which Python and git use; z85 those of
// ZeroMQ.
const (
	alphabet85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
	z85        = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)

// base85 decodes words that are base85 in one of its alphabets. Lines between
// <~ and ~> are one word.
func base85(found []View, v *View) []View {
	s := v.Text
	last := strings.LastIndex(s, "~>")
	for i := 0; i < len(s); {
		if s[i] <= ' ' || s[i] >= 0x80 {
			i++
			continue
		}
		j, text := i, ""
		if strings.HasPrefix(s[i:], "<~") && last > i {
			j = i + strings.Index(s[i:], "~>") + 2
			text = s[i+2 : max(j-2, i+2)]
		} else {
			for j < len(s) && s[j] > ' ' && s[j] < 0x80 {
				j++
			}
			text = s[i:j]
		}
		if j-i >= min85 {
			// A sentence's own quotes and full stop may stand around it.
			for _, t := range [...]string{text, strings.Trim(text, "\"'`.,:;()")} {
				if out := decode85(t); out != nil {
					found = clean(found, whole(Encoded, out, v, i, j))
					break
				}
			}
		}
		i = j
	}
	return found
}

func decode85(s string) []byte {
	for _, decode := range [...]func(string) []byte{adobe85, git85, zeromq85} {
		if len(s) < min85 || len(s) > opening && !opens(decode(s[:opening-opening%5])) {
			continue
		}
		if t := decode(s); len(t) >= 12 && printable(t) {
			return t
		}
	}
	for _, decode := range [...]func(string) []byte{adobe85, git85, zeromq85} {
		if t := textIn(decode(s)); len(s) >= min85 && t != nil {
			return t
		}
	}
	return nil
}

func adobe85(s string) []byte {
	out := make([]byte, 4*len(s)+8) // a z stands for four bytes
	n, _, err := ascii85.Decode(out, []byte(s), true)
	if err != nil {
		return nil
	}
	return out[:n]
}

func git85(s string) []byte { return digits85(s, alphabet85) }

func zeromq85(s string) []byte { return digits85(s, z85) }

func digits85(s, alphabet string) []byte {
	out := make([]byte, 0, len(s)*4/5+4)
	for len(s) > 0 {
		n := min(5, len(s))
		if n == 1 {
			return nil
		}
		var x uint64
		for k := range 5 {
			d := 84 // what is missing at the end
			if k < n {
				if d = strings.IndexByte(alphabet, s[k]); d < 0 {
					return nil
				}
			}
			x = x*85 + uint64(d)
		}
		if x >= 1<<32 {
			return nil
		}
		out = append(out, []byte{byte(x >> 24), byte(x >> 16), byte(x >> 8), byte(x)}[:n-1]...)
		s = s[n:]
	}
	return out
}
