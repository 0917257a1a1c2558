package main

import (
	"fmt"
	"slices"
)

// table prints what was measured, for whoever works on it.
func table(b setting, res []result, verbose bool) {
	type key struct {
		source string
		attack bool
	}
	n, hit := map[key]int{}, map[key]int{}
	only := map[key]int{}
	rules := map[string]*[4]int{}
	for i := range b.rows {
		r := &b.rows[i]
		if !r.measured() {
			continue
		}
		k := key{r.Source, r.attack()}
		n[k]++
		if res[i].source.Verdict.Stops() {
			hit[k]++
		}
		if alone(&res[i].source) {
			only[k]++
		}
		seen := map[string]bool{}
		for _, f := range res[i].source.Findings {
			if seen[f.Rule] {
				continue
			}
			seen[f.Rule] = true
			c := rules[f.Rule]
			if c == nil {
				c = new([4]int)
				rules[f.Rule] = c
			}
			if r.attack() {
				c[0]++
			} else {
				c[1]++
			}
		}
	}
	var keys []key
	for k := range n {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.attack != b.attack {
			if a.attack {
				return -1
			}
			return 1
		}
		if a.source < b.source {
			return -1
		}
		return 1
	})
	macro, sources, fp, benign := 0.0, 0, 0, 0
	for _, k := range keys {
		share := float64(hit[k]) / float64(n[k])
		fmt.Printf("%-6v %-22s %5d held %6.2f%%   classifier alone %6.2f%%\n", k.attack, k.source, n[k], 100*share, 100*float64(only[k])/float64(n[k]))
		if k.attack {
			macro += share
			sources++
		} else {
			fp += hit[k]
			benign += n[k]
		}
	}
	fmt.Printf("macro detection %.2f%%  pooled FPR %.2f%%\n", 100*macro/float64(sources), 100*float64(fp)/float64(benign))
	tallies := tallies(b, res)
	for _, f := range families {
		if t := tallies.family[f]; t != nil {
			fmt.Printf("family %-30s %5d held %6.2f%%\n", f, t.n, t.share())
		}
	}
	for _, a := range byData(tallies) {
		fmt.Println(a.met, a.what, a.measured, a.wanted)
	}
	if verbose {
		var names []string
		for r := range rules {
			names = append(names, r)
		}
		slices.Sort(names)
		for _, r := range names {
			fmt.Printf("  %-26s attack %5d benign %5d\n", r, rules[r][0], rules[r][1])
		}
	}
}
