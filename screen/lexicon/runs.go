package lexicon

import (
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// alphabet has the characters of which the matches of a pattern consist, if it has an
// unbounded repetition, as in \s+: a match is as long as the text has such characters in a
// row. It is empty for other patterns.
type alphabet struct {
	repeats bool
	runes   []rune              // as ranges
	ascii   [utf8.RuneSelf]bool // those of ASCII
}

func alphabetOf(x expression) (a alphabet) {
	if a.collect(x.simple); !a.repeats {
		return alphabet{}
	}
	for c := range a.ascii {
		a.ascii[c] = a.within(rune(c))
	}
	return a
}

func (a *alphabet) collect(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpStar, syntax.OpPlus:
		a.repeats = true
	case syntax.OpLiteral:
		for _, c := range re.Rune {
			a.runes = append(a.runes, c, c)
			for next := unicode.SimpleFold(c); next != c; next = unicode.SimpleFold(next) {
				a.runes = append(a.runes, next, next)
			}
		}
	case syntax.OpCharClass:
		a.runes = append(a.runes, re.Rune...)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		a.runes = append(a.runes, 0, unicode.MaxRune)
	}
	for _, sub := range re.Sub {
		a.collect(sub)
	}
}

func (a *alphabet) has(c rune) bool {
	return c < utf8.RuneSelf && a.ascii[c] || c >= utf8.RuneSelf && a.within(c)
}

func (a *alphabet) within(c rune) bool {
	for i := 0; i < len(a.runes); i += 2 {
		if a.runes[i] <= c && c <= a.runes[i+1] {
			return true
		}
	}
	return false
}

// extend extends spans, which are sorted, so that no repetition is cut off at either end,
// and by one more character. No part of the text is walked over twice.
func (a *alphabet) extend(text string, around []span) []span {
	if !a.repeats {
		return around
	}
	var out []span
	end := 0 // of the last span
	for _, s := range around {
		for s.from > end { // it may be inside of a character
			c, n := utf8.DecodeLastRuneInString(text[:s.from])
			if !a.has(c) && utf8.RuneStart(text[s.from]) {
				break
			}
			s.from -= n
		}
		for s.to = max(s.to, end); s.to < len(text); {
			c, n := utf8.DecodeRuneInString(text[s.to:])
			if !a.has(c) && utf8.RuneStart(text[s.to]) {
				break
			}
			s.to += n
		}
		end = s.to
		out = join(out, span{max(0, s.from-utf8.UTFMax), min(len(text), s.to+utf8.UTFMax)})
	}
	return out
}

// join adds a span to a sorted list and merges it with those that it touches.
func join(list []span, s span) []span {
	for n := len(list); n > 0 && s.from <= list[n-1].to; n-- {
		s.from, s.to = min(s.from, list[n-1].from), max(s.to, list[n-1].to)
		list = list[:n-1]
	}
	return append(list, s)
}
