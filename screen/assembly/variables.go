package assembly

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy/screen/terms"
)

// def gives a name a meaning; the name is in lower case.
type def struct {
	name  string
	value span
}

// use stands for a named meaning: text[from:to] is replaced by it.
type use struct {
	name string
	at   span
}

const (
	maxDefs    = 8
	maxUses    = 16
	maxDefName = 40
	maxName    = 3 // words in a name
)

const meansWords = "means equals denotes signifies"

// definitions finds what s gives a name to, by line: "x = …", "let x be …",
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

// definition reads the line that s ends with, of these words.
func definition(s string, words []word) (def, bool) {
	if len(words) < 2 {
		return def{}, false
	}
	first := 0
	switch fold(s, words, 0) {
	case "let", "define", "set", "var", "const", "remember", "note", "def", "call", "the":
		first = 1
	}
	// The name ends where a sign or a word says that its meaning follows.
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

// runWords stand before a name that is to be put into action.
const runWords = "run execute activate follow perform apply trigger start invoke use launch do call eval print decode expand initiate"

// uses finds where s stands for something that is named elsewhere: $x, ${x},
// {x}, {{x}}, x + y, "execute protocol omega".
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
				out = ran(out, s, words[i+1:])
			}
		}
	}
	return out
}

// ran appends what is run by the word before words: what the next ones name, the longest
// name first.
func ran(out []use, s string, words []word) []use {
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

// bracketed widens a word to the marks of a variable around it.
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

// variables replaces names by the meanings that other writes gave them: in the
// new texts by the earlier meanings, in the earlier texts by the new ones.
func (j *joiner) variables() {
	type meaning struct {
		p     *piece
		value span
	}
	if !slices.ContainsFunc(j.all, func(p *piece) bool { return len(p.uses) > 0 }) {
		return // most sessions
	}
	known := map[string]meaning{}
	for _, p := range j.all { // the latest meaning wins
		for _, d := range p.defs {
			known[d.name] = meaning{p, d.value}
		}
	}
	if len(known) == 0 {
		return
	}
	for i := len(j.all) - 1; i >= 0; i-- {
		p := j.all[i]
		var d draft
		at := 0
		for _, u := range p.uses {
			m, ok := known[u.name]
			if !ok || m.p == p || u.at.from < at {
				continue
			}
			// A plus between two names joins their meanings.
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
