package lexicon

import (
	"cmp"
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

const unbounded = 1 << 29 // the least length of a repetition without bound; no text is as long, and two are an int

// extent describes the matches of an expression: all their folded texts (nil if there are
// too many), the greatest length in bytes, and an anchor, the case-folded literals of which
// every match contains one and which are the rarest (nil if there are none).
type extent struct {
	exact  []string
	max    int
	anchor []string
}

// shortest truncates literals, trims leading spaces, and drops literals with another
// literal as a prefix.
func shortest(literals []string) (short []string) {
	trimmed := make([]string, 0, len(literals))
	for _, s := range literals {
		trimmed = append(trimmed, cmp.Or(strings.TrimLeft(s, " "), s))
	}
	slices.Sort(trimmed)
	for _, s := range trimmed {
		if len(short) == 0 || !strings.HasPrefix(s, short[len(short)-1]) {
			short = append(short, terms.Truncate(s, maxLiteral))
		}
	}
	return short
}

// literals returns the rarest anchor of an expression, its own texts included.
func (e extent) literals() []string {
	if e.exact == nil || slices.Contains(e.exact, "") {
		return e.anchor
	}
	return rarer(e.anchor, shortest(e.exact))
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
		e.anchor = nil
		if e.exact != nil {
			e.exact = append(slices.Clone(e.exact), "")
		}
		return e
	case syntax.OpPlus:
		return extent{max: unbounded, anchor: measure(re.Sub[0]).literals()}
	case syntax.OpStar: // Simplify expands counted repetitions
		return extent{max: unbounded}
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
	out := extent{exact: []string{}}
	var literals []string
	all := true // every branch has an anchor
	for _, sub := range subs {
		e := measure(sub)
		out.max = max(out.max, e.max)
		if out.exact != nil && e.exact != nil && len(out.exact)+len(e.exact) <= maxExact {
			out.exact = append(out.exact, e.exact...)
		} else {
			out.exact = nil
		}
		own := e.literals()
		literals, all = append(literals, own...), all && own != nil
	}
	if all {
		out.anchor = shortest(literals)
	}
	return out
}

func concat(subs []*syntax.Regexp) (out extent) {
	run, whole := []string{""}, true // the texts of the current run of exact parts
	flush := func(next []string) {
		out.anchor = extent{exact: run, anchor: out.anchor}.literals()
		run, whole = next, false
	}
	for _, sub := range subs {
		p := measure(sub)
		out.max = min(out.max+p.max, unbounded)
		switch {
		case p.exact != nil && len(run)*len(p.exact) <= maxExact:
			run = product(run, p.exact)
		case p.exact != nil:
			flush(p.exact)
		default:
			out.anchor = rarer(out.anchor, p.anchor)
			last := []string{""} // a repetition begins and ends with its operand
			if sub.Op == syntax.OpPlus {
				if e := measure(sub.Sub[0]); e.exact != nil && len(run)*len(e.exact) <= maxExact {
					last = e.exact
					run = product(run, last)
				}
			}
			flush(last)
		}
	}
	if whole {
		return extent{exact: run, max: out.max}
	}
	flush(nil)
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
func rarer(a, b []string) []string {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	ra, rb := rarity(a), rarity(b)
	if rb > ra || rb == ra && len(b) < len(a) {
		return b
	}
	return a
}

func rarity(literals []string) int {
	least := 1 << 10
	for _, s := range literals {
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
