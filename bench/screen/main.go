// Command screen measures screening, leave-one-source-out, and trains the
// classifier that the built-in pack ships.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/memproxy/memproxy/screen"
)

func main() {
	data := flag.String("data", "../shared/data/dev", "directory with the sources as JSONL")
	train := flag.String("train", "", "train on all permitted sources and write the weights here")
	out := flag.String("report", "", "write the report here")
	show := flag.String("show", "", "print the places where rules held: RULE,attack|benign|all,N (for tuning; rows never go to a report)")
	verbose := flag.Bool("v", false, "print rules by how often they hold, and what they miss")
	wait := flag.Bool("latency", false, "measure what a write waits for, and fail where the bounds of SYN-4 do not hold (validation 5 ms, audit 2 ms)")
	flag.Parse()
	if *wait {
		if err := latency(os.Stdout, maxValidation, maxAudit); err != nil {
			fmt.Fprintln(os.Stderr, "screen:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*data, *train, *out, *show, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "screen:", err)
		os.Exit(1)
	}
}

func run(data, train, out, show string, verbose bool) error {
	rows, err := load(data)
	if err != nil {
		return err
	}
	mine, err := ownRows()
	if err != nil {
		return err
	}
	rows = append(rows, mine...)
	start := time.Now()
	b := newBench(rows, screen.Default())
	fmt.Fprintln(os.Stderr, "features", time.Since(start))
	if train != "" {
		m := b.fit(nil)
		return os.WriteFile(train, m.Encode(), 0o644)
	}
	res, err := b.run()
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "folds", time.Since(start))
	if show != "" {
		return places(b, res, show)
	}
	table(b, res, verbose)
	if out == "" {
		return nil
	}
	var text bytes.Buffer
	if err := report(&text, b, res); err != nil {
		return err
	}
	return os.WriteFile(out, text.Bytes(), 0o644)
}

func table(b *bench, res []result, verbose bool) {
	type key struct {
		source string
		attack bool
	}
	n, hit := map[key]int{}, map[key]int{}
	alone := map[key]int{}
	rules := map[string]*[4]int{}
	for i := range b.rows {
		r := &b.rows[i]
		if r.own() {
			continue
		}
		k := key{r.Source, r.attack()}
		n[k]++
		if res[i].report.Verdict.Stops() {
			hit[k]++
		}
		if res[i].margin > 0 {
			alone[k]++
		}
		seen := map[string]bool{}
		for _, f := range res[i].report.Findings {
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
		fmt.Printf("%-6v %-22s %5d held %6.2f%%   classifier alone %6.2f%%\n", k.attack, k.source, n[k], 100*share, 100*float64(alone[k])/float64(n[k]))
		if k.attack {
			macro += share
			sources++
		} else {
			fp += hit[k]
			benign += n[k]
		}
	}
	fmt.Printf("macro detection %.2f%%  pooled FPR %.2f%%\n", 100*macro/float64(sources), 100*float64(fp)/float64(benign))
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
