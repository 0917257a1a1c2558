package lexicon

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/memproxy/memproxy/screen/terms"
)

const (
	// maxExact bounds the strings that an expression is expanded to, maxClass the
	// characters of a class that is expanded, and maxLiteral the bytes of a literal.
	maxExact   = 96
	maxClass   = 4
	maxLiteral = 24
)

// anchor is a set of case-folded literals of which every match of a pattern contains one.
// A match starts at most before bytes ahead of the literal, and ends at most after bytes
// past its start, if each unbounded repetition occurs once. See alphabet.
type anchor struct {
	literals      []string
	before, after int
}

// extent describes the matches of an expression: all their folded texts (nil if there are
// too many), the greatest length in bytes with each unbounded repetition once, and the
// rarest anchor.
type extent struct {
	exact []string
	max   int
	best  *anchor
}

// expression is a pattern that was measured once, which takes longer than to parse it.
type expression struct {
	tree, simple *syntax.Regexp // as parsed, and without counted repetitions
	anchor       *anchor        // the literals by which the pattern is found, or nil if it has none
}

func newExpression(tree *syntax.Regexp) expression {
	simple := tree.Simplify()
	e := measure(simple)
	return expression{tree, simple, e.anchor()}
}

// newAnchor truncates literals, trims leading spaces, and drops literals with another
// literal as a prefix.
func newAnchor(literals []string, before, after int) *anchor {
	trimmed, short := make([]string, 0, len(literals)), make([]string, 0, len(literals))
	spaces := 0 // trimmed from a literal, at most
	for _, s := range literals {
		t := strings.TrimLeft(s, " ")
		if t == "" {
			t = s
		}
		spaces = max(spaces, len(s)-len(t))
		trimmed = append(trimmed, t)
	}
	slices.Sort(trimmed)
	for _, s := range trimmed {
		if len(short) == 0 || !strings.HasPrefix(s, short[len(short)-1]) {
			short = append(short, terms.Truncate(s, maxLiteral))
		}
	}
	return &anchor{short, before + spaces, after}
}

func (e extent) anchor() *anchor {
	if e.exact == nil || slices.Contains(e.exact, "") {
		return e.best
	}
	return rarer(e.best, newAnchor(e.exact, 0, e.max))
}

func measure(re *syntax.Regexp) extent {
	switch re.Op {
	case syntax.OpLiteral:
		var text []byte
		n := 0
		for _, r := range re.Rune {
			text = utf8.AppendRune(text, fold(r))
			n += width(r)
		}
		return extent{exact: []string{string(text)}, max: n}
	case syntax.OpCharClass:
		return class(re.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return extent{max: utf8.UTFMax}
	case syntax.OpCapture:
		return measure(re.Sub[0])
	case syntax.OpQuest:
		e := measure(re.Sub[0])
		e.best = nil
		if e.exact != nil {
			e.exact = append(slices.Clone(e.exact), "")
		}
		return e
	case syntax.OpPlus:
		once := measure(re.Sub[0])
		return extent{max: once.max, best: once.anchor()}
	case syntax.OpStar, syntax.OpRepeat: // Simplify expands counted repetitions
		return extent{max: measure(re.Sub[0]).max}
	case syntax.OpAlternate:
		return alternate(re.Sub)
	case syntax.OpConcat:
		return concat(re.Sub)
	}
	return extent{exact: []string{""}} // an assertion, or the empty text
}

func class(ranges []rune) extent {
	if len(ranges) == 0 { // [^\x00-\x{10ffff}] matches nothing
		return extent{}
	}
	e := extent{max: width(ranges[len(ranges)-1])}
	var exact []string
	for i := 0; i < len(ranges); i += 2 {
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			if s := string(fold(r)); !slices.Contains(exact, s) {
				exact = append(exact, s)
			}
			if len(exact) > maxClass {
				return e
			}
		}
	}
	e.exact = exact
	return e
}

