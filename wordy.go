package memproxy

import "unicode"

// sentence is how many words make a name read like a sentence.
const sentence = 3

// Wordy reports whether a name, of an owner or of a member, reads like a
// sentence: three words or more, with marks, spaces or capitals between them,
// or as many letters of a script that has no spaces as such words have. Names
// come back to agents beside the memories that they are of, so that a wordy one
// is looked at as text. Numbers and keys are no words.
func Wordy(name string) bool {
	words, letters, others := 0, 0, 0
	var before rune
	end := func() {
		if letters >= 2 {
			words++
		}
		letters = 0
	}
	for _, r := range name {
		switch {
		case !unicode.IsLetter(r):
			if unicode.IsDigit(r) {
				letters = 0 // "a1b2" is no word
			}
			end()
		default:
			if unicode.IsUpper(r) && unicode.IsLower(before) {
				end()
			}
			letters++
			if r > unicode.MaxASCII {
				others++
			}
		}
		before = r
	}
	end()
	return words >= sentence || others >= 3*sentence
}
