package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// wordList has words by the sources that they occur in. It takes those of at least least
// sources that may be used for training, at most most of them, and no longer than a reader
// looks for.
type wordList struct {
	least, most int
	in          map[string]map[string]bool
}

const (
	wordLeast = 3
	// A word of other languages may have a letter less if shortSources sources have it.
	shortSources = 40
	wordLongest  = 16
	// englishShare is the percentage of function words from which a text is English, and
	// otherShare that up to which it is in another language, or no language.
	englishShare, otherShare = 12, 4
)

// functionWords are the most frequent English words that few other languages have.
var functionWords = strings.Fields("the of and to for that with this your you is are not or be by from it as when if can")

// undrawn are letters whose stroke or ligature is no accent, as a reader folds them.
var undrawn = strings.NewReplacer("ł", "l", "đ", "d", "ı", "i", "ø", "o", "ß", "ss", "æ", "ae", "œ", "oe")

// unaccented returns s without the accents of Latin letters.
func unaccented(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Mn, c) {
			return -1
		}
		return c
	}, norm.NFD.String(undrawn.Replace(s)))
}

// words writes the words that many sources share, the most shared first, and that those of
// screen/normal before it lack, as its list more.txt: those of English texts, then the others.
func words(rows []row, name string) error {
	rows = append(rows, ownRows()...)
	english := wordList{5, 5900, map[string]map[string]bool{}}
	others := wordList{3, 5000, map[string]map[string]bool{}}
	for i := range rows {
		r := &rows[i]
		if !r.trainable() {
			continue
		}
		text := unaccented(strings.ToLower(r.Text))
		all := strings.FieldsFunc(text, func(c rune) bool { return c != '\'' && c < 0x80 && (c < 'a' || c > 'z') })
		n := 0
		for _, w := range all {
			if slices.Contains(functionWords, w) {
				n++
			}
		}
		to := &english
		if n*100 <= len(all)*otherShare {
			to = &others
		} else if n*100 < len(all)*englishShare {
			continue
		}
		for _, w := range all {
			if len(w) < wordLeast && (to == &english || len(w) < wordLeast-1) || len(w) > wordLongest || strings.ContainsFunc(w, func(c rune) bool { return c == '\'' || c >= 0x80 }) {
				continue
			}
			if to.in[w] == nil {
				to.in[w] = map[string]bool{}
			}
			to.in[w][r.Source] = true
		}
	}
	var known []string
	for _, file := range [...]string{"common.txt", "words.txt"} {
		b, err := os.ReadFile(filepath.Join("screen/normal", file))
		if err != nil {
			return err
		}
		known = append(known, strings.Fields(string(b))...)
	}
	more := english.take(known)
	rest := others.take(append(known, more...))
	fmt.Printf("%d words, %d of other languages\n", len(more), len(rest))
	return os.WriteFile(name, []byte(lines(more)+"\n"+lines(rest)), 0o644)
}

// lines returns words in lines.
func lines(all []string) string {
	var b strings.Builder
	line := 0
	for _, w := range all {
		if line+len(w) > 118 {
			b.WriteByte('\n')
			line = 0
		} else if line > 0 {
			b.WriteByte(' ')
			line++
		}
		b.WriteString(w)
		line += len(w)
	}
	b.WriteByte('\n')
	return b.String()
}

// take returns the words of the list without those that are known.
func (l *wordList) take(known []string) []string {
	var all []string
	for w, sources := range l.in {
		if least := max(l.least, (wordLeast-len(w))*shortSources); len(sources) >= least && !slices.Contains(known, w) && !compound(w, known) && !l.mistyped(w) {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(l.in[b]), len(l.in[a])), cmp.Compare(a, b)) })
	return all[:min(len(all), l.most)]
}

// compound reports whether w is two of the first known words, run together.
func compound(w string, known []string) bool {
	const first, least = 1500, 4
	known = known[:min(len(known), first)]
	for i := least; i <= len(w)-least; i++ {
		if slices.Contains(known, w[:i]) && slices.Contains(known, w[i:]) {
			return true
		}
	}
	return false
}

// mistyped reports whether w lacks an inner letter of a word that is far more usual.
func (l *wordList) mistyped(w string) bool {
	const long, usual = 7, 4
	for i := 1; i < len(w) && len(w) >= long; i++ {
		for c := 'a'; c <= 'z'; c++ {
			if len(l.in[w[:i]+string(c)+w[i:]]) >= usual*len(l.in[w]) {
				return true
			}
		}
	}
	return false
}
