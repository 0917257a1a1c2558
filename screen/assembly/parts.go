package assembly

import (
	"slices"
	"strings"
)

// part is a piece's number in a series; number 0 is none. rest is the piece
// without the mark.
type part struct {
	number int
	rest   span
}

// partWords stand before a number in a series. "step" is not among them:
// steps are what instructions for people have.
var partWords = set("part pt chunk fragment piece segment teil parça parte partie часть")

// maxPart is the highest number that is a part's.
const maxPart = 64

// findPart looks for the mark of a part at the beginning or the end of s:
// "part 1 of 3:", "[2/3]", "(3/3)", "fragment 2 -".
func findPart(s string) part {
	at := trim(s, span{0, len(s)})
	if n, end := partMark(s[at.from:min(at.to, at.from+40)]); n > 0 {
		rest := trim(s, span{at.from + end, at.to})
		return part{n, rest}
	}
	// At the end: a mark in brackets.
	t := s[at.from:at.to]
	if strings.HasSuffix(t, ")") || strings.HasSuffix(t, "]") {
		open := strings.LastIndexAny(t, "([")
		if open > 0 && len(t)-open <= 40 {
			if n, end := partMark(t[open:]); n > 0 && end == len(t)-open {
				return part{n, trim(s, span{at.from, at.from + open})}
			}
		}
	}
	return part{}
}

// partMark reads a mark at the beginning of t and returns the part's number
// and where the mark ends, or 0.
func partMark(t string) (number, end int) {
	i := 0
	skip := func(set string) {
		for i < len(t) && strings.IndexByte(set, t[i]) >= 0 {
			i++
		}
	}
	num := func() int {
		n, from := 0, i
		for i < len(t) && '0' <= t[i] && t[i] <= '9' && i-from < 3 {
			n = n*10 + int(t[i]-'0')
			i++
		}
		if n > maxPart {
			return 0
		}
		return n
	}
	skip("([*# ")
	bracket := i > 0 && strings.ContainsAny(t[:i], "([")
	word := i
	for i < len(t) && t[i] != ' ' && t[i] != '_' && t[i] != '#' && !('0' <= t[i] && t[i] <= '9') {
		i++
	}
	named := partWords[strings.ToLower(t[word:i])]
	if !named && i > word {
		return 0, 0
	}
	skip(" _#")
	n := num()
	if n == 0 {
		return 0, 0
	}
	before := i
	skip(" ")
	total := 0
	switch {
	case i < len(t) && t[i] == '/':
		i++
		total = num()
	case strings.HasPrefix(t[i:], "of "):
		i += 3
		total = num()
	default:
		i = before
	}
	if total > 0 && n > total || !named && (total < 2 || !bracket && (i >= len(t) || t[i] != ':' && t[i] != ')')) {
		return 0, 0
	}
	skip(")]*")
	skip(" ")
	skip(":-.")
	return n, i
}

// parts joins the parts of a series in the order of their numbers; of two with
// one number the later one counts.
func (j *joiner) parts() {
	var found []*piece
	own := false
	for i := len(j.all) - 1; i >= 0; i-- {
		p := j.all[i]
		if p.part.number == 0 || slices.ContainsFunc(found, func(f *piece) bool { return f.part.number == p.part.number }) {
			continue
		}
		found = append(found, p)
		own = own || j.fresh(p)
	}
	if !own || len(found) < 2 {
		return
	}
	slices.SortStableFunc(found, func(a, b *piece) int { return a.part.number - b.part.number })
	var apart, together draft
	for _, p := range found {
		if len(apart.text) > 0 {
			apart.glue(" ")
		}
		apart.take(p, p.part.rest)
		together.take(p, p.part.rest)
	}
	j.emit(Parts, &apart)
	j.emit(Parts, &together)
}
