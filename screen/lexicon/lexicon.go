// Package lexicon finds fixed expressions: markup that runs, chat-template markers,
// forged turns, shell one-liners.
//
// Invariants: one linear pass over a text serves all rules; every match has a position;
// and a linter rejects patterns with a cost that an attacker could choose (ReDoS):
// distance is a number of bytes compared in Go, never a bounded gap in a pattern. The
// pass finds literals, of which every match contains one, and a pattern is tried only
// around them.
package lexicon

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/memproxy/memproxy/screen/rulefile"
	"github.com/memproxy/memproxy/screen/terms"
)

// Rule is one expression, or several that occur near each other.
type Rule struct {
	rulefile.Rule
	Within int // most bytes from the start of the first part to the end of the last; 0: any part alone matches
	parts  []part
	first  int // index of its first part in Lexicon.parts
}

// part is a pattern and the literals around which it is tried, of which every match has one.
type part struct {
	re       *regexp.Regexp
	any      func() *automaton
	literals []string // case-folded
	most     int      // greatest length in bytes of a match; at least unbounded if it repeats without bound
	near     bool     // it matches only near the rule's other parts
	rule     int
}

// Lexicon is a compiled set of rules. It is immutable and safe for concurrent
// use.
type Lexicon struct {
	Rules     []Rule
	parts     []part
	rarest    *scanner  // literals of single parts, and of the rarest part of each "near" rule
	nearby    *scanner  // literals of the other parts of "near" rules
	stretches sync.Pool // of *stretches
}

// Hit is a match of a rule, in bytes of the text.
type Hit struct {
	Rule, Start, End int
}

// Parse parses a lexicon. Patterns are in RE2 syntax and ignore case. A rule matches if
// any of its patterns does. If "near N" precedes them, all patterns must match within N
// bytes.
func Parse(file, src string) (*Lexicon, error) {
	l := &Lexicon{}
	err := rulefile.Parse(file, src, func(head rulefile.Rule) { l.Rules = append(l.Rules, Rule{Rule: head}) }, func(p string) error {
		return l.Rules[len(l.Rules)-1].add(p)
	})
	if err != nil {
		return nil, err
	}
	for _, r := range l.Rules {
		if len(r.parts) == 0 {
			return nil, fmt.Errorf("%s:%d: rule %s has no pattern", file, r.Line, r.ID)
		}
		rarest := func(a, b part) int { return cmp.Compare(rarity(b.literals), rarity(a.literals)) }
		if r.Within > 0 { // the others are tried only where the rarest matches
			slices.SortStableFunc(r.parts, rarest)
		}
		for _, p := range r.parts {
			if rarity(p.literals) < leastRarity {
				return nil, fmt.Errorf("%s:%d: rule %s: pattern %q requires two letters or a rarer character that occur in every match", file, r.Line, r.ID, p.re)
			}
			if r.Within > 0 {
				break
			}
		}
	}
	l.index()
	return l, nil
}

// Embedded returns the lexicon of a file of this program, which is parsed on first use.
func Embedded(file, src string) func() *Lexicon {
	return sync.OnceValue(func() *Lexicon {
		l, err := Parse(file, src)
		if err != nil {
			panic(err) // cannot happen: a test parses it
		}
		return l
	})
}

func (l *Lexicon) index() {
	rarest, nearby := map[string][]ending{}, map[string][]ending{}
	for ri := range l.Rules {
		r := &l.Rules[ri]
		r.first = len(l.parts)
		for i := range r.parts {
			p, literals := &r.parts[i], rarest
			if p.near, p.rule = r.Within > 0, ri; p.near && i > 0 {
				literals = nearby
			}
			for _, whole := range p.literals {
				text := terms.Truncate(whole, maxScanned)
				literals[text] = append(literals[text], ending{whole[len(text):], len(l.parts)})
			}
			l.parts = append(l.parts, *p)
		}
	}
	l.rarest, l.nearby = newScanner(rarest), newScanner(nearby)
	l.stretches.New = func() any {
		return &stretches{around: make([][]span, len(l.parts)), rules: make([]int, len(l.Rules))}
	}
}

const leastRarity = 2 // the rarity of two letters

const maxWithin = 400 // the largest N of "near N"

// add adds a line of a rule: a pattern, or "near N".
func (r *Rule) add(p string) error {
	if w, ok := strings.CutPrefix(p, "near "); ok && len(r.parts) == 0 {
		within, err := strconv.Atoi(w)
		if err != nil || within < 1 || within > maxWithin {
			return fmt.Errorf("near wants 1 to %d bytes", maxWithin)
		}
		r.Within = within
		return nil
	}
	x, err := lint(p)
	r.parts = append(r.parts, x)
	return err
}
