package main

import (
	"strings"
	"unicode"
)

const (
	// shingle is how many words or, where script has no spaces, characters in a
	// row two texts share that repeat each other.
	shingle = 4
	// A row repeats another if so much of it stands there, in percent.
	repeated = 40
)

// apart leaves out of more what repeats a row of the others, in part: a
// classifier that judges the one must not have learned the other.
func apart(more, others []row) []row {
	where := map[string][]int{}
	for i := range others {
		for _, g := range grams(others[i].Text, shingle) {
			if l := where[g]; len(l) < 50 && (len(l) == 0 || l[len(l)-1] != i) {
				where[g] = append(l, i)
			}
		}
	}
	var out []row
	for i := range more {
		if !repeats(more[i].Text, where) {
			out = append(out, more[i])
		}
	}
	return out
}

func repeats(text string, where map[string][]int) bool {
	all := grams(text, shingle)
	shared := map[int]int{}
	for _, g := range all {
		for _, r := range where[g] {
			if shared[r]++; shared[r]*100 >= repeated*len(all) {
				return true
			}
		}
	}
	return false
}

// grams are the runs of n words, or of n characters of scripts without spaces.
func grams(s string, n int) []string {
	var w []string
	for _, word := range strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) }) {
		if first := []rune(word)[0]; unicode.In(first, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai) {
			w = append(w, strings.Split(word, "")...)
		} else {
			w = append(w, word)
		}
	}
	if len(w) > 0 && len(w) < n {
		return []string{strings.Join(w, " ")}
	}
	var out []string
	for i := 0; i+n <= len(w); i++ {
		out = append(out, strings.Join(w[i:i+n], " "))
	}
	return out
}
