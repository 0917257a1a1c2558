package answerstest

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// sampleDepth bounds how deep kinds nest in a sample.
const sampleDepth = 3

// rows are the lines of a table, which answers.Parse describes.
type rows struct {
	kinds           map[string]map[string]string // specs by kind and member
	answers, events map[string]string            // specs by route
}

func readRows(texts []string) rows {
	r := rows{map[string]map[string]string{}, map[string]string{}, map[string]string{}}
	for _, text := range texts {
		kind := ""
		for line := range strings.Lines(text) {
			words := strings.Fields(line)
			switch {
			case line[0] == '\t':
				r.kinds[kind][words[0]] = words[1]
			case strings.HasPrefix(line, "answer "):
				r.answers[words[1]] = words[2]
			case strings.HasPrefix(line, "event "):
				r.events[words[1]] = words[2]
			case strings.HasPrefix(line, "kind "):
				if kind = words[1]; r.kinds[kind] == nil {
					r.kinds[kind] = map[string]string{}
				}
			}
		}
	}
	return r
}

// sample makes an answer with every claimed member.
type sample struct {
	rows
	add     map[string]any // members that each object gets as well
	says    string         // the value of every string, if set
	errors  string         // the value of strings of errors
	objects int            // number of objects that take no unknown member
}

func (s *sample) body(spec string) []byte {
	body, _ := json.Marshal(s.value([]string{spec}, 0)) // made of maps, lists and strings
	return body
}

func (s *sample) event(spec string) []byte {
	return append(append([]byte("data: "), s.body(spec)...), "\n\n"...)
}

// value returns a value of one of the specs.
func (s *sample) value(specs []string, depth int) any {
	var kinds, lists, dicts []string
	for _, spec := range specs {
		for _, alt := range alternatives(spec) {
			switch {
			case s.kinds[alt] != nil:
				kinds = append(kinds, alt)
			case alt[0] == '[':
				lists = append(lists, alt[1:len(alt)-1])
			case alt[0] == '{':
				dicts = append(dicts, alt[1:len(alt)-1])
			}
		}
	}
	has := func(word string) bool {
		return slices.ContainsFunc(specs, func(spec string) bool { return slices.Contains(alternatives(spec), word) })
	}
	switch {
	case len(kinds) > 0 && depth <= sampleDepth:
		return s.object(kinds, depth)
	case len(lists) > 0:
		return []any{s.value(lists, depth+1)}
	case len(dicts) > 0:
		return map[string]any{"name": s.value(dicts, depth+1)}
	case has("*"):
		return map[string]any{"anything": "at all"}
	case len(kinds) > 0:
		return nil
	case s.says != "":
		return s.says
	case has("text") || has("name"):
		return cmp.Or(s.errors, "Not Found")
	}
	return "s"
}

// object returns an object with the members of all kinds.
func (s *sample) object(kinds []string, depth int) any {
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	members := map[string][]string{}
	for _, kind := range kinds {
		for name, spec := range s.kinds[kind] {
			members[name] = append(members[name], spec)
		}
	}
	rest := members["*"]
	delete(members, "*")
	out := map[string]any{}
	for name, specs := range members {
		if word, identifies := strings.CutPrefix(slices.Min(specs), "="); identifies && len(specs) == len(kinds) {
			out[name] = word
			continue
		}
		out[name] = s.value(specs, depth+1)
	}
	if rest == nil {
		s.objects++
		maps.Copy(out, s.add)
	}
	return out
}

// alternatives splits a spec at the bars outside of brackets.
func alternatives(spec string) (out []string) {
	depth, from := 0, 0
	for i, c := range spec {
		switch {
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == '|' && depth == 0:
			out, from = append(out, spec[from:i]), i+1
		}
	}
	return append(out, spec[from:])
}
