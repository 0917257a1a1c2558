package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Bounds of the words in the list: a word occurs in at least wordSources sources that may
// be used for training, and is no longer than a reader looks for.
const (
	wordSources = 6
	wordMost    = 5000
	wordLeast   = 3
	wordLongest = 14
)

// words writes the words that many sources share, the most shared first, as the English
// word list of screen/normal.
func words(rows []row, name string) error {
	in := map[string]map[string]bool{}
	for i := range rows {
		r := &rows[i]
		if !r.trainable() {
			continue
		}
		for w := range strings.FieldsFuncSeq(strings.ToLower(r.Text), func(c rune) bool { return c != '\'' && (c < 'a' || c > 'z') }) {
			if len(w) < wordLeast || len(w) > wordLongest || strings.Contains(w, "'") {
				continue
			}
			if in[w] == nil {
				in[w] = map[string]bool{}
			}
			in[w][r.Source] = true
		}
	}
	var all []string
	for w, sources := range in {
		if len(sources) >= wordSources {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(in[b]), len(in[a])), cmp.Compare(a, b)) })
	all = all[:min(len(all), wordMost)]
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
	fmt.Printf("%d words\n", len(all))
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
