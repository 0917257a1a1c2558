package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fault is one small change that makes a sentence of a requirement untrue.
type fault struct {
	Requirement string // id, as in docs/requirements.md
	Place       place
	Breaks      string // what is then untrue, in a few words
	Old, New    string // text inside the declaration; New may be empty
}

// readFaults reads every list in dir, in the order of the files' names. A list
// is made of blocks with an empty line between them; # begins a comment line
// between blocks:
//
//	SYN-3 screen.(rater).orders
//	the share of imperative sentences is not looked at
//	- if share > limit {
//	+ if false {
//
// The head names a requirement and a declaration, not a file: see place.
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
	if len(lines) < 4 {
		return fault{}, errors.New("a fault has a head, a sentence, and lines with - and +")
	}
	id, name, ok := strings.Cut(lines[0], " ")
	if !ok {
		return fault{}, errors.New("a head is a requirement and a declaration")
	}
	at, err := parsePlace(name)
	if err != nil {
		return fault{}, err
	}
	var before, after []string
	for _, l := range lines[2:] {
		rest := strings.TrimSpace(l[1:])
		switch l[0] {
		case '-':
			before = append(before, rest)
		case '+':
			after = append(after, rest)
		default:
			return fault{}, fmt.Errorf("%q begins with neither - nor +", l)
		}
	}
	if len(before) == 0 {
		return fault{}, errors.New("no text is taken away")
	}
	return fault{Requirement: id, Place: at, Breaks: lines[1],
		Old: strings.Join(before, "\n"), New: strings.Join(after, "\n")}, nil
}

// apply gives decl, the text of the declaration, with the fault. The text that
// is taken away must occur in it exactly once, whatever the white space.
func (f fault) apply(decl string) (string, error) {
	have, at := plain(decl)
	old, _ := plain(f.Old)
	i := strings.Index(have, old)
	switch {
	case i < 0:
		return "", fmt.Errorf("%q is no longer in %s", f.Old, f.Place)
	case strings.Contains(have[i+1:], old):
		return "", fmt.Errorf("%q is in %s twice: quote more of it", f.Old, f.Place)
	}
	out := decl[:at[i]] + f.New + decl[at[i+len(old)-1]+1:]
	if now, _ := plain(out); now == have {
		return "", errors.New("it changes nothing")
	}
	return out, nil
}

// plain is text without white space, and where in text each of its bytes is.
func plain(text string) (string, []int) {
	var out []byte
	var at []int
	for i := range len(text) {
		if !strings.ContainsRune(" \t\r\n", rune(text[i])) {
			out, at = append(out, text[i]), append(at, i)
		}
	}
	return string(out), at
}
