package normal

// chunk is how many unknown words in a row are tried as a cipher.
const chunk = 4

// shiftTries bounds how many chunks of a text are tried with all shifts; the
// usual ciphers are tried on every chunk.
const shiftTries = 4

// atbash is the cipher that mirrors the alphabet; others are shifts.
const atbash = 26

// span is a word of a text.
type span struct{ start, end int }

// cipher looks for four words in a row that are not English, and reads the
// text as the cipher in which most of them are.
func (r *reader) cipher(found []View, v *View) []View {
	s := v.Text
	var words [chunk]span
	n, tries := 0, 0
	var done [atbash + 2]bool
	test := func() {
		if n < 3 {
			return
		}
		list := words[:n]
		for _, c := range [...]int{13, atbash} {
			if !done[c] && knownUnder(s, list, c) {
				done[c] = true
				found = append(found, r.shifted(v, c))
			}
		}
		if !done[atbash+1] && knownReversed(s, list) {
			done[atbash+1] = true
			found = append(found, r.reversed(v))
		}
		if n == chunk && tries < shiftTries {
			tries++
			for c := 1; c < atbash; c++ {
				if !done[c] && knownUnder(s, list, c) {
					done[c] = true
					found = append(found, r.shifted(v, c))
					break
				}
			}
		}
	}
	vocab := english()
	for i := 0; i < len(s); {
		if !isLetter(s[i]) {
			if s[i] >= 0x80 {
				n = 0
			}
			i++
			continue
		}
		j, h := i, hashStart
		for ; j < len(s) && isLetter(s[j]); j++ {
			h = hashByte(h, lower(s[j]))
		}
		if j-i >= 3 {
			if vocab.has(h) {
				test()
				n = 0
			} else {
				words[n] = span{i, j}
				if n++; n == chunk {
					test()
					n = 0
				}
			}
		}
		i = j
	}
	test()
	return found
}

// knownUnder reports whether most of the words are English under cipher c.
func knownUnder(s string, words []span, c int) bool {
	known, vocab := 0, english()
	for _, w := range words {
		h := hashStart
		for i := w.start; i < w.end; i++ {
			h = hashByte(h, shift(lower(s[i]), c))
		}
		if vocab.has(h) {
			known++
		}
	}
	return known*2 >= len(words) && known >= 2
}

func knownReversed(s string, words []span) bool {
	known, vocab := 0, english()
	for _, w := range words {
		h := hashStart
		for i := w.end - 1; i >= w.start; i-- {
			h = hashByte(h, lower(s[i]))
		}
		if vocab.has(h) {
			known++
		}
	}
	return known*2 >= len(words) && known >= 2
}

// shift moves a lower-case letter back in the alphabet, or mirrors it.
func shift(c byte, by int) byte {
	if c < 'a' || c > 'z' {
		return c
	}
	if by == atbash {
		return 'a' + 'z' - c
	}
	return 'a' + byte((int(c-'a')+26-by)%26)
}

// shifted reads the whole of v under cipher c.
func (r *reader) shifted(v *View, c int) View {
	b := newBuilder(len(v.Text))
	for i := 0; i < len(v.Text); i++ {
		b.byte(shift(lower(v.Text[i]), c), int32(i))
	}
	return r.mapped(Cipher, b, v)
}

// reversed reads v backward, letter by letter.
func (r *reader) reversed(v *View) View {
	runes := []rune(v.Text)
	at := make([]int32, 0, len(runes))
	for i := range v.Text {
		at = append(at, int32(i))
	}
	b := newBuilder(len(v.Text))
	for i := len(runes) - 1; i >= 0; i-- {
		b.rune(runes[i], at[i])
	}
	return r.mapped(Reversed, b, v)
}
