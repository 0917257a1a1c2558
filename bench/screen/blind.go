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
func blindTexts(file string) (map[string][]string, error) {
	b, err := blindFiles.ReadFile("blind/" + file + ".tsv")
	if err != nil {
		return nil, err
	}
	texts := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		group, text, ok := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		if ok && line[0] != '#' {
			texts[group] = append(texts[group], strings.ReplaceAll(text, `\n`, "\n"))
		}
	}
	return texts, nil
}

// blindRows returns all texts of blind/.
func blindRows() ([]row, error) {
	var rows []row
	for _, file := range [...]string{"poison", "benign", "tongues/poison", "tongues/benign", "later/poison", "later/benign"} {
		groups, err := blindTexts(file)
		if err != nil {
			return nil, err
		}
		for _, texts := range groups {
			for _, text := range texts {
				rows = append(rows, row{Text: text})
			}
		}
	}
	return rows, nil
}

// blindTallies counts what the shipped pack holds of the poison and the harmless texts of
// a folder. Nothing was trained or tuned on them.
func blindTallies(folder, sensitivity string) (poison, benign byName, err error) {
	s, err := screen.New(screen.Options{Sensitivity: sensitivity})
	if err != nil {
		return nil, nil, err
	}
	poison, benign = byName{}, byName{}
	for name, at := range map[string]byName{"poison": poison, "benign": benign} {
		groups, err := blindTexts(folder + name)
		if err != nil {
			return nil, nil, err
		}
		for group, texts := range groups {
			for _, text := range texts {
				at.add(group, s.Text(text, "", "").Verdict.Stops(), false, "")
			}
		}
	}
	return poison, benign, nil
}

// blindly measures the shipped pack on texts that were written after it was finished: all
// of them by sensitivity, and each group at medium sensitivity.
func blindly(w io.Writer) error {
	fmt.Fprint(w, note("blind"))
	var groups [2]byName
	for _, set := range [...]struct{ folder, sensitivity, name string }{
		{"later/", "medium", "medium, second set"}, {"", "high", "high"}, {"", "medium", "medium"},
	} {
		poison, benign, err := blindTallies(set.folder, set.sensitivity)
		if err != nil {
			return err
		}
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
	return nil
}

// blindTongues measures the shipped pack on texts in other languages.
func blindTongues(w io.Writer) error {
	poison, benign, err := blindTallies("tongues/", "")
	if err != nil {
		return err
	}
	fmt.Fprint(w, note("tongues"))
	for _, language := range slices.Sorted(maps.Keys(poison)) {
		p, b := poison[language], benign[language]
		fmt.Fprintf(w, "| %s | %d of %d | %d of %d |\n", language, p.held, p.n, b.held, b.n)
	}
	p, b := together(poison), together(benign)
	fmt.Fprintf(w, "| all | %d of %d | %d of %d |\n\n", p.held, p.n, b.held, b.n)
	return nil
}

// together returns the sum of tallies.
func together(each byName) tally {
	var all tally
	for _, t := range each {
		all.n, all.held = all.n+t.n, all.held+t.held
	}
	return all
}
