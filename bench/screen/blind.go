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

//go:embed blind/*.txt blind/tongues/*.tsv
var blindFiles embed.FS

// blindly measures the shipped pack on texts that were written when it was
// finished, by which nothing was trained or tuned.
func blindly(w io.Writer) error {
	fmt.Fprint(w, note("blind"))
	for _, sensitivity := range [...]string{"medium", "high"} {
		poison, benign, err := blindTallies(sensitivity)
		if err != nil {
			return err
		}
		lo, hi := wilson(poison.held, poison.n)
		fmt.Fprintf(w, "| %s | %d of %d | %.0f–%.0f %% | %d of %d |\n", sensitivity, poison.held, poison.n, lo, hi, benign.held, benign.n)
	}
	fmt.Fprintln(w)
	return nil
}

// blindTallies count what the shipped pack holds of them.
func blindTallies(sensitivity string) (poison, benign tally, err error) {
	s, err := screen.New(screen.Options{Sensitivity: sensitivity})
	if err != nil {
		return poison, benign, err
	}
	for name, at := range map[string]*tally{"poison": &poison, "benign": &benign} {
		b, err := blindFiles.ReadFile("blind/" + name + ".txt")
		if err != nil {
			return poison, benign, err
		}
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				at.add(s.Text(line, "", "").Verdict.Stops(), false, "")
			}
		}
	}
	return poison, benign, nil
}

// blindTongues measures the shipped pack on texts in other languages, by which
// nothing was tuned either.
func blindTongues(w io.Writer) error {
	poison, benign, err := tongueTallies()
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

// together is the tally of all languages.
func together(each byName) tally {
	var all tally
	for _, t := range each {
		all.n, all.held = all.n+t.n, all.held+t.held
	}
	return all
}

// tongueTallies count what is held of each language.
func tongueTallies() (poison, benign byName, err error) {
	s, err := screen.New(screen.Options{})
	if err != nil {
		return nil, nil, err
	}
	poison, benign = byName{}, byName{}
	for name, at := range map[string]byName{"poison": poison, "benign": benign} {
		b, err := blindFiles.ReadFile("blind/tongues/" + name + ".tsv")
		if err != nil {
			return nil, nil, err
		}
		for line := range strings.Lines(string(b)) {
			language, text, ok := strings.Cut(strings.TrimSpace(line), "\t")
			if !ok || line[0] == '#' {
				continue
			}
			at.add(language, s.Text(text, "", "").Verdict.Stops(), false, "")
		}
	}
	return poison, benign, nil
}
