package assembly

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// part is the number of a piece in a series, 0 if it has none, and the span of the piece
// without the number's mark.
type part struct {
	number int
	rest   span
}

// partPattern matches the mark of a part: brackets, a word, the number, the total, and
// punctuation. "step" is not among the words: instructions for people have steps.
var partPattern = regexp.MustCompile(`(?i)^([(\[*# ]*)(part|pt|chunk|fragment|piece|segment|teil|parça|parte|partie|часть)?[ _#]*(\d{1,3})(?: *(?:/|of )(\d{0,3}))?([)\]*]* *[:.-]*)`)

const maxPart = 64 // the highest number of a part

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
	var m []string
	first := strings.TrimLeft(t, "([*# _") // quick check: most texts begin with no such word or number
	if first != "" && (first[0] >= utf8.RuneSelf || strings.IndexByte("0123456789pcfst", first[0]|0x20) >= 0) && digits.AnyIn(t) {
		m = partPattern.FindStringSubmatch(t)
	}
	if m == nil {
		return 0, 0
	}
	number, _ = strconv.Atoi(m[3])
	total, _ := strconv.Atoi(m[4]) // 0: not stated
	if number == 0 || number > maxPart {
		return 0, 0
	}
	bracket, named := strings.ContainsAny(m[1], "(["), m[2] != ""
	if total > maxPart {
		total = 0
	}
	if total > 0 && number > total || !named && (total < 2 || !bracket && !strings.HasPrefix(m[5], ":") && !strings.HasPrefix(m[5], ")")) {
		return 0, 0
	}
	return number, len(m[0])
}

// parts joins the parts of a series in the order of their numbers. Of two parts with one
// number the later one counts.
func (j *joiner) parts() {
	var found []*piece
	for _, p := range slices.Backward(j.all) {
		if p.part.number == 0 || slices.ContainsFunc(found, func(f *piece) bool { return f.part.number == p.part.number }) {
			continue
		}
		found = append(found, p)
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
