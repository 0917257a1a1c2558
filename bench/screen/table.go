package main

import (
	"fmt"
	"maps"
	"slices"
)

// table prints the results for developers; with verbose also in how many attacks and
// harmless rows each rule matches.
func table(b setting, res []result, verbose bool) {
	c := tallies(b, res)
	for _, of := range [...]struct {
		what string
		m    byName
	}{{"attacks", c.attacks}, {"harmless", c.benign}, {"family", c.family}} {
		for _, k := range slices.Sorted(maps.Keys(of.m)) {
			fmt.Printf("%-8s %-30s %5d held %6.2f%%\n", of.what, k, of.m[k].n, of.m[k].share())
		}
	}
	for _, a := range byData(c) {
		fmt.Println(a.met, a.what, a.measured, a.wanted)
	}
	if !verbose {
		return
	}
	rules := byName{} // held counts attacks
	for i := range b.rows {
		seen := map[string]bool{}
		for _, f := range res[i].source.Findings {
			if !seen[f.Rule] {
				seen[f.Rule] = true
				rules.add(f.Rule, b.rows[i].attack(), false, "")
			}
		}
	}
	for _, r := range slices.Sorted(maps.Keys(rules)) {
		fmt.Printf("  %-26s attack %5d benign %5d\n", r, rules[r].held, rules[r].n-rules[r].held)
	}
}
