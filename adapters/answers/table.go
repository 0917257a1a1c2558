package answers

import (
	"fmt"
	"slices"
	"strings"
)

// Table describes a backend's answers, and implements the gate's Adapter for pruning them.
type Table struct {
	answers map[string]*spec // by route
	events  map[string]*spec // events of a stream, by route
	kinds   map[string]map[string]string
	objects map[string]*object
	failed  *spec // answers that are not 2xx
	phrases *phrases
}

// Failed is the name of a table's entry for errors.
const Failed = "!"

// spec is the set of allowed forms of one value. Null is always claimed, because it carries
// no data.
type spec struct {
	any, raw, scalar bool
	object           *object
	list             *spec
	dict             *member // every member of an object
	// phrases is set for strings of errors. text is set if they must be phrases; otherwise
	// plain names are claimed as well.
	phrases *phrases
	text    bool
}

// object is the set of allowed forms of an object's members.
type object struct {
	members map[string]*member
	rest    *member // every member without a line; nil: not claimed
}

type member struct {
	spec *spec
	only []string // the allowed values, if it identifies the object's kind
	// identifies is set for members that identify an object or its owner. If such a member
	// has another form than its line says, the whole object has no claim, because without
	// the member it would seem to have no owner.
	identifies bool
}

// identifies reports whether a member of that name identifies an object or its owner.
func identifies(name string) bool {
	return name == "id" || strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "_ids")
}

// MustParse parses a table that is embedded at build time.
func MustParse(texts ...string) *Table {
	t, err := Parse(texts...)
	if err != nil {
		panic(err)
	}
	return t
}

// Parse reads a table. Lines are
//
//	answer ROUTE SPEC    the answers of a route; ROUTE ! is for errors
//	event ROUTE SPEC     the events of its stream
//	kind NAME            a kind of object, whose members follow
//	  MEMBER SPEC        one of its members; * is every other one
//	phrase TEXT          a text of errors; {n} is a number, {name} a plain
//	                     name, {names} quoted ones in a list, {phrase} a phrase
//
// and a spec is s (a string, number, boolean or null), text (a string that is a
// phrase, else it is withheld), name (a phrase or plain name), * (anything), =word
// (that word), [SPEC] (a list), {SPEC} (an object with any members), raw (a
// body that need not be JSON) or the name of a kind, or several of these with
// | between them. A kind that occurs twice has the members of both; of a route that
// occurs twice the last line counts. If the id or *_id of an object is of another
// form than its line says, the whole object has no claim.
func Parse(texts ...string) (*Table, error) {
	t := &Table{
		answers: map[string]*spec{}, events: map[string]*spec{},
		kinds: map[string]map[string]string{}, objects: map[string]*object{}, phrases: &phrases{},
	}
	routes := [2]map[string]string{{}, {}}
	for _, text := range append([]string{framework}, texts...) {
		kind := ""
		for n, line := range strings.Split(text, "\n") {
			words := strings.Fields(line)
			switch {
			case len(words) == 0 || strings.HasPrefix(words[0], "#"):
			case words[0] == "kind" && len(words) == 2 && line[0] == 'k':
				if kind = words[1]; t.kinds[kind] == nil {
					t.kinds[kind] = map[string]string{}
				}
			case words[0] == "phrase" && len(words) > 1 && line[0] == 'p':
				*t.phrases = append(*t.phrases, parsePhrase(strings.TrimPrefix(line, "phrase ")))
			case words[0] == "answer" && len(words) == 3 && line[0] == 'a':
				routes[0][words[1]] = words[2]
			case words[0] == "event" && len(words) == 3 && line[0] == 'e':
				routes[1][words[1]] = words[2]
			case kind != "" && len(words) == 2 && strings.ContainsAny(line[:1], " \t"):
				t.kinds[kind][words[0]] = words[1]
			default:
				return nil, fmt.Errorf("answers: line %d: syntax error in %q", n+1, line)
			}
		}
	}
	for i, out := range [...]map[string]*spec{t.answers, t.events} {
		for route, text := range routes[i] {
			s, err := t.spec(text)
			if err != nil {
				return nil, fmt.Errorf("answers: %s: %w", route, err)
			}
			out[route] = s
		}
	}
	for kind := range t.kinds { // also compiles kinds that no route uses
		if _, err := t.object([]string{kind}); err != nil {
			return nil, fmt.Errorf("answers: %w", err)
		}
	}
	for _, members := range t.kinds { // paths in errors contain member names, some longer than a token
		for name := range members {
			if !isToken(name) {
				*t.phrases = append(*t.phrases, []part{{text: name}})
			}
		}
	}
	t.failed = t.answers[Failed]
	delete(t.answers, Failed)
	return t, nil
}

