package main

import (
	"embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/memproxy/memproxy/screen"
)

//go:embed blind/*.tsv blind/tongues/*.tsv blind/later/*.tsv
var blindFiles embed.FS

// blindTexts returns the texts of a file of blind/ by group.
func blindTexts(file string) map[string][]string {
	texts := map[string][]string{}
	for line := range strings.Lines(string(noError(blindFiles.ReadFile("blind/" + file + ".tsv")))) {
		group, text, ok := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		if ok && line[0] != '#' {
			texts[group] = append(texts[group], strings.ReplaceAll(text, `\n`, "\n"))
		}
	}
	return texts
}

// blindRows returns all texts of blind/.
func blindRows() (rows []row) {
	for _, file := range [...]string{"poison", "benign", "tongues/poison", "tongues/benign", "later/poison", "later/benign"} {
		for _, texts := range blindTexts(file) {
			for _, text := range texts {
				rows = append(rows, row{Text: text})
			}
		}
	}
	return rows
}

// blindTallies counts what the shipped pack holds of the poison and the harmless texts of
// a folder. Nothing was trained or tuned on them.
func blindTallies(folder, sensitivity string) (poison, benign byName) {
	s := noError(screen.New(screen.Options{Sensitivity: sensitivity}))
	poison, benign = byName{}, byName{}
	for name, at := range map[string]byName{"poison": poison, "benign": benign} {
		for group, texts := range blindTexts(folder + name) {
			for _, text := range texts {
				at.add(group, s.Text(text, "", "").Verdict.Stops(), false, "")
			}
		}
	}
	return poison, benign
}

// blindly measures the shipped pack on texts that were written after it was finished: all
// of them by sensitivity, and each group at medium sensitivity.
func blindly(w io.Writer) {
	fmt.Fprint(w, note("blind"))
	var groups [2]byName
	for _, set := range [...]struct{ folder, sensitivity, name string }{
		{"later/", "medium", "medium, second set"}, {"", "high", "high"}, {"", "medium", "medium"},
	} {
		poison, benign := blindTallies(set.folder, set.sensitivity)
		p, b := together(poison), together(benign)
		lo, hi := wilson(p.held, p.n)
		fmt.Fprintf(w, "| %s | %d of %d | %.0f–%.0f %% | %d of %d |\n", set.name, p.held, p.n, lo, hi, b.held, b.n)
		groups = [2]byName{poison, benign}
	}
	for i, what := range [...]string{"Poison", "Harmless texts"} {
		var each []string
		for _, group := range slices.Sorted(maps.Keys(groups[i])) {
			each = append(each, fmt.Sprintf("%s %d of %d", group, groups[i][group].held, groups[i][group].n))
		}
		fmt.Fprintf(w, "\n%s at medium sensitivity, held of each group: %s.\n", what, strings.Join(each, ", "))
	}
	fmt.Fprintln(w)
}

// blindTongues measures the shipped pack on texts in other languages.
func blindTongues(w io.Writer) {
	poison, benign := blindTallies("tongues/", "")
	fmt.Fprint(w, note("tongues"))
	for _, language := range slices.Sorted(maps.Keys(poison)) {
		p, b := poison[language], benign[language]
		fmt.Fprintf(w, "| %s | %d of %d | %d of %d |\n", language, p.held, p.n, b.held, b.n)
	}
	p, b := together(poison), together(benign)
	fmt.Fprintf(w, "| all | %d of %d | %d of %d |\n\n", p.held, p.n, b.held, b.n)
}

// together returns the sum of tallies.
func together(each byName) tally {
	var all tally
	for _, t := range each {
		all.n, all.held = all.n+t.n, all.held+t.held
	}
	return all
}
