package lexicon

import (
	"fmt"
	"regexp/syntax"
)

// maxRepeat is the longest counted repetition that a pattern may have: an
// automaton copies what is repeated.
const maxRepeat = 12

// Lint refuses patterns whose cost is not small and even: gaps (".*" and the
// like, bounded or not, for which nearness is there), long counted repetitions,
// nested repetitions, patterns that match the empty text, and those that no
// literal finds. Parse refuses rules of which no literal is rare.
func Lint(pattern string) error {
	re, err := syntax.Parse(pattern, syntax.Perl|syntax.FoldCase)
	if err != nil {
		return err
	}
	if matchesEmpty(re) {
		return fmt.Errorf("pattern %q matches the empty text", pattern)
	}
	if err := lint(re, pattern, false); err != nil {
		return err
	}
	if anchorOf(re) == nil {
		return fmt.Errorf("pattern %q has no characters that each match contains", pattern)
	}
	return nil
}

func lint(re *syntax.Regexp, pattern string, repeated bool) error {
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
		if err := lint(sub, pattern, repeated); err != nil {
			return err
		}
	}
	return nil
}

// wide reports expressions that match most characters, which repeated make a
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
		for _, s := range re.Sub {
			if wide(s) {
				return true
			}
		}
	}
	return false
}

func matchesEmpty(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpStar, syntax.OpQuest, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	case syntax.OpRepeat:
		return re.Min == 0 || matchesEmpty(re.Sub[0])
	case syntax.OpCapture, syntax.OpPlus:
		return matchesEmpty(re.Sub[0])
	case syntax.OpConcat:
		for _, s := range re.Sub {
			if !matchesEmpty(s) {
				return false
			}
		}
		return true
	case syntax.OpAlternate:
		for _, s := range re.Sub {
			if matchesEmpty(s) {
				return true
			}
		}
	}
	return false
}
