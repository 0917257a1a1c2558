package main

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen"
)

// Each setting has a line, and moves what is held and refused the way its name
// says: a score at the edge shows it.
//
// Proves SYN-2
func TestShifts(t *testing.T) {
	pack := must.Get(screen.LoadUntested(screen.Files()))(t)
	b := setting{pack: pack}
	var res []result
	for _, label := range []string{"attack", "benign"} {
		for score := memproxy.PerMille(300); score <= 1000; score += 10 {
			b.rows = append(b.rows, row{Source: "some", Label: label})
			res = append(res, result{source: screen.Report{Findings: []memproxy.Finding{
				{Rule: "override.instructions", Score: score}, {Rule: screen.RuleClassifier, Score: 400},
			}}})
		}
	}
	rows := shifts(b, res)
	held := map[string]int{}
	for _, r := range rows {
		held[r.name()] = r.held.held
		if r.held.n != 71 || r.refused.n != 71 || r.attacks["some"].held != r.held.held || r.refused.held != r.wrong.held || r.wrong.held >= r.held.held {
			t.Errorf("%s: %+v", r.name(), r)
		}
	}
	for _, order := range [][]string{
		{"sensitivity low", "sensitivity medium", "sensitivity high"},
		{"source trusted", "source verified", "source untrusted", "source hostile"},
		{"trust system", "trust human", "trust authenticated", "trust anonymous"},
		{"trust established", "trust authenticated"},
	} {
		for i := range order[1:] {
			if held[order[i]] >= held[order[i+1]] {
				t.Errorf("%s holds %d, %s %d", order[i], held[order[i]], order[i+1], held[order[i+1]])
			}
		}
	}
	var out strings.Builder
	writeShifts(&out, b, res)
	expect.Text(t, out.String(), &out).Times(len(rows)+1, "\n| ")
}