func alternate(subs []*syntax.Regexp) extent {
	out := extent{exact: []string{}, best: &anchor{}}
	for _, sub := range subs {
		e := measure(sub)
		out.max = max(out.max, e.max)
		if out.exact != nil && e.exact != nil && len(out.exact)+len(e.exact) <= maxExact {
			out.exact = append(out.exact, e.exact...)
		} else {
			out.exact = nil
		}
		if a := e.anchor(); a != nil && out.best != nil {
			out.best.literals = append(out.best.literals, a.literals...)
			out.best.before, out.best.after = max(out.best.before, a.before), max(out.best.after, a.after)
		} else {
			out.best = nil
		}
	}
	if out.best != nil {
		out.best = newAnchor(out.best.literals, out.best.before, out.best.after)
	}
	return out
}

func concat(subs []*syntax.Regexp) extent {
	parts := make([]extent, len(subs))
	total := 0
	for i, sub := range subs {
		parts[i] = measure(sub)
		total += parts[i].max
	}
	out := extent{max: total}
	consider := func(a *anchor, start, end int) { // start and end: the greatest lengths of the text before the part, and up to its end
		if a != nil {
			out.best = rarer(out.best, &anchor{a.literals, start + a.before, a.after + total - end})
		}
	}
	run, start, end := []string{""}, 0, 0 // the texts of the current run of exact parts
	whole := true
	flush := func(next []string, at int) {
		if !slices.Contains(run, "") {
			consider(newAnchor(run, 0, end-start), start, end)
		}
		run, start, whole = next, at, false
	}
	for i, p := range parts {
		switch {
		case p.exact != nil && len(run)*len(p.exact) <= maxExact:
			run = product(run, p.exact)
		case p.exact != nil:
			flush(p.exact, end)
		default:
			consider(p.best, end, end+p.max)
			last, at := []string{""}, end+p.max // a repetition begins and ends with its operand
			if subs[i].Op == syntax.OpPlus {
				if e := measure(subs[i].Sub[0]); e.exact != nil && len(run)*len(e.exact) <= maxExact {
					last, at = e.exact, end
					run = product(run, last)
				}
			}
			end += p.max
			flush(last, at)
			continue
		}
		end += p.max
	}
	if whole {
		return extent{exact: run, max: total}
	}
	flush(nil, 0)
	return out
}

func product(a, b []string) []string {
	out := make([]string, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			if s := x + y; !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	return out
}

// rarer returns the anchor whose most frequent literal is rarer in prose.
func rarer(a, b *anchor) *anchor {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	ra, rb := a.rarity(), b.rarity()
	if rb > ra || rb == ra && len(b.literals) < len(a.literals) {
		return b
	}
	return a
}

func (a *anchor) rarity() int {
	least := 1 << 10
	for _, s := range a.literals {
		n := 0
		for _, r := range s {
			switch {
			case r == ' ':
			case r >= utf8.RuneSelf:
				n += 2
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '.', r == ',', r == '-', r == '\'', r == ':':
				n++
			default:
				n += 4
			}
		}
		least = min(least, n)
	}
	return min(least, 8) // longer literals are all rare
}

// fold maps characters that (?i) treats as equal to one of them, every digit to 0, and
// every ASCII white space to a space: one literal then stands for many.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		return rune(foldASCII[r])
	}
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	if least < utf8.RuneSelf {
		least = rune(foldASCII[least])
	}
	return least
}

var foldASCII = func() (to [utf8.RuneSelf]byte) {
	for c := range byte(utf8.RuneSelf) {
		switch {
		case 'A' <= c && c <= 'Z':
			to[c] = c + 'a' - 'A'
		case '0' <= c && c <= '9':
			to[c] = '0'
		case '\t' <= c && c <= '\r':
			to[c] = ' '
		default:
			to[c] = c
		}
	}
	return to
}()

// width returns the greatest length in bytes of a character that (?i) treats as equal to
// r.
func width(r rune) int {
	n := utf8.RuneLen(r)
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		n = max(n, utf8.RuneLen(next))
	}
	return n
}

func widthOf(folded string) int {
	n := 0
	for _, r := range folded {
		n += width(r)
	}
	return n
}
