// Package rulefile parses the text files of a screening pack. Every error names file and
// line.
package rulefile

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Rule is the first line of a rule.
type Rule struct {
	ID       string
	Severity string // low, medium, high, critical
	Family   string
	Score    int // per mille
	Line     int // in its file
}

// Lines yields the lines of a file with their numbers, without blank lines, comments and
// trailing white space.
func Lines(src string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		n := 0
		for line := range strings.Lines(src) {
			n++
			if line = strings.TrimRight(line, "\r\n\t "); line != "" && line[0] != '#' && !yield(n, line) {
				return
			}
		}
	}
}

// Parse parses rules. A rule begins in the first column:
//
//	id severity score family
//
// and its patterns follow, indented, one per line. Parse calls rule with the head of each
// rule, and then pattern with each of its patterns.
func Parse(file, src string, rule func(Rule), pattern func(string) error) error {
	seen := map[string]bool{}
	for n, line := range Lines(src) {
		if line[0] == ' ' || line[0] == '\t' {
			if len(seen) == 0 {
				return fmt.Errorf("%s:%d: a pattern before the first rule", file, n)
			}
			if err := pattern(strings.TrimSpace(line)); err != nil {
				return fmt.Errorf("%s:%d: %w", file, n, err)
			}
			continue
		}
		r, err := head(line)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, n, err)
		}
		if seen[r.ID] {
			return fmt.Errorf("%s:%d: rule %s is defined twice", file, n, r.ID)
		}
		seen[r.ID], r.Line = true, n
		rule(r)
	}
	return nil
}

func head(line string) (Rule, error) {
	line, _, _ = strings.Cut(line, "#")
	f := strings.Fields(line)
	if len(f) != 4 {
		return Rule{}, fmt.Errorf("want: id severity score family")
	}
	score, err := strconv.Atoi(f[2])
	if err != nil || score < 0 || score > 1000 {
		return Rule{}, fmt.Errorf("the score must be from 0 to 1000")
	}
	if !slices.Contains([]string{"low", "medium", "high", "critical"}, f[1]) {
		return Rule{}, fmt.Errorf("unknown severity %q", f[1])
	}
	return Rule{ID: f[0], Severity: f[1], Score: score, Family: f[3]}, nil
}
