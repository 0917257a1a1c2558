// Command screen measures screening by leave-one-source-out cross-validation, and trains
// the classifier of the built-in pack.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/memproxy/memproxy/screen"
)

func main() {
	data := flag.String("data", "../shared/data/dev,../shared/data/dev2", "directories with the sources as JSONL, separated by commas; those of +DIR only teach and are not measured")
	train := flag.String("train", "", "train on all permitted sources and write the weights into this directory")
	cache := flag.String("margins", "", "keep here what the classifiers say of each row, or take it from here: to try rules without training")
	out := flag.String("report", "", "write the report here")
	show := flag.String("show", "", "print the places where rules held: RULE,attack|benign|all,N (for tuning; rows never go to a report)")
	verbose := flag.Bool("v", false, "print rules by how often they hold, and what they miss")
	wait := flag.Bool("latency", false, "measure what a write waits for, and fail where the bounds of SYN-4 do not hold (validation 5 ms, audit 2 ms)")
	check := flag.Bool("floors", false, "measure, and fail where a figure is below its floor")
	lexis := flag.String("words", "", "write further words that many permitted sources share into this file")
	alone := flag.Bool("ablation", false, "say what is found without each layer, and nothing else")
	hide := flag.Int("evasions", 0, "transform so many rows of each source, and say what hides them")
	expensive := flag.Duration("dear", -1, "print the processor time of screening expensive texts of 8 KiB that take at least this long")
	like := flag.String("of", "", "with -dear: only texts whose name has this part")
	field := flag.String("field", "", "also measure other detectors, with this python, and store the results in -out")
	kept := flag.String("out", "bench/screen/field/results.json", "with -field: the file")
	flag.Parse()
	var err error
	switch {
	case *field != "":
		err = fieldRun(os.Stdout, *data, *cache, *field, *kept)
	case *check:
		err = floors(os.Stdout, *data, *cache)
	case *expensive >= 0:
		err = dear(os.Stdout, *expensive, *like)
	case *wait:
		err = latency(os.Stdout, maxValidation, maxAudit)
	default:
		var rows []row
		if rows, err = load(*data); err != nil {
			break
		}
		switch {
		case *lexis != "":
			err = words(rows, *lexis)
		case *hide > 0:
			generate(rows, *hide).missed(os.Stdout)
		case *train != "":
			err = teach(rows, *train)
		default:
			err = run(rows, *cache, *out, *show, *verbose, *alone)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "screen:", err)
		os.Exit(1)
	}
}

// noError returns v of a call that cannot fail: its arguments are constants of this program,
// or were embedded in it.
func noError[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// packFile returns a file of the built-in pack.
func packFile(name string) string { return string(noError(fs.ReadFile(screen.Files(), name))) }

// setting is a pack and the data, including this project's own texts.
type setting struct {
	rows []row
	pack *screen.Pack
}

// set loads the built-in pack without its regression cases, which models that are still
// to be trained cannot pass.
func set(rows []row) setting {
	return setting{append(rows, teaching(ownRows(), rows)...), noError(screen.LoadUntested(screen.Files()))}
}

// measure judges rows, each source and each family by a classifier that was trained
// without it. The margins are cached in a file, if cache is not empty: while the data and
// the vocabulary do not change, rules and thresholds can be tried without training.
func measure(rows []row, cache string) (setting, []result, error) {
	s, found := set(rows), []margins(nil)
	b, err := os.ReadFile(cache)
	switch {
	case err == nil:
		err = json.Unmarshal(b, &found)
	case cache == "" || errors.Is(err, fs.ErrNotExist):
		found, err = newBench(s.rows, s.pack).train(), nil
		if cache != "" {
			err = os.WriteFile(cache, noError(json.Marshal(found)), 0o644)
		}
	}
	if err != nil {
		return s, nil, err
	}
	res, err := judge(s.rows, s.pack, found)
	return s, res, err
}

// teach trains the models of the built-in pack and writes them.
func teach(rows []row, dir string) error {
	s := set(rows)
	windows, whole := newBench(s.rows, s.pack).fit(func(*row) bool { return false })
	if err := os.WriteFile(filepath.Join(dir, "weights.bin"), windows, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "whole.bin"), whole, 0o644)
}

func run(rows []row, cache, out, show string, verbose, ablation bool) error {
	start := time.Now()
	b, res, err := measure(rows, cache)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "folds", time.Since(start))
	switch {
	case ablation:
		writeAblation(os.Stdout, b, res)
		return nil
	case show != "":
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
