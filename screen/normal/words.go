package normal

import (
	"strings"
	"unicode/utf8"
)

// words appends the readings derived from single words: leetspeak, spaced-out letters,
// and words run together.
func words(found []View, v *View, m marks) []View {
	if m&markLeet != 0 {
		found = leet(found, v)
	}
	if m&markSpread != 0 && v.spread() {
		found = join(found, v)
	}
	if (m&markCrowded != 0 || v.Name == Joined && !v.pieced) && v.Name != Split {
		found = split(found, v)
	}
	if v.spread() {
		found = regrouped(unrepeat(despaced(found, v), v), v)
	}
	return spoken(found, v)
}

// minSpread is the number of single letters in a row that are joined to a known word, and
// sureSpread to any word.
const minSpread, sureSpread = 5, 8

// join joins spaced-out letters: "i g n o r e", "i.g.n.o.r.e".
func join(found []View, v *View) []View {
	s := v.Text
	b := newBuilder(len(s))
	defer b.free()
	joined := 0
	for i := 0; i < len(s); {
		if !isAlnum(s[i]) || i > 0 && isAlnum(s[i-1]) {
			b.byte(s[i], int32(i))
			i++
			continue
		}
		letters, end := spreadRun(s, i)
		if letters < minSpread {
			b.copy(s, i, end)
			i = end
			continue
		}
		from, sep := len(b.text), separator(s[i:end])
		for k := i; k < end; {
			b.byte(s[k], int32(k))
			gap := k + 1
			k = alnum.Find(s[:end], gap)
			spreadGap(b, s, gap, k, sep)
		}
		if letters >= sureSpread || wide().word(string(b.text[from:])) { // a known word, and not the variables of a formula
			joined++
		}
		if word := string(b.text[from:]); len(word) >= minJoined && letter.End(word, 0) == len(word) {
			segment(b, from)
		}
		if i = end; i < len(s) && s[i] == sep && sep != ' ' {
			for i++; i < len(s) && !utf8.RuneStart(s[i]); i++ {
			}
		}
	}
	if joined == 0 {
		return found
	}
	return append(found, mapped(Joined, b, v))
}

// spreadGap writes what lies between two letters that are separated by sep: punctuation,
// and a space at a word boundary.
func spreadGap(b *builder, s string, from, to int, sep byte) {
	apart := false
	for k := from; k < to; k++ {
		switch c := s[k]; {
		case c >= utf8.RuneSelf && c < 0xc0: // a continuation byte
		case c == sep:
			apart = apart || k > from && s[k-1] == sep
		case c == ' ' || c == '\n' || c >= utf8.RuneSelf:
			apart = true
		case sep == ' ' && to-from == 1:
			b.byte(c, int32(k))
			apart = true
		case to-from > 1:
			b.byte(c, int32(k))
			apart = apart || sep == ' ' && strings.IndexByte(".,;:!?", c) >= 0 && strings.IndexByte(s[from:to], '/') < 0
		}
	}
	if apart {
		b.byte(' ', int32(to-1))
	}
}

const maxGap = 8 // the most bytes between two letters of a run

// spreadRun returns the number of letters in the run of single letters at s[i], and its
// end.
func spreadRun(s string, i int) (letters, end int) {
	for k := i; k < len(s) && isAlnum(s[k]) && (k+1 == len(s) || !isAlnum(s[k+1])); k = alnum.Find(s[:min(len(s), end+maxGap)], end) {
		letters, end = letters+1, k+1
	}
	return letters, max(end, i+1)
}

// separator returns the byte that follows most letters of a run.
func separator(run string) (sep byte) {
	var after [256]int
	for k := 1; k < len(run); k++ {
		if c := run[k]; isAlnum(run[k-1]) && !isAlnum(c) {
			if after[c]++; after[c] > after[sep] {
				sep = c
			}
		}
	}
	return sep
}

// despaced reads a text in which every second character is the same separator. The others
// may be any characters, since the text may have been escaped before it was spaced out.
func despaced(found []View, v *View) []View {
	s, sep, most := v.Text, "", 0
	for _, c := range [...]string{"|", "_", "-", ".", "/", "·", "\n"} {
		if n := strings.Count(s, c); n > most {
			sep, most = c, n
		}
	}
	if most < minSpread || most*5 < (len(s)-most*len(sep))*3 {
		return found
	}
	b := newBuilder(len(s) - most)
	defer b.free()
	signs, odd := 0, 0
	for i := 0; i < len(s); signs++ {
		r, n := utf8.DecodeRuneInString(s[i:])
		b.rune(r, int32(i))
		i += n
		if strings.HasPrefix(s[i:], sep) {
			i += len(sep)
		} else if i < len(s) && s[i] > ' ' {
			odd++
		}
		gap := i
		for i < len(s) && s[i] <= ' ' {
			i++
		}
		if i > gap {
			b.byte(' ', int32(gap))
		}
	}
	if odd*10 > signs {
		return found
	}
	return append(found, mapped(Joined, b, v))
}
