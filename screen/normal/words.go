package normal

import (
	"strings"
	"unicode/utf8"
)

// words adds the readings that depend on single words: leetspeak, letters that
// stand apart, words run together, ciphers and reversal.
func (r *reader) words(found []View, v *View, m marks) []View {
	if m&markLeet != 0 {
		found = r.leet(found, v)
	}
	if m&markSpread != 0 {
		found = r.join(found, v)
	}
	if m&markCrowded != 0 {
		found = r.split(found, v)
	}
	if v.Name != Cipher && v.Name != Reversed {
		found = r.cipher(found, v)
	}
	return r.spoken(found, v)
}

// leetLetters is what digits and signs stand for in words; 0 is nothing.
func leetLetter(c byte) byte {
	switch c {
	case '0':
		return 'o'
	case '1', '!':
		return 'i'
	case '|':
		return 'l'
	case '3':
		return 'e'
	case '4', '@':
		return 'a'
	case '5', '$':
		return 's'
	case '6', '9':
		return 'g'
	case '7', '+':
		return 't'
	case '8':
		return 'b'
	case '2':
		return 'z'
	}
	return 0
}

// leet reads digits and signs in words as letters, when that gives words.
func (r *reader) leet(found []View, v *View) []View {
	s := v.Text
	b := newBuilder(len(s))
	known := 0
	for i := 0; i < len(s); {
		j, letters, others := i, 0, 0
		for j < len(s) {
			if isLetter(s[j]) {
				letters++
			} else if leetLetter(s[j]) != 0 {
				others++
			} else {
				break
			}
			j++
		}
		if j == i {
			b.byte(s[i], int32(i))
			i++
			continue
		}
		for j > i+1 && (s[j-1] == '!' || s[j-1] == '|' || s[j-1] == '+') {
			j--
			others--
		}
		if letters == 0 || others == 0 || j-i > 24 {
			for ; i < j; i++ {
				b.byte(s[i], int32(i))
			}
			continue
		}
		from := len(b.text)
		ones := 0
		for k := i; k < j; k++ {
			c := s[k]
			if l := leetLetter(c); l != 0 {
				if c == '1' || c == '!' {
					ones++
				}
				c = l
			}
			b.byte(c, int32(k))
		}
		ok := english().word(string(b.text[from:]))
		if !ok && ones > 0 {
			for k := i; k < j; k++ { // a one may be an l
				if s[k] == '1' || s[k] == '!' {
					b.text[from+k-i] = 'l'
				}
			}
			if ok = english().word(string(b.text[from:])); !ok {
				for k := i; k < j; k++ {
					if s[k] == '1' || s[k] == '!' {
						b.text[from+k-i] = 'i'
					}
				}
			}
		}
		if ok {
			if known++; j-i >= 5 {
				known++
			}
		}
		i = j
	}
	if known < 2 {
		return found
	}
	return append(found, r.mapped(Leet, b, v))
}

// minSpread is how many single letters in a row are taken for a word.
const minSpread = 5

// join puts letters that stand apart together: "i g n o r e", "i.g.n.o.r.e".
func (r *reader) join(found []View, v *View) []View {
	s := v.Text
	b := newBuilder(len(s))
	joined := 0
	for i := 0; i < len(s); {
		if !isAlnum(s[i]) || i > 0 && isAlnum(s[i-1]) {
			b.byte(s[i], int32(i))
			i++
			continue
		}
		letters, end := spreadRun(s, i)
		if letters < minSpread {
			for ; i < end; i++ {
				b.byte(s[i], int32(i))
			}
			continue
		}
		joined++
		from, sep := len(b.text), separator(s[i:end])
		for k := i; k < end; {
			b.byte(s[k], int32(k))
			gap := k + 1
			for k = gap; k < end && !isAlnum(s[k]); k++ {
			}
			spreadGap(b, s, gap, k, sep)
		}
		if word := b.text[from:]; !hasSpace(word) && len(word) >= 12 {
			r.segment(b, from)
		}
		if i = end; i < len(s) && s[i] == sep && sep != ' ' {
			i++
		}
	}
	if joined == 0 {
		return found
	}
	return append(found, r.mapped(Joined, b, v))
}

func hasSpace(b []byte) bool {
	for _, c := range b {
		if c == ' ' {
			return true
		}
	}
	return false
}

