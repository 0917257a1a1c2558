package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/memproxy/memproxy/internal/evasion"
)

// published returns the texts of this repository as rows, as a substitute for the
// corpora.
func published() (rows []row) {
	add := func(source, label string, texts []string) {
		for i, t := range texts {
			rows = append(rows, row{ID: fmt.Sprintf("%s-%s-%d", source, label, i), Text: t, Label: label, Source: source})
		}
	}
	add("evasion", "attack", evasion.Poisons())
	add("evasion", "benign", evasion.Benign())
	for file, label := range map[string]string{"poison": "attack", "benign": "benign"} {
		groups := blindTexts(file)
		var texts []string
		for _, group := range slices.Sorted(maps.Keys(groups)) {
			texts = append(texts, groups[group]...)
		}
		add("blind", label, texts)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.ID, b.ID) })
	return rows
}

// fieldKept is the last result of `make bench-field`.
//
//go:embed field/results.json
var fieldKept []byte

// writeField writes the comparison of detectors.
func writeField(w io.Writer, kept []byte) error {
	var f fieldResult
	if err := json.Unmarshal(kept, &f); err != nil {
		return fmt.Errorf("field/results.json: %w", err)
	}
	fmt.Fprintf(w, note("field"), f.Rows, strings.Join(strings.Fields(requirements), "`, `"))
	for _, m := range f.Table {
		fmt.Fprintf(w, "| %s | %.1f %% | %.1f %% | %.2f %% | %.0f %% (%s) | %s | %s |\n",
			m.Title, m.Later, m.Sources, m.Benign, m.Most, m.Worst, microseconds(m.P50), microseconds(m.P95))
	}
	for _, m := range f.Table {
		if m.Own != nil {
			fmt.Fprintf(w, "\n%s is not measured on its own corpora (%s).", m.Title, strings.Join(m.Own, ", "))
		}
		if m.Late > 0 {
			fmt.Fprintf(w, "\n%s had judged all but %d of the rows after %.0f minutes, and was ended.", m.Title, m.Late, fieldTime.Minutes())
		}
		if m.Failed > 0 {
			fmt.Fprintf(w, "\n%s failed on %d rows, which count as passed.", m.Title, m.Failed)
		}
	}
	for _, left := range f.Left {
		fmt.Fprintf(w, "\n%s", left)
	}
	fmt.Fprint(w, "\n\n")
	return nil
}

func microseconds(us float64) string {
	if us >= 1000 {
		return fmt.Sprintf("%.1f ms", us/1000)
	}
	return fmt.Sprintf("%.0f µs", us)
}
