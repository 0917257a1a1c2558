package normal

import (
	"encoding/ascii85"
	"encoding/binary"
	"strings"
)

const min85 = 20 // the shortest word that is taken for base85: sixteen bytes

// decoders85 are Adobe's, that of RFC 1924, which Python and git use, and that of
// ZeroMQ.
var decoders85 = [...]func(string) []byte{
	adobe85,
	digits85("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"),
	digits85("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"),
}

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
	if len(s) < min85 {
		return nil
	}
	for _, decode := range decoders85 {
		if len(s) > opening && !opens(decode(s[:opening-opening%5])) {
			continue
		}
		if t := decode(s); len(t) >= 12 && printable(t) {
			return t
		}
	}
	for _, decode := range decoders85 {
		if t := textIn(decode(s)); t != nil {
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

// digits85 returns a decoder for the digits of an alphabet.
func digits85(alphabet string) func(string) []byte {
	return func(s string) []byte {
		out := make([]byte, 0, len(s)*4/5+4)
		for len(s) > 0 {
			n := min(5, len(s))
			var x uint64
			for k := range 5 {
				d := 84 // what is missing at the end
				if k < n {
					d = strings.IndexByte(alphabet, s[k])
				}
				if d < 0 || n == 1 {
					return nil
				}
				x = x*85 + uint64(d)
			}
			if x >= 1<<32 {
				return nil
			}
			out = append(out, binary.BigEndian.AppendUint32(nil, uint32(x))[:n-1]...)
			s = s[n:]
		}
		return out
	}
}
