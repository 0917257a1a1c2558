package normal

import (
	"bytes"
	"strings"
)

const min85 = 20 // the shortest word that is taken for base85: sixteen bytes

// digits85 are those of an alphabet of base85, by byte; -1 is none.
type digits85 struct {
	value [256]int8
	adobe bool // spaces do not count, z stands for four zeros, and what is too large for four bytes wraps
}

// alphabets85 are Adobe's, that of RFC 1924, which Python and git use, and that of
// ZeroMQ.
var alphabets85 = [...]*digits85{
	{values("!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstu"), true},
	{values("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"), false},
	{values("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"), false},
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
			out := decode85(text)
			// A sentence's own quotes and full stop may stand around it.
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

// decode85 returns the text that s encodes, or that is among what it encodes, or nil.
func decode85(s string) []byte {
	if len(s) < min85 {
		return nil
	}
	var all [len(alphabets85)][]byte // what it encodes in each alphabet
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

// decode appends the bytes that s stands for to dst, or returns nil.
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
			dst = append(dst, byte(x>>24), byte(x>>16), byte(x>>8), byte(x))
			x, n = 0, 0
		}
	}
	if n == 0 {
		return dst
	}
	for range 5 - n { // what is missing at the end
		x = x*85 + 84
	}
	if n == 1 || x >= 1<<32 && !d.adobe {
		return nil
	}
	for k := range n - 1 {
		dst = append(dst, byte(x>>(24-8*k)))
	}
	return dst
}
