package normal

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
	return found
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
		letters, end, sep, wide := spreadRun(s, i)
		if letters < minSpread {
			for ; i < end; i++ {
				b.byte(s[i], int32(i))
			}
			continue
		}
		joined++
		from := len(b.text)
		for k := i; k < end; k++ {
			if isAlnum(s[k]) {
				b.byte(s[k], int32(k))
			} else if wide && s[k] != sep || s[k] == sep && k > 0 && s[k-1] == sep {
				if n := len(b.text); n > from && b.text[n-1] != ' ' {
					b.byte(' ', int32(k))
				}
			}
		}
		if word := b.text[from:]; !hasSpace(word) && len(word) >= 12 {
			r.segment(b, from)
		}
		i = end
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

// spreadRun measures the run of single letters that begins at s[i]: how many
// letters, where it ends, which separator stands between the first two, and
// whether others stand between later ones.
func spreadRun(s string, i int) (letters, end int, sep byte, wide bool) {
	end = i
	for k := i; k < len(s); {
		if !isAlnum(s[k]) || k+1 < len(s) && isAlnum(s[k+1]) {
			break
		}
		letters++
		k++
		end = k
		j := k
		for j < len(s) && j-k < 4 && !isAlnum(s[j]) && s[j] < 0x80 {
			j++
		}
		if j == k || j == len(s) || !isAlnum(s[j]) {
			break
		}
		if letters == 1 {
			sep = s[k]
		}
		for ; k < j; k++ {
			wide = wide || s[k] != sep
		}
	}
	if end == i {
		end = i + 1
	}
	return letters, end, sep, wide
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

// maxWord is the longest word that segment looks for.
const maxWord = 14

// segment puts spaces between the words of b.text[from:], by the segmentation
// that covers most letters with known words. It reports whether that was most
// of them, and leaves b alone otherwise.
func (r *reader) segment(b *builder, from int) bool {
	w := string(b.text[from:])
	at := append([]int32(nil), b.at[from:]...)
	if len(w) > 400 {
		return false
	}
	// best[i] is the cost of w[:i]: unknown letters cost most, words a little.
	best := make([]int32, len(w)+1)
	prev := make([]int16, len(w)+1)
	vocab := english()
	for i := range w {
		if c := best[i] + 8; prev[i+1] == 0 || c < best[i+1] {
			best[i+1], prev[i+1] = c, 1
		}
		h := hashStart
		for n := 1; n <= maxWord && i+n <= len(w); n++ {
			h = hashByte(h, lower(w[i+n-1]))
			if n < 2 || !vocab.has(h) {
				continue
			}
			if c := best[i] + 3 + int32(max(0, 4-n))*2; prev[i+n] == 0 || c < best[i+n] {
				best[i+n], prev[i+n] = c, int16(n)
			}
		}
	}
	if int(best[len(w)]) > len(w)*2 {
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
