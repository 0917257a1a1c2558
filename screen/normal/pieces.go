package normal

import (
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

const maxPiece = 400 // the longest string that is joined, in bytes

// pieces joins quoted strings if known words continue from one to the next, as in code
// that concatenates a text: "Ign" + "ore a" + "ll".
func pieces(found []View, v *View) []View {
	s := v.Text
	if v.pieced || !v.spread() || strings.Count(s, `"`) < 4 && strings.Count(s, "'") < 4 {
		return found
	}
	b := newBuilder(len(s))
	defer b.free()
	var seams []int // offsets at which pieces begin
	for i := 0; i < len(s); i++ {
		if s[i] != '"' && s[i] != '\'' || i > 0 && isAlnum(s[i-1]) {
			continue
		}
		n := strings.IndexByte(s[i+1:min(len(s), i+1+maxPiece)], s[i])
		if n < 0 {
			continue
		}
		from := i + 1
		i = from + n
		if n == 0 || i+1 < len(s) && (isAlnum(s[i+1]) || s[i+1] == ':') { // a JSON member name
			continue
		}
		seams = append(seams, len(b.text))
		b.copy(s, from, i)
	}
	joined, k := 0, 0
	eachWord(string(b.text), func(i, j int, h uint32) {
		for k < len(seams) && seams[k] <= i {
			k++
		}
		if k < len(seams) && seams[k] < j && wide().has(h) {
			joined++
		}
	})
	if joined == 0 || joined*piecesAWord < len(seams)-1 {
		return found
	}
	out := mapped(Joined, b, v)
	out.pieced = true
	return append(found, out)
}

const piecesAWord = 6 // the most pieces per word that continues from one to the next

// unrepeat reads text in which every character is repeated.
func unrepeat(found []View, v *View) []View {
	s, same := v.Text, 0
	for i := 1; i < len(s); i++ {
		if terms.Lower(s[i]) == terms.Lower(s[i-1]) {
			same++
		}
	}
	if same < minAlphabet {
		return found
	}
	var b *builder
	defer func() { b.free() }()
	for i := 0; i < len(s); {
		end, times, runs := i, run(s[i:]), 0
		for times > 1 && end < len(s) {
			n := run(s[end:])
			if n%times != 0 {
				break
			}
			end += n
			runs += n / times
		}
		if runs < minAlphabet {
			times, end = 1, max(end, i+1)
		} else if b == nil {
			b = newBuilder(len(s))
			b.copy(s, 0, i)
		}
		for ; b != nil && i < end; i += times {
			b.byte(s[i], int32(i))
		}
		i = end
	}
	if b == nil {
		return found
	}
	return append(found, mapped(Joined, b, v))
}

// run returns the number of equal characters at the beginning of s.
func run(s string) int {
	n := 1
	for n < len(s) && terms.Lower(s[n]) == terms.Lower(s[0]) {
		n++
	}
	return n
}
