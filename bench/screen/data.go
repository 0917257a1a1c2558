package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// row is one text of a source.
type row struct {
	ID      string `json:"id"`
	Text    string `json:"text"`
	Label   string `json:"label"` // attack or benign
	Source  string `json:"source"`
	Kind    string `json:"kind"`
	License string `json:"license"`
	Dir     string `json:"-"` // the directory it was read from
	// only: for training, not measured (of a directory with a plus sign).
	only bool
}

func (r *row) attack() bool { return r.Label == "attack" }

// own reports whether the text was written for this project.
func (r *row) own() bool { return strings.HasPrefix(r.Source, ownPrefix) }

const ownPrefix = "own_" // of the names of such sources

// measured reports whether the row is measured, by classifiers trained without it.
func (r *row) measured() bool { return !r.only && !r.own() }

// errNoData means that there are no sources to measure.
var errNoData = errors.New("no *.jsonl")

// load reads every *.jsonl of dirs, a comma-separated list, sorted by source. Rows of a
// directory with a plus sign are for training only; they follow the others, and are
// omitted if they repeat one of them.
func load(dirs string) ([]row, error) {
	var measured, teaching []string
	for dir := range strings.SplitSeq(dirs, ",") {
		if more, ok := strings.CutPrefix(dir, "+"); ok {
			teaching = append(teaching, more)
		} else {
			measured = append(measured, dir)
		}
	}
	rows, err := loadAll(measured, map[string]string{})
	if err != nil || len(teaching) == 0 {
		return rows, err
	}
	known := map[string]string{}
	for i := range rows {
		known[rows[i].Source] = rows[i].Source
	}
	more, err := loadAll(teaching, known)
	if err != nil {
		return nil, err
	}
	for i := range more {
		more[i].only = true
	}
	return append(rows, apart(more, rows)...), nil
}

func loadAll(dirs []string, known map[string]string) ([]row, error) {
	var files []string
	for _, dir := range dirs {
		here, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
		if err != nil {
			return nil, err
		}
		if len(here) == 0 {
			return nil, fmt.Errorf("%w in %s", errNoData, dir)
		}
		files = append(files, here...)
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Compare(filepath.Base(a), filepath.Base(b)) })
	var rows []row
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		source := strings.TrimSuffix(filepath.Base(name), ".jsonl")
		if other := known[source]; other != "" {
			f.Close()
			return nil, fmt.Errorf("%s and %s are one source to tell apart", other, name)
		}
		known[source] = name
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 8<<20)
		for n := 1; sc.Scan(); n++ {
			var r row
			if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
				f.Close()
				return nil, fmt.Errorf("%s:%d: %w", name, n, err)
			}
			r.Source, r.Dir = source, filepath.Base(filepath.Dir(name))
			rows = append(rows, r)
		}
		f.Close()
		if err := sc.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return rows, nil
}
