package main

import (
	"os"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/evasion"
	"github.com/memproxy/memproxy/internal/must"
)

// Texts that are committed here must not repeat rows of the data: rows are
// measured and never copied. The test needs the data and is skipped without.
func TestOwnTextsRepeatNoRow(t *testing.T) {
	dir := os.Getenv("SCREEN_DATA")
	if dir == "" {
		t.Skip("SCREEN_DATA is not set")
	}
	rows := must.Get(load(dir))(t)
	const n = 4
	where := map[string][]int{}
	for i := range rows {
		for _, g := range grams(rows[i].Text, n) {
			if l := where[g]; len(l) < 50 && (len(l) == 0 || l[len(l)-1] != i) {
				where[g] = append(l, i)
			}
		}
	}
	mine := must.Get(ownRows())(t)
	for _, name := range []string{"must.txt", "mustnot.txt"} {
		b := must.Get(os.ReadFile("../../screen/pack/" + name))(t)
		for line := range strings.Lines(string(b)) {
			mine = append(mine, row{ID: name, Text: line})
		}
	}
	for _, p := range append(evasion.Poisons(), evasion.Benign()...) {
		mine = append(mine, row{ID: "evasion", Text: p})
	}
	for i := range mine {
		gs := grams(mine[i].Text, n)
		hits := map[int]int{}
		for _, g := range gs {
			for _, r := range where[g] {
				hits[r]++
			}
		}
		for r, k := range hits {
			if k*100 >= 40*len(gs) && (k >= 2 || len(grams(rows[r].Text, n)) <= 2) {
				t.Errorf("%s %q repeats %s (%d of %d)", mine[i].ID, mine[i].Text, rows[r].ID, k, len(gs))
				break
			}
		}
	}
}
