package lexicon

import (
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// alphabet has the characters of which the matches of a pattern consist.
type alphabet struct {
	repeats bool                // without bound, as in \s+
	runes   []rune              // as ranges
	ascii   [utf8.RuneSelf]bool // those of ASCII
}

func (a *alphabet) collect(re *syntax.Regexp) {
	add := func(from, to rune) {
		a.runes = append(a.runes, from, to)
		for c := from; c <= min(to, utf8.RuneSelf-1); c++ {
			a.ascii[c] = true
		}
	}
	switch re.Op {
	case syntax.OpStar, syntax.OpPlus:
		a.repeats = true
	case syntax.OpLiteral:
		for _, c := range re.Rune {
			add(c, c)
			for next := unicode.SimpleFold(c); next != c; next = unicode.SimpleFold(next) {
				add(next, next)
			}
		}
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			add(re.Rune[i], re.Rune[i+1])
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		add(0, unicode.MaxRune)
	}
	for _, sub := range re.Sub {
		a.collect(sub)
	}
}

func (a *alphabet) has(c rune) bool {
	if c < utf8.RuneSelf {
		return a.ascii[c]
	}
	for i := 0; i < len(a.runes); i += 2 {
		if a.runes[i] <= c && c <= a.runes[i+1] {
			return true
		}
	}
	return false
}

// reach returns the spans in which matches with the literals that end in some sorted spans
// can lie: as far as the text has the characters of the pattern, but without an unbounded
// repetition no farther than the longest match, and one more character, at which a word
// boundary looks. No part of the text is walked over twice.
func (p *part) reach(text string, around []span) (out []span) {
	most := p.most
	if p.alphabet.repeats {
		most = len(text)
	}
	end := 0 // of the last span
	for _, s := range around {
		first, last := max(end, s.from-most), min(len(text), s.to+most)
		for s.from > first {
			c, n := utf8.DecodeLastRuneInString(text[:s.from])
			if !p.alphabet.has(c) {
				break
			}
			s.from -= n
		}
		for s.to = max(s.to, end); s.to < last; {
			c, n := utf8.DecodeRuneInString(text[s.to:])
			if !p.alphabet.has(c) {
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