// alternatives splits a spec at the bars outside of brackets.
func alternatives(text string) ([]string, error) {
	var out []string
	depth, from := 0, 0
	for i, c := range text {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth < 0 {
				return nil, fmt.Errorf("%q has an unmatched closing bracket", text)
			}
		case '|':
			if depth == 0 {
				out, from = append(out, text[from:i]), i+1
			}
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("%q has an unclosed bracket", text)
	}
	return append(out, text[from:]), nil
}

func (t *Table) spec(text string) (*spec, error) {
	alts, err := alternatives(text)
	if err != nil {
		return nil, err
	}
	s := &spec{}
	var lists, dicts, kinds []string
	for _, alt := range alts {
		switch {
		case alt == "*":
			s.any = true
		case alt == "raw":
			s.raw = true
		case alt == "s", strings.HasPrefix(alt, "="):
			s.scalar = true
		case alt == "text", alt == "name":
			s.phrases, s.text = t.phrases, s.text || alt == "text"
		case strings.HasPrefix(alt, "[") && strings.HasSuffix(alt, "]"):
			lists = append(lists, alt[1:len(alt)-1])
		case strings.HasPrefix(alt, "{") && strings.HasSuffix(alt, "}"):
			dicts = append(dicts, alt[1:len(alt)-1])
		case t.kinds[alt] != nil:
			kinds = append(kinds, alt)
		default:
			return nil, fmt.Errorf("unknown kind %q", alt)
		}
	}
	if len(lists) > 0 {
		if s.list, err = t.spec(strings.Join(lists, "|")); err != nil {
			return nil, err
		}
	}
	if len(dicts) > 0 {
		of, err := t.spec(strings.Join(dicts, "|"))
		if err != nil {
			return nil, err
		}
		s.dict = &member{spec: of}
	}
	if len(kinds) > 0 {
		s.object, err = t.object(kinds)
	}
	return s, err
}

// object compiles an object of several kinds. It may have the members of all kinds, and a
// member that identifies the kind must name one of them.
func (t *Table) object(kinds []string) (*object, error) {
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	key := strings.Join(kinds, "|")
	if o := t.objects[key]; o != nil {
		return o, nil
	}
	o := &object{members: map[string]*member{}}
	t.objects[key] = o // before its members, because a kind may contain itself
	texts := map[string][]string{}
	for _, kind := range kinds {
		for name, text := range t.kinds[kind] {
			texts[name] = append(texts[name], text)
		}
	}
	for name, all := range texts {
		slices.Sort(all)
		s, err := t.spec(strings.Join(slices.Compact(all), "|"))
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", name, key, err)
		}
		if name == "*" {
			o.rest = &member{spec: s}
			continue
		}
		m := &member{spec: s, identifies: identifies(name)}
		if len(all) == len(kinds) && !slices.ContainsFunc(all, func(text string) bool { return !strings.HasPrefix(text, "=") }) {
			for _, text := range all {
				m.only = append(m.only, text[1:])
			}
		}
		o.members[name] = m
	}
	return o, nil
}
