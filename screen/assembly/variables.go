package assembly

import (
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

var meansWords = terms.Set("means equals denotes signifies")

// definitions finds what s gives a name to, by line: "x = …", "let x be …",
// "Protocol Omega: …", "x means …".
func definitions(s string, words []span) []def {
	var out []def
	for from := 0; from < len(s) && len(out) < maxDefs; {
		to := len(s)
		if at := strings.IndexAny(s[from:], "\n;"); at >= 0 {
			to = from + at
		}
		if d, ok := definition(s[:to], inside(words, span{from, to})); ok {
			out = append(out, d)
		}
		from = to + 1
	}
	return out
}

// definition reads the line that s ends with, of these words.
func definition(s string, words []span) (def, bool) {
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
		case meansWords[follow]:
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
var runWords = terms.Set("run execute activate follow perform apply trigger start invoke use launch do call eval print decode expand initiate")

// uses finds where s stands for something that is named elsewhere: $x, ${x},
// {x}, {{x}}, x + y, "execute protocol omega".
func uses(s string, words []span) []use {
	var out []use
	for i, w := range words {
		if len(out) == maxUses {
			break
		}
		name := fold(s, words, i)
		if len(name) > maxDefName {
			continue
		}
		if at, ok := bracketed(s, w); ok {
			out = append(out, use{name, at})
			continue
		}
		if summed(s, w) {
			out = append(out, use{name, w})
			continue
		}
		if !runWords[name] {
			continue
		}
		// What is run is named in the next words; the longest name first.
		from := i + 1
		for from < len(words) && (fold(s, words, from) == "the" || fold(s, words, from) == "my" || fold(s, words, from) == "this") {
			from++
		}
		for n := min(maxName, len(words)-from); n >= 1; n-- {
			at := span{words[from].from, words[from+n-1].to}
			if at.len() <= maxDefName {
				out = append(out, use{strings.ToLower(s[at.from:at.to]), at})
			}
		}
	}
	return out
}

// bracketed widens a word to the marks of a variable around it.
func bracketed(s string, w span) (span, bool) {
	before, after := s[:w.from], s[w.to:]
	if before == "" || strings.IndexByte("{%<[$", before[len(before)-1]) < 0 {
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
