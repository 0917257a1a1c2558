package embedded

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// grammar is how a dialect reads unknown fields in filters: the platform refuses them,
// the engine treats them as metadata.
type grammar bool

const (
	platform grammar = true
	engine   grammar = false
)

// filter returns a predicate for a filter. Its members are combined with AND; a member OR
// is ignored if there is also a member AND.
func (g grammar) filter(filter object) (func(*memory) bool, error) {
	if _, err := g.passes(&memory{}, filter); err != nil {
		return nil, err
	}
	return func(m *memory) bool {
		ok, err := g.passes(m, filter)
		return ok && err == nil
	}, nil
}

func (g grammar) passes(m *memory, filter object) (ok bool, err error) {
	ok = true
	for key, want := range filter {
		is := false
		switch key {
		case "AND", "OR", "NOT":
			if key == "OR" && filter["AND"] != nil {
				continue
			}
			is, err = g.list(m, key, want)
		default:
			is, err = g.field(m, key, want)
		}
		if err != nil {
			return false, err
		}
		ok = ok && is
	}
	return ok, nil
}

func (g grammar) list(m *memory, key string, want any) (bool, error) {
	list, isList := want.([]any)
	if !isList {
		list = []any{want}
	}
	passed := 0
	for _, item := range list {
		sub, _ := item.(object)
		ok, err := g.passes(m, sub)
		if err != nil {
			return false, err
		}
		if ok {
			passed++
		}
	}
	switch key {
	case "AND":
		return passed == len(list), nil
	case "OR":
		return passed > 0, nil
	}
	return passed == 0, nil
}

// field compares a memory's field with a value or with operators.
func (g grammar) field(m *memory, key string, want any) (bool, error) {
	have, known := m.field(key)
	if g == platform && key == "metadata" {
		fields, _ := want.(object)
		return engine.passes(m, fields)
	}
	switch {
	case !known && g == platform:
		return false, badRequest("unsupported filter field: %s", key)
	case !known:
		have = m.metadata[key]
	}
	if want == "*" { // any value; the engine ignores the condition
		return have != nil || g == engine, nil
	}
	ops, isObject := want.(object)
	if !isObject {
		ops = object{"eq": want}
		if _, isList := want.([]any); isList {
			ops = object{"in": want}
		}
	}
	for op, value := range ops {
		holds := operators[op]
		if holds == nil {
			return false, badRequest("unsupported operator for %s: %s", key, op)
		}
		if !holds(have, value) {
			return false, nil
		}
	}
	return true, nil
}

// operators compare a memory's value with the wanted one.
var operators = map[string]func(have, want any) bool{
	"eq":        reflect.DeepEqual,
	"ne":        func(have, want any) bool { return !reflect.DeepEqual(have, want) },
	"in":        in,
	"nin":       func(have, want any) bool { return !in(have, want) },
	"gt":        func(have, want any) bool { return ordered(have, want, 1) },
	"gte":       func(have, want any) bool { return ordered(have, want, 1) || ordered(have, want, 0) },
	"lt":        func(have, want any) bool { return ordered(have, want, -1) },
	"lte":       func(have, want any) bool { return ordered(have, want, -1) || ordered(have, want, 0) },
	"contains":  contains,
	"icontains": contains,
}

func in(have, want any) bool {
	list, _ := want.([]any)
	return slices.ContainsFunc(list, func(v any) bool { return reflect.DeepEqual(have, v) })
}

func contains(have, want any) bool {
	if list, isList := have.([]any); isList {
		return in(want, list)
	}
	text, isText := have.(string)
	word, isWord := want.(string)
	return isText && isWord && strings.Contains(strings.ToLower(text), strings.ToLower(word))
}

// ordered compares numbers, and times as text.
func ordered(have, want any, as int) bool {
	x, isNumber := have.(json.Number)
	y, isOther := want.(json.Number)
	if isNumber && isOther {
		f, _ := x.Float64()
		g, _ := y.Float64()
		return cmp.Compare(f, g) == as
	}
	a, isText := have.(string)
	b, isWord := want.(string)
	return isText && isWord && strings.Compare(a, b) == as
}

// field returns a memory's field by the platform's name.
func (m *memory) field(key string) (have any, known bool) {
	switch key {
	case "user_id", "agent_id", "app_id", "run_id":
		return orNull(m.of[strings.TrimSuffix(key, "_id")]), true
	case "created_at", "timestamp":
		return m.created, true
	case "updated_at":
		return m.updated, true
	case "expiration_date":
		return m.expires, true
	case "keywords", "text":
		return m.text, true
	case "memory_ids":
		return m.id, true
	case "metadata", "categories": // this backend assigns no categories
		return nil, true
	}
	return nil, false
}
