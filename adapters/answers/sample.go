package answers

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// sampleDepth bounds how deep kinds nest in a sample.
const sampleDepth = 3

// Sample returns an answer of a route with every claimed member, for tests, and the number
// of objects in it. Each object also gets the members in add.
func (t *Table) Sample(route string, add map[string]any) (body []byte, objects int) {
	s := sampling{add: add}
	body, _ = json.Marshal(s.value(t.answers[route], 0)) // made of maps, lists and strings
	return body, s.objects
}

// SampleFailed returns an error answer in which every string is says.
func (t *Table) SampleFailed(says string) []byte {
	s := sampling{says: says}
	body, _ := json.Marshal(s.value(t.failed, 0))
	return body
}

// SampleEvent returns an event of a route's stream; nil if the route has none. If says is
// set, it is the value of every string of an error in the event.
func (t *Table) SampleEvent(route string, add map[string]any, says string) (event []byte, objects int) {
	if t.events[route] == nil {
		return nil, 0
	}
	s := sampling{add: add, errors: says}
	body, _ := json.Marshal(s.value(t.events[route], 0))
	return append(append([]byte("data: "), body...), "\n\n"...), s.objects
}

type sampling struct {
	add     map[string]any
	says    string // the value of every string, if set
	errors  string // the value of strings of errors
	objects int
}

func (s *sampling) value(of *spec, depth int) any {
	switch {
	case of.object != nil && depth <= sampleDepth:
		return s.object(of.object, depth)
	case of.list != nil:
		return []any{s.value(of.list, depth+1)}
	case of.dict != nil:
		return map[string]any{"name": s.value(of.dict, depth+1)}
	case of.any:
		return map[string]any{"anything": "at all"}
	case of.object != nil:
		return nil
	case s.says != "":
		return s.says
	case of.phrases != nil:
		return cmp.Or(s.errors, "Not Found")
	}
	return "s"
}

func (s *sampling) object(o *object, depth int) map[string]any {
	out := map[string]any{}
	for name, m := range o.members {
		if m.only != nil {
			out[name] = slices.Min(m.only)
			continue
		}
		out[name] = s.value(m.spec, depth+1)
	}
	if o.rest == nil {
		s.objects++
		maps.Copy(out, s.add)
	}
	return out
}
