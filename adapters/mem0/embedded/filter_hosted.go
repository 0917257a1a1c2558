package embedded

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// hostedFilter compiles the platform's filter grammar. Siblings are ANDed, an
// OR next to an AND is silently dropped, "*" means any value, an unknown field
// is an error. The error is the client's to read.
func hostedFilter(node any) (test, error) {
	filter, ok := node.(object)
	if !ok {
		return nil, errors.New("filters must be an object")
	}
	var tests []test
	for key, value := range filter {
		t, err := hostedTerm(key, value, filter)
		if err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	return allOf(tests), nil
}

func hostedTerm(key string, value any, siblings object) (test, error) {
	switch key {
	case "AND", "OR":
		list, ok := value.([]any)
		if !ok {
			return nil, fmt.Errorf("%s must be a list", key)
		}
		tests, err := hostedFilters(list)
		if err != nil || key == "AND" {
			return allOf(tests), err
		}
		if _, beside := siblings["AND"]; beside {
			return always, nil
		}
		return anyOf(tests), nil
	case "NOT":
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		tests, err := hostedFilters(list)
		return not(anyOf(tests)), err
	case "user_id", "agent_id", "app_id", "run_id":
		kind := strings.TrimSuffix(key, "_id")
		return hostedField(key, value, operators, func(m *memory) any { return orNull(m.entity(kind)) }, "eq", "ne", "in")
	case "created_at", "timestamp":
		return hostedField(key, value, ofMoments, func(m *memory) any { return m.created })
	case "updated_at":
		return hostedField(key, value, ofMoments, func(m *memory) any { return m.updated })
	case "expiration_date":
		return hostedField(key, value, ofMoments, func(m *memory) any { s, _ := m.expires.(string); return orNull(s) })
	case "metadata":
		return metadataTest(value)
	case "keywords", "keywords_search", "text":
		return textTest(key, value)
	case "memory_ids":
		list, err := listIn(key, value)
		return func(m *memory) bool { return has(list, m.id) }, err
	case "categories":
		// Nothing here sorts memories into categories.
		if ops, ok := value.(object); ok && ops["contains"] != nil {
			return not(always), nil
		}
		_, err := listIn(key, value)
		return not(always), err
	}
	return nil, fmt.Errorf("unsupported filter field: %s", key)
}

func hostedFilters(list []any) ([]test, error) {
	var tests []test
	for _, item := range list {
		t, err := hostedFilter(item)
		if err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	return tests, nil
}

// hostedField compiles what is said of one field: any value, one, or operators, of
// which the platform allows each kind of field its own; without a list, all.
func hostedField(key string, want any, of map[string]operator, have func(*memory) any, allowed ...string) (test, error) {
	if want == "*" {
		return func(m *memory) bool { return have(m) != nil }, nil
	}
	return hostedOps("operator for "+key, key, want, of, have, allowed...)
}

func hostedOps(what, key string, want any, of map[string]operator, have func(*memory) any, allowed ...string) (test, error) {
	ops, ok := want.(object)
	if !ok {
		ops = object{"eq": want}
	}
	var tests []test
	for op, value := range ops {
		made := of[op]
		if made == nil || len(allowed) > 0 && !slices.Contains(allowed, op) {
			return nil, fmt.Errorf("unsupported %s: %s", what, op)
		}
		passes, err := made(value)
		if errors.Is(err, errNoList) {
			err = fmt.Errorf("%s %w", key, err)
		}
		if err != nil {
			return nil, err
		}
		tests = append(tests, func(m *memory) bool { return passes(have(m)) })
	}
	return allOf(tests), nil
}

func metadataTest(want any) (test, error) {
	fields, ok := want.(object)
	if !ok {
		return nil, errors.New("metadata filter must be an object")
	}
	var tests []test
	for name, condition := range fields {
		t, err := hostedOps("metadata operator for "+name, name, condition, operators, func(m *memory) any { return m.metadata[name] }, "eq", "ne", "contains")
		if err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	return allOf(tests), nil
}

func textTest(key string, want any) (test, error) {
	ops, ok := want.(object)
	if !ok {
		ops = object{"icontains": fmt.Sprint(want)}
	}
	if word, ok := ops["contains"].(string); ok {
		return func(m *memory) bool { return strings.Contains(m.text, word) }, nil
	}
	if word, ok := ops["icontains"].(string); ok {
		word = strings.ToLower(word)
		return func(m *memory) bool { return strings.Contains(strings.ToLower(m.text), word) }, nil
	}
	return nil, fmt.Errorf("unsupported operator for %s", key)
}

func listIn(key string, value any) ([]any, error) {
	if ops, ok := value.(object); ok {
		value = ops["in"]
		if value == nil {
			return nil, nil
		}
	}
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("%s %w", key, errNoList)
	}
	return list, nil
}
