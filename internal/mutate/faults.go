package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// fault is one small change that makes a sentence of a requirement untrue.
type fault struct {
	Requirement string   // id, as in docs/requirements.md
	File        string   // relative to the module's root
	Says        string   // what is then untrue, in a few words
	Old, New    []string // lines without indentation; New may be empty
}

// readFaults reads every list in dir, in the order of the files' names. A list
// is made of blocks with an empty line between them; # begins a comment line
// between blocks:
//
//	SYN-3 screen/heuristic/heuristic.go
//	the share of imperative sentences is not looked at
//	- if share > limit {
//	+ if false {
func readFaults(dir string) ([]fault, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var out []fault
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		list, err := parseFaults(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, list...)
	}
	return out, nil
}

func parseFaults(text string) ([]fault, error) {
	var out []fault
	for _, block := range strings.Split(text, "\n\n") {
		var lines []string
		for _, l := range strings.Split(block, "\n") {
			if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") {
				lines = append(lines, l)
			}
		}
		if len(lines) == 0 {
			continue
		}
		f, err := parseFault(lines)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", lines[0], err)
		}
		out = append(out, f)
	}
	return out, nil
}

func parseFault(lines []string) (fault, error) {
	var f fault
	if len(lines) < 4 {
		return f, errors.New("a fault has a head, a sentence, and lines with - and +")
	}
	head := strings.Fields(lines[0])
	if len(head) != 2 {
		return f, errors.New("a head is a requirement and a file")
	}
	f.Requirement, f.File, f.Says = head[0], head[1], lines[1]
	for _, l := range lines[2:] {
		rest := strings.TrimSpace(l[1:])
		switch l[0] {
		case '-':
			f.Old = append(f.Old, rest)
		case '+':
			f.New = append(f.New, rest)
		default:
			return f, fmt.Errorf("%q begins with neither - nor +", l)
		}
	}
	if len(f.Old) == 0 {
		return f, errors.New("no line is taken away")
	}
	return f, nil
}

// apply gives src with the fault. The lines that are taken away must stand
// together in exactly one place, whatever their spacing.
func (f fault) apply(src string) (string, error) {
	lines := strings.Split(src, "\n")
	at := -1
	for i := 0; i+len(f.Old) <= len(lines); i++ {
		if !slices.EqualFunc(lines[i:i+len(f.Old)], f.Old, func(have, want string) bool { return plain(have) == plain(want) }) {
			continue
		}
		if at >= 0 {
			return "", fmt.Errorf("%q stands twice, in lines %d and %d", f.Old[0], at+1, i+1)
		}
		at = i
	}
	if at < 0 {
		return "", fmt.Errorf("%q is no longer there", f.Old[0])
	}
	return strings.Join(slices.Concat(lines[:at], f.New, lines[at+len(f.Old):]), "\n"), nil
}

func plain(line string) string { return strings.Join(strings.Fields(line), " ") }

var proofRow = regexp.MustCompile(`(?m)^\| ([A-Z]+-\d+) \| .*? \| ([^|]*?) ?\|$`)

// readProofs reads which tests prove which requirement, as package directory
// and name of a test, from the table that internal/repo keeps true. Tests
// against real parts are left out: they need more than Go.
func readProofs(path string) (map[string][]proof, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string][]proof{}
	for _, m := range proofRow.FindAllStringSubmatch(string(text), -1) {
		for _, name := range strings.Split(m[2], ", ") {
			i := strings.LastIndexByte(name, '.')
			if i < 0 || strings.HasPrefix(name, "e2e") {
				continue
			}
			out[m[1]] = append(out[m[1]], proof{dir: name[:i], test: name[i+1:]})
		}
	}
	for _, test := range []string{"TestNoRouteOfMem0CrossesTenants", "TestNoRouteOfLettaCrossesTenants"} {
		out[matrix] = append(out[matrix], proof{dir: "cmd/memproxy", test: test})
	}
	return out, nil
}

// matrix stands in the place of a requirement for what the matrix of routes,
// places and callers must notice by itself.
const matrix = "MATRIX"

// proof is a test that says that it proves something.
type proof struct{ dir, test string }
