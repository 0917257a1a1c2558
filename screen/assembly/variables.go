package assembly

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

// def is the definition of a name, which is in lower case.
type def struct {
	name  string
	value span
}

// use is a reference to a defined name, whose span is replaced by the definition.
type use struct {
	name string
	at   span
}

const (
	maxDefs    = 8
	maxUses    = 16
	maxDefName = 40
	maxName    = 3 // the most words of a name
)

const meansWords = "means equals denotes signifies"

// definitions returns the definitions in s, at most one per line: "x = …", "let x be …",
// "Protocol Omega: …", "x means …".
func definitions(s string, words []word) []def {
	var out []def
	for from := 0; from < len(s) && len(out) < maxDefs; {
		to := lineEnds.Find(s, from)
		if d, ok := definition(s[:to], inside(words, span{from, to})); ok {
			out = append(out, d)
		}
		from = to + 1
	}
	return out
}

var lineEnds = terms.BytesOf("\n;")

// definition parses the last line of s, which has these words.
func definition(s string, words []word) (def, bool) {
	if len(words) < 2 {
		return def{}, false
	}
	first := 0
	switch fold(s, words, 0) {
	case "let", "define", "set", "var", "const", "remember", "note", "def", "call", "the":
		first = 1
	}
	// The name ends before punctuation or a word that introduces its meaning.
	for n := first; n < len(words) && n < first+maxName; n++ {
		after := words[n].to
		next := strings.TrimLeft(s[after:min(len(s), after+4)], " \"'`*")
		name := s[words[first].from:after]
		if len(name) > maxDefName {
			break
		}
		var value int
		switch follow := fold(s, words, n+1); {
		case strings.HasPrefix(next, ":=") || strings.HasPrefix(next, "="):
			value = after + strings.IndexByte(s[after:], '=') + 1
		case strings.HasPrefix(next, ":") && !strings.HasPrefix(next, "://"):
			value = after + strings.IndexByte(s[after:], ':') + 1
		case n+1 < len(words) && words[n+1].in&meaning != 0:
			value = words[n+1].to
		case first == 1 && (follow == "be" || follow == "as" || follow == "to"):
			value = words[n+1].to
		case follow == "is" && (fold(s, words, n+2) == "to" || first == 1 && fold(s, words, 0) != "the"):
			value = words[n+1].to
		case follow == "stands" && fold(s, words, n+2) == "for":
			value = words[n+2].to
		default:
			continue
		}
		v := trim(s, span{value, len(s)})
		for v.len() > 1 && strings.IndexByte("\"'`", s[v.from]) >= 0 && s[v.from] == s[v.to-1] {
			v = span{v.from + 1, v.to - 1}
		}
		if v.len() > 0 {
			return def{strings.ToLower(name), v}, true
		}
		break
	}
	return def{}, false
}

// runWords precede a name that is to be executed.
const runWords = "run execute activate follow perform apply trigger start invoke use launch do call eval print decode expand initiate"

// uses returns the references to names in s: $x, ${x}, {x}, {{x}}, x + y, "execute
// protocol omega".
func uses(s string, words []word) []use {
	var out []use
	sums := strings.IndexByte(s, '+') >= 0
	for i, w := range words {
		if len(out) == maxUses {
			break
		}
		at, named := bracketed(s, w.span)
		if !named && sums && summed(s, w.span) {
			at, named = w.span, true
		}
		if named || w.in&running != 0 {
			if name := fold(s, words, i); len(name) <= maxDefName && named {
				out = append(out, use{name, at})
			} else if len(name) <= maxDefName {
				out = runNames(out, s, words[i+1:])
			}
		}
	}
	return out
}

// runNames appends the names that may follow a word of runWords, the longest first. words are
// the words after it.
func runNames(out []use, s string, words []word) []use {
	from := 0
	for w := fold(s, words, from); w == "the" || w == "my" || w == "this"; w = fold(s, words, from) {
		from++
	}
	for n := min(maxName, len(words)-from); n >= 1; n-- {
		at := span{words[from].from, words[from+n-1].to}
		if at.len() <= maxDefName {
			out = append(out, use{strings.ToLower(s[at.from:at.to]), at})
		}
	}
	return out
}

var opens = terms.BytesOf("{%<[$")

// bracketed returns the span of a word with the variable syntax around it, and whether
// there is any.
func bracketed(s string, w span) (span, bool) {
	before, after := s[:w.from], s[w.to:]
	if before == "" || !opens[before[len(before)-1]] {
		return span{}, false
	}
	for _, m := range [...]struct{ open, close string }{{"${", "}"}, {"{{", "}}"}, {"{", "}"}, {"%", "%"}, {"<", ">"}, {"[", "]"}, {"$", ""}} {
		if strings.HasSuffix(before, m.open) && strings.HasPrefix(after, m.close) {
			return span{w.from - len(m.open), w.to + len(m.close)}, true
		}
	}
	return span{}, false
}

func summed(s string, w span) bool {
	before, after := strings.TrimRight(s[:w.from], " "), strings.TrimLeft(s[w.to:], " ")
	return strings.HasSuffix(before, "+") || strings.HasPrefix(after, "+")
}

// variables replaces names with the definitions of other writes: in the new texts by
// earlier definitions, and in the earlier texts by new ones.
func (j *joiner) variables() {
	type meaning struct {
		p     *piece
		value span
	}
	if !slices.ContainsFunc(j.all, func(p *piece) bool { return len(p.uses) > 0 }) {
		return // most sessions use no names
	}
	known := map[string]meaning{}
	for _, p := range j.all { // the latest definition wins
		for _, d := range p.defs {
			known[d.name] = meaning{p, d.value}
		}
	}
	if len(known) == 0 {
		return
	}
	for _, p := range slices.Backward(j.all) {
		var d draft
		at := 0
		for _, u := range p.uses {
			m, ok := known[u.name]
			if !ok || m.p == p || u.at.from < at {
				continue
			}
			// A plus between two names concatenates their values.
			if gap := (span{at, u.at.from}); at == 0 || strings.Trim(p.body[gap.from:gap.to], " +") != "" {
				d.take(p, gap)
			}
			d.take(m.p, m.value)
			at = u.at.to
		}
		if at == 0 {
			continue
		}
		d.take(p, span{at, len(p.body)})
		j.emit(Variable, &d)
	}
}