// spreadGap writes what stands between two letters that stand apart by sep: the
// signs of a sentence, and a space where words part.
func spreadGap(b *builder, s string, from, to int, sep byte) {
	apart := false
	for k := from; k < to; k++ {
		switch c := s[k]; {
		case c == sep:
			apart = apart || k > from && s[k-1] == sep
		case c == ' ':
			apart = true
		case sep == ' ' && to-from == 1:
			b.byte(c, int32(k))
			apart = true
		case to-from > 1 && strings.IndexByte(".,;:!?'\"", c) >= 0:
			b.byte(c, int32(k))
			apart = apart || sep == ' ' && c != '\'' && c != '"'
		case c == '\n' || to-from > 1:
			apart = true
		}
	}
	if apart {
		b.byte(' ', int32(to-1))
	}
}

// maxGap is how much may stand between two letters of a run.
const maxGap = 6

// spreadRun measures the run of single letters that begins at s[i]: how many
// letters, and where it ends.
func spreadRun(s string, i int) (letters, end int) {
	end = i
	for k := i; k < len(s); {
		if !isAlnum(s[k]) || k+1 < len(s) && isAlnum(s[k+1]) {
			break
		}
		letters++
		k++
		end = k
		j := k
		for j < len(s) && j-k < maxGap && !isAlnum(s[j]) && s[j] < 0x80 {
			j++
		}
		if j == k || j == len(s) || !isAlnum(s[j]) {
			break
		}
		k = j
	}
	if end == i {
		end = i + 1
	}
	return letters, end
}

// separator is what follows most letters of a run.
func separator(run string) (sep byte) {
	var after [utf8.RuneSelf]int
	for k := 1; k < len(run); k++ {
		if c := run[k]; isAlnum(run[k-1]) && !isAlnum(c) && c < utf8.RuneSelf {
			if after[c]++; after[c] > after[sep] {
				sep = c
			}
		}
	}
	return sep
}

// split takes apart words of 18 letters and more that are several words.
func (r *reader) split(found []View, v *View) []View {
	s := v.Text
	b := newBuilder(len(s) + 32)
	taken := 0
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && isLetter(s[j]) {
			j++
		}
		from := len(b.text)
		for k := i; k < max(j, i+1); k++ {
			b.byte(s[k], int32(k))
		}
		if n := j - i; n >= 18 && n <= 400 && r.segment(b, from) {
			taken++
		}
		i = max(j, i+1)
	}
	if taken == 0 {
		return found
	}
	return append(found, r.mapped(Split, b, v))
}

const (
	// maxWord is the longest word that segment looks for.
	maxWord = 14
	// manyWords of three letters and more, one behind the other, are a sentence.
	manyWords = 6
)

// segment puts spaces between the words of b.text[from:], by the segmentation
// that covers most letters with known words. It reports whether that was most
// of them, or many words, and leaves b alone otherwise.
func (r *reader) segment(b *builder, from int) bool {
	w := string(b.text[from:])
	at := append([]int32(nil), b.at[from:]...)
	if len(w) > 400 {
		return false
	}
	// best[i] is the cost of w[:i]: unknown letters cost most, words a little.
	best := make([]int32, len(w)+1)
	prev := make([]int16, len(w)+1)
	two, vocab := english(), wide()
	for i := range w {
		if c := best[i] + 8; prev[i+1] == 0 || c < best[i+1] {
			best[i+1], prev[i+1] = c, 1
		}
		h := hashStart
		for n := 1; n <= maxWord && i+n <= len(w); n++ {
			h = hashByte(h, lower(w[i+n-1]))
			if n < 2 || n == 2 && !two.has(h) || n > 2 && !vocab.has(h) {
				continue
			}
			if c := best[i] + 3 + int32(max(0, 4-n))*2; prev[i+n] == 0 || c < best[i+n] {
				best[i+n], prev[i+n] = c, int16(n)
			}
		}
	}
	known := 0
	for i := len(w); i > 0; i -= int(prev[i]) {
		if prev[i] >= 3 {
			known++
		}
	}
	// A sentence may have words that nobody listed.
	if most := int(best[len(w)]); most > len(w)*2 && (known < manyWords || most > len(w)*3) {
		return false
	}
	var cuts []int
	for i := len(w); i > 0; i -= int(prev[i]) {
		if prev[i] > 1 || i == len(w) || prev[i+1] > 1 {
			cuts = append(cuts, i-int(prev[i]))
		}
	}
	b.text, b.at = b.text[:from], b.at[:from]
	next := len(cuts) - 1
	for i := range len(w) {
		if next >= 0 && cuts[next] == i {
			if i > 0 {
				b.byte(' ', at[i])
			}
			next--
		}
		b.byte(w[i], at[i])
	}
	return true
}
