package main

import (
	"bufio"
	"encoding/json"
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
}

func (r *row) attack() bool { return r.Label == "attack" }

// own reports texts that were written for this project.
func (r *row) own() bool { return strings.HasPrefix(r.Source, "own_") }

// load reads every *.jsonl of dir, sorted by source.
func load(dir string) ([]row, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no *.jsonl", dir)
	}
	slices.Sort(files)
	var rows []row
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		source := strings.TrimSuffix(filepath.Base(name), ".jsonl")
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 8<<20)
		for n := 1; sc.Scan(); n++ {
			var r row
			if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
				f.Close()
				return nil, fmt.Errorf("%s:%d: %w", name, n, err)
			}
			r.Source = source
			rows = append(rows, r)
		}
		f.Close()
		if err := sc.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return rows, nil
}

// barred are sources that are measured and never trained on, with the reason.
var barred = map[string]string{
	"tensortrust_hijack":  "no licence file",
	"tensortrust_extract": "no licence file",
	"promptmap":           "GPL-3.0",
	"owasp_cheatsheets":   "CC BY-SA 4.0",
	"wildguard_benign":    "licence unverified",
}

// trainable reports whether a row may teach: its licence permits it, and its
// label is about its text. An ordinary task slipped into a mail ("what is the
// capital of ...") is an attack by its place, and as text it is harmless.
func (r *row) trainable() bool {
	if r.Source == "bipia_attack" && strings.Contains(r.Kind, "/text/") {
		return false
	}
	return barred[r.Source] == "" && r.Kind != "tool_output/table" // tables: CC BY-SA 4.0
}

// kin groups sources that share texts. When one is evaluated, none of its kin
// is trained on: stricter than leaving out the one source.
var kin = [][]string{
	{"memgar_scenarios", "memgar_envelope"},
	{"spikee", "spikee_obfuscated", "spikee_fp"},
	{"bipia_attack", "bipia_context"},
	{"tensortrust_hijack", "tensortrust_extract"},
	{"cursorrules", "agent_rules"},
	{"patt_xss", "garak_payloads"},
}

// related returns the sources that are left out with source.
func related(source string) []string {
	for _, k := range kin {
		if slices.Contains(k, source) {
			return k
		}
	}
	return []string{source}
}
