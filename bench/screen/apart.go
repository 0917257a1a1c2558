package main

import (
	"strings"
	"unicode"
)

const (
	// shingle is the length of the n-grams by which repetition is found: in words, or in
	// characters of scripts without spaces.
	shingle = 4
	// A row repeats another if the other has this percentage of its n-grams.
	repeated = 40
)

// apart returns the rows of more that do not repeat a row of others: a classifier must
// not be trained on text that it is measured with.
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

// grams returns the n-grams of words, or of characters in scripts without spaces.
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
