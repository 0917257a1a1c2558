package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	share := flag.String("share", "1/1", "which part of the list: 3/12 is every twelfth, from the third on; day/12 takes the day of the year for the third")
	only := flag.String("only", "", "only faults whose requirement, file or sentence this regular expression finds")
	limit := flag.Duration("timeout", 3*time.Minute, "for the tests of one package with one fault")
	flag.Parse()
	if err := run(ctx, *share, *only, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// run tries the chosen faults and reports each.
func run(ctx context.Context, share, only string, limit time.Duration) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	all, err := readFaults(filepath.Join("internal", "mutate", "faults"))
	if err != nil {
		return err
	}
	proofs, err := readProofs(filepath.Join("docs", "requirements.md"))
	if err != nil {
		return err
	}
	chosen, err := part(all, share, time.Now().UTC().YearDay())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bench := workbench{dir: dir, limit: limit, sound: map[string]bool{}}
	var tried, bad int
	for _, f := range chosen {
		if !pattern.MatchString(f.Requirement + " " + f.File + " " + f.Says) {
			continue
		}
		tried++
		start := time.Now()
		outcome, err := bench.try(ctx, f, proofs[f.Requirement])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		took := time.Since(start).Round(time.Second / 10)
		switch {
		case err != nil:
			bad++
			fmt.Printf("BROKEN    %s %s: %s: %v\n", f.Requirement, f.File, f.Says, err)
		case outcome == "":
			bad++
			fmt.Printf("SURVIVED  %s %s: %s (%v)\n", f.Requirement, f.File, f.Says, took)
		default:
			fmt.Printf("killed    %s %s: %s, by %s (%v)\n", f.Requirement, f.File, f.Says, outcome, took)
		}
	}
	fmt.Printf("%d of %d faults tried, share %s: %d killed\n", tried, len(all), share, tried-bad)
	if tried == 0 {
		return fmt.Errorf("no fault was chosen by -share %s -only %q", share, only)
	}
	if bad > 0 {
		return fmt.Errorf("%d faults were not noticed", bad)
	}
	return nil
}

// part is the share i/n of all, where i may be "day".
func part(all []fault, share string, day int) ([]fault, error) {
	first, every, ok := strings.Cut(share, "/")
	var i, n int
	if _, err := fmt.Sscanf(every, "%d", &n); !ok || err != nil || n < 1 {
		return nil, fmt.Errorf("-share %q is not i/n", share)
	}
	if first == "day" {
		i = day%n + 1
	} else if _, err := fmt.Sscanf(first, "%d", &i); err != nil || i < 1 || i > n {
		return nil, fmt.Errorf("-share %q is not i/n with 1 <= i <= n", share)
	}
	var out []fault
	for k := i - 1; k < len(all); k += n {
		out = append(out, all[k])
	}
	return out, nil
}
