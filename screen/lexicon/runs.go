package lexicon

import (
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// repetitions describes the unbounded repetitions of a pattern, as in \s+: a match is as
// long as the text has repeatable characters in a row.
type repetitions struct {
	count  int
	length int                 // greatest length in bytes of a match with each repetition once
	runes  []rune              // characters of all repetitions, as ranges
	ascii  [utf8.RuneSelf]bool // those of ASCII
}

func repetitionsOf(x expression) repetitions {
	r := repetitions{length: x.max}
	r.collect(x.simple, false)
	for c := range r.ascii {
		r.ascii[c] = r.within(rune(c))
	}
	return r
}

func (r *repetitions) collect(re *syntax.Regexp, repeated bool) {
	if re.Op == syntax.OpStar || re.Op == syntax.OpPlus {
		r.count++
		repeated = true
	}
	switch {
	case !repeated:
	case re.Op == syntax.OpLiteral:
		for _, c := range re.Rune {
			r.runes = append(r.runes, c, c)
			for next := unicode.SimpleFold(c); next != c; next = unicode.SimpleFold(next) {
				r.runes = append(r.runes, next, next)
			}
		}
	case re.Op == syntax.OpCharClass:
		r.runes = append(r.runes, re.Rune...)
	case re.Op == syntax.OpAnyChar, re.Op == syntax.OpAnyCharNotNL:
		r.runes = append(r.runes, 0, unicode.MaxRune)
	}
	for _, sub := range re.Sub {
		r.collect(sub, repeated)
	}
}

func (r *repetitions) has(c rune) bool {
	return c < utf8.RuneSelf && r.ascii[c] || c >= utf8.RuneSelf && r.within(c)
}

func (r *repetitions) within(c rune) bool {
	for i := 0; i < len(r.runes); i += 2 {
		if r.runes[i] <= c && c <= r.runes[i+1] {
			return true
		}
	}
	return false
}

// extend extends spans so that no repetition is cut off at either end. A repetition
// begins within a match's length of the literal, or of the end of another repetition. So
// each end moves over repeatable characters and then by that length, once per repetition.
// Spans are sorted, and so are the runs that each step moves over, so that each run is
// walked once and the work is linear.
func (r *repetitions) extend(text string, around []span) []span {
	if r.count == 0 || len(around) == 0 {
		return around
	}
	var out []span
	steps := make([][2]span, r.count)
	more := r.length + utf8.UTFMax
	for _, s := range around {
		for i := range steps {
			s.from = max(0, r.back(text, &steps[i][0], s.from)-more)
			s.to = min(len(text), r.ahead(text, &steps[i][1], s.to)+more)
		}
		out = join(out, s)
	}
	return out
}

// ahead returns the end of the run of repeatable characters at at. known caches the last
// run.
func (r *repetitions) ahead(text string, known *span, at int) int {
	if known.from <= at && at < known.to {
		return known.to
	}
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	known.from = at
	for at < len(text) {
		c, n := utf8.DecodeRuneInString(text[at:])
		if !r.has(c) {
			break
		}
		at += n
	}
	known.to = at
	return at
}

// back returns the start of the run of repeatable characters that ends at at. known
// caches the last run.
func (r *repetitions) back(text string, known *span, at int) int {
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	end := at
	for at > 0 {
		if known.from < at && at <= known.to {
			at = known.from
			break
		}
		c, n := utf8.DecodeLastRuneInString(text[:at])
		if !r.has(c) {
			break
		}
		at -= n
	}
	*known = span{at, end}
	return at
}

// join adds a span to a sorted list and merges it with those that it touches.
func join(list []span, s span) []span {
	for n := len(list); n > 0 && s.from <= list[n-1].to; n-- {
		s.from, s.to = min(s.from, list[n-1].from), max(s.to, list[n-1].to)
		list = list[:n-1]
	}
	return append(list, s)
}
