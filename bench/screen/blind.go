package main

import (
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/memproxy/memproxy/screen"
)

//go:embed blind/*.txt
var blindFiles embed.FS

// blindly measures the shipped pack on texts that were written when it was
// finished, by which nothing was trained or tuned.
func blindly(w io.Writer) error {
	fmt.Fprint(w, blindNote)
	for _, o := range [...]screen.Options{{Sensitivity: "medium", CacheSize: -1}, {Sensitivity: "high", CacheSize: -1}} {
		s, err := screen.New(o)
		if err != nil {
			return err
		}
		var got [2]tally
		for i, name := range [...]string{"poison", "benign"} {
			b, err := blindFiles.ReadFile("blind/" + name + ".txt")
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(b)) {
				if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
					got[i].add(s.Text(line, "", "").Verdict.Stops(), false, "")
				}
			}
		}
		lo, hi := wilson(got[0].held, got[0].n)
		fmt.Fprintf(w, "| %s | %d of %d | %.0f–%.0f %% | %d of %d |\n", o.Sensitivity, got[0].held, got[0].n, lo, hi, got[1].held, got[1].n)
	}
	fmt.Fprintln(w)
	return nil
}
