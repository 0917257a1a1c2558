package lexicon

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"
)

const maxRepeat = 12 // the highest counted repetition: an automaton copies what is repeated

// lint parses a pattern and rejects one whose cost is not small and predictable: gaps (".*"
// and the like, bounded or not; use near instead), high counted repetitions, nested
// repetitions, and patterns without a literal that every match contains, such as those that
// match the empty text. Parse rejects rules without a rare literal.
func lint(pattern string) (part, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl|syntax.FoldCase)
	if err != nil {
		return part{}, err
	}
	if err := even(tree, pattern, false); err != nil {
		return part{}, err
	}
	e := measure(tree.Simplify())
	p := part{literals: e.literals(), most: e.max}
	if p.literals == nil {
		return part{}, fmt.Errorf("pattern %q has no characters that occur in every match", pattern)
	}
	p.any = sync.OnceValue(func() *automaton { return newAutomaton(tree) }) // most are never needed
	p.re, err = regexp.Compile("(?i)" + pattern)
	return p, err
}

// even rejects gaps, and repetitions that are high or nested.
func even(re *syntax.Regexp, pattern string, repeated bool) error {
	switch re.Op {
	case syntax.OpStar, syntax.OpPlus, syntax.OpRepeat:
		if re.Op == syntax.OpRepeat && (re.Max > maxRepeat || re.Min > maxRepeat) {
			return fmt.Errorf("pattern %q repeats more than %d times", pattern, maxRepeat)
		}
		if repeated {
			return fmt.Errorf("pattern %q nests repetitions", pattern)
		}
		if wide(re.Sub[0]) {
			return fmt.Errorf("pattern %q has a gap; use near", pattern)
		}
		repeated = true
	}
	for _, sub := range re.Sub {
		if err := even(sub, pattern, repeated); err != nil {
			return err
		}
	}
	return nil
}

// wide reports whether an expression matches most characters, so that its repetition is a
// gap.
func wide(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return true
	case syntax.OpCharClass:
		n := 0
		for i := 0; i < len(re.Rune); i += 2 {
			n += int(min(re.Rune[i+1], 0x7f) - min(re.Rune[i], 0x80) + 1)
		}
		return n > 72
	case syntax.OpCapture:
		return wide(re.Sub[0])
	case syntax.OpAlternate:
		return slices.ContainsFunc(re.Sub, wide)
	}
	return false
}
