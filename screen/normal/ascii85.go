package normal

import (
	"bytes"
	"encoding/binary"
	"strings"
)

const min85 = 20 // the shortest base85 word: sixteen bytes

// digits85 is an alphabet of base85: the value of each byte, -1 if it is no digit.
type digits85 struct {
	value [256]int8
	adobe bool // white space is ignored, z is four zero bytes, and values that exceed four bytes wrap
}

// alphabets85 are those of Adobe, of RFC 1924 (also Python and git), and of ZeroMQ.
var alphabets85 = [...]*digits85{
	{values("!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstu"), true},
	{values("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"), false},
	{values("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"), false},
}

// base85 decodes words that are base85 in one of its alphabets. Text between <~ and ~> is
// one word.
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
			out := decode85(text)
			// Quotes and a full stop of the sentence may surround it.
			if bare := strings.Trim(text, "\"'`.,:;()"); out == nil && len(bare) < len(text) {
				out = decode85(bare)
			}
			if out != nil {
				found = clean(found, whole(Encoded, out, v, i, j))
			}
		}
		i = j
	}
	return found
}

// decode85 returns the text that s decodes to, or the text among the bytes it decodes to,
// or nil.
func decode85(s string) []byte {
	if len(s) < min85 {
		return nil
	}
	var all [len(alphabets85)][]byte // result per alphabet
	b := newBuilder(len(all) * len(s))
	defer b.free()
	for k, digits := range alphabets85 {
		t := digits.decode(b.text[k*len(s):k*len(s):(k+1)*len(s)], s)
		if all[k] = t; len(t) < 12 || !printable(t) {
			continue
		}
		if len(s) <= opening || digits.decode(nil, s[:opening-opening%5]) != nil {
			return bytes.Clone(t)
		}
	}
	for _, t := range all {
		if t := textIn(t); t != nil {
			return t
		}
	}
	return nil
}

// decode appends the bytes that s encodes to dst, or returns nil.
func (d *digits85) decode(dst []byte, s string) []byte {
	var x uint64
	n := 0 // digits in x
	for i := range len(s) {
		if d.adobe && s[i] <= ' ' {
			continue
		}
		if d.adobe && s[i] == 'z' && n == 0 {
			dst = append(dst, 0, 0, 0, 0)
			continue
		}
		v := d.value[s[i]]
		if v < 0 {
			return nil
		}
		x = x*85 + uint64(v)
		if n++; n == 5 {
			if x >= 1<<32 && !d.adobe {
				return nil
			}
			dst = binary.BigEndian.AppendUint32(dst, uint32(x))
			x, n = 0, 0
		}
	}
	if n == 0 {
		return dst
	}
	for range 5 - n { // padding
		x = x*85 + 84
	}
	if n == 1 || x >= 1<<32 && !d.adobe {
		return nil
	}
	return append(dst, binary.BigEndian.AppendUint32(nil, uint32(x))[:n-1]...)
}
