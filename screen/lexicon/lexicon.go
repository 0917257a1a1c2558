// Package lexicon finds fixed expressions: markup that runs, marks of chat
// templates, forged turns, shell one-liners.
//
// It promises one linear pass over a text for all rules together, positions
// for what was found, and a linter that keeps patterns out whose cost an
// attacker could choose: nearness is a number of bytes compared in Go, never a
// bounded gap in a pattern. The pass finds literals of which each match has
// one; a pattern is tried only around them.
package lexicon

import (
	"cmp"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// Rule is one expression, or several that stand near each other.
type Rule struct {
	ID       string
	Severity string // low, medium, high, critical
	Family   string
	Score    int // per mille
	Line     int // in its file
	Within   int // bytes from the start of the first part to the end of the last
	parts    []part
}

// part is a pattern and the literals around which it is tried.
type part struct {
	re      *regexp.Regexp
	anchor  *anchor
	repeats repetitions
}

// Lexicon is a compiled set of rules. It is immutable and safe for concurrent
// use.
type Lexicon struct {
	Rules    []Rule
	parts    []owned
	scanner  *scanner
	literals []literal
}

// owned is a part and its rule.
type owned struct {
	part
	rule int
}

// literal is what the scanner finds, the beginning of some parts' literals: its
// greatest length in a text, and what may follow.
type literal struct {
	width int
	ends  []ending
}

// ending is the rest of a literal of a part.
type ending struct {
	rest string
	part int
}

// Hit is a place where a rule holds, in bytes of the text.
type Hit struct {
	Rule, Start, End int
}

// Parse reads a lexicon. A rule begins in the first column:
//
//	id severity score family
//
// and its indented lines are patterns in RE2 syntax, of which any may match,
// without regard to case. "near N" before them asks that all of the patterns
// that follow match, within N bytes. # at the beginning of a line is a comment.
// Errors name file and line.
func Parse(file, src string) (*Lexicon, error) {
	l := &Lexicon{}
	n := 0
	seen := map[string]bool{}
	for line := range strings.Lines(src) {
		n++
		line = strings.TrimRight(line, "\r\n\t ")
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] != ' ' && line[0] != '\t' {
			r, err := head(line)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, n, err)
			}
			if seen[r.ID] {
				return nil, fmt.Errorf("%s:%d: rule %s is defined twice", file, n, r.ID)
			}
			seen[r.ID] = true
			r.Line = n
			l.Rules = append(l.Rules, r)
			continue
		}
		if len(l.Rules) == 0 {
			return nil, fmt.Errorf("%s:%d: a pattern before the first rule", file, n)
		}
		r := &l.Rules[len(l.Rules)-1]
		p := strings.TrimSpace(line)
		if w, ok := strings.CutPrefix(p, "near "); ok && len(r.parts) == 0 {
			within, err := strconv.Atoi(w)
			if err != nil || within < 1 || within > maxWithin {
				return nil, fmt.Errorf("%s:%d: near wants 1 to %d bytes", file, n, maxWithin)
			}
			r.Within = within
			continue
		}
		if err := Lint(p); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		re, err := regexp.Compile("(?i)" + p)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		tree, err := syntax.Parse(p, syntax.Perl|syntax.FoldCase)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		r.parts = append(r.parts, part{re, anchorOf(tree), repetitionsOf(tree)})
	}
	for _, r := range l.Rules {
		if len(r.parts) == 0 {
			return nil, fmt.Errorf("%s:%d: rule %s has no pattern", file, r.Line, r.ID)
		}
		rarest := func(a, b part) int { return cmp.Compare(b.anchor.rarity(), a.anchor.rarity()) }
		if r.Within > 0 { // the others are tried where the rarest matches
			slices.SortStableFunc(r.parts, rarest)
		}
		for _, p := range r.parts {
			if p.anchor.rarity() < leastRarity {
				return nil, fmt.Errorf("%s:%d: rule %s: pattern %q has no two letters, and no rarer character, that each match contains", file, r.Line, r.ID, p.re)
			}
			if r.Within > 0 {
				break
			}
		}
	}
	l.index()
	return l, nil
}

// index makes one scanner for the literals of all parts.
func (l *Lexicon) index() {
	var texts []string
	ids := map[string]int{}
	for ri, r := range l.Rules {
		for _, p := range r.parts {
			for _, whole := range p.anchor.literals {
				text := begin(whole, maxScanned)
				id, ok := ids[text]
				if !ok {
					id = len(texts)
					ids[text] = id
					texts = append(texts, text)
					l.literals = append(l.literals, literal{width: widthOf(text)})
				}
				l.literals[id].ends = append(l.literals[id].ends, ending{whole[len(text):], len(l.parts)})
			}
			l.parts = append(l.parts, owned{p, ri})
		}
	}
	l.scanner = newScanner(texts)
}

// leastRarity is that of two letters.
const leastRarity = 2

// maxWithin bounds how far apart the parts of a rule may stand.
const maxWithin = 400

func head(line string) (Rule, error) {
	f := strings.Fields(line)
	if len(f) != 4 {
		return Rule{}, fmt.Errorf("want: id severity score family")
	}
	score, err := strconv.Atoi(f[2])
	if err != nil || score < 0 || score > 1000 {
		return Rule{}, fmt.Errorf("the score is 0 to 1000")
	}
	if !slices.Contains([]string{"low", "medium", "high", "critical"}, f[1]) {
		return Rule{}, fmt.Errorf("unknown severity %q", f[1])
	}
	return Rule{ID: f[0], Severity: f[1], Score: score, Family: f[3]}, nil
}
