package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"github.com/memproxy/memproxy/internal/proofs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	share := flag.String("share", "1/1", "which part of the list: 3/12 is every twelfth, from the third on")
	only := flag.String("only", "", "only faults whose requirement, declaration or sentence this regular expression finds")
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
	proving, err := readProofs(".")
	if err != nil {
		return err
	}
	chosen, err := part(all, share)
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
		if !pattern.MatchString(f.Requirement + " " + f.Place.String() + " " + f.Breaks) {
			continue
		}
		tried++
		start := time.Now()
		outcome, err := bench.try(ctx, f, proving[f.Requirement])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		took := time.Since(start).Round(time.Second / 10)
		switch {
		case err != nil:
			bad++
			fmt.Printf("BROKEN    %s %s: %s: %v\n", f.Requirement, f.Place, f.Breaks, err)
		case outcome == "":
			bad++
			fmt.Printf("SURVIVED  %s %s: %s (%v)\n", f.Requirement, f.Place, f.Breaks, took)
		default:
			fmt.Printf("killed    %s %s: %s, by %s (%v)\n", f.Requirement, f.Place, f.Breaks, outcome, took)
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

// part is the share i/n of all.
func part(all []fault, share string) ([]fault, error) {
	var i, n int
	if _, err := fmt.Sscanf(share, "%d/%d", &i, &n); err != nil || i < 1 || i > n {
		return nil, fmt.Errorf("-share %q is not i/n with 1 <= i <= n", share)
	}
	var out []fault
	for k := i - 1; k < len(all); k += n {
		out = append(out, all[k])
	}
	return out, nil
}

// matrix is written in the place of a requirement for what the matrix of
// routes, places and callers must notice by itself.
const matrix = "MATRIX"

// readProofs reads which tests prove which requirement. Tests against real
// parts are left out: they need more than Go. So are those of nested modules,
// which go test does not find from here.
func readProofs(root string) (map[string][]proofs.Proof, error) {
	all, err := proofs.Read(root)
	if err != nil {
		return nil, err
	}
	out := map[string][]proofs.Proof{}
	for _, p := range all {
		_, nested := os.Stat(filepath.Join(root, p.Dir, "go.mod"))
		if p.Ring != proofs.Real && (p.Dir == "." || nested != nil) {
			out[p.Requirement] = append(out[p.Requirement], p)
		}
	}
	for _, test := range []string{"TestNoRouteOfMem0CrossesTenants", "TestNoRouteOfLettaCrossesTenants"} {
		out[matrix] = append(out[matrix], proofs.Proof{Requirement: matrix, Dir: "app", Test: test})
	}
	return out, nil
}
