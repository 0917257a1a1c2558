package embedded

import (
	"errors"
	"fmt"
	"strings"
)

// test tells whether a memory passes.
type test func(*memory) bool

func always(*memory) bool { return true }

// hostedFilter compiles the platform's filter grammar. Siblings are ANDed, an
// OR next to an AND is silently dropped, "*" means any value, an unknown field
// is an error. The error is the client's to read.
func hostedFilter(node any) (test, error) {
	object, ok := node.(map[string]any)
	if !ok {
		return nil, errors.New("filters must be an object")
	}
	var tests []test
	for key, value := range object {
		t, err := hostedTerm(key, value, object)
		if err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	return allOf(tests), nil
}

func hostedTerm(key string, value any, siblings map[string]any) (test, error) {
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
		return idTest(key, value, func(m *memory) any { return textOrNil(m.entity(kind)) })
	case "created_at", "timestamp":
		return timeTest(key, value, func(m *memory) string { return m.created })
	case "updated_at":
		return timeTest(key, value, func(m *memory) string { return m.updated })
	case "expiration_date":
		return timeTest(key, value, func(m *memory) string { s, _ := m.expires.(string); return s })
	case "metadata":
		return metadataTest(value)
	case "keywords", "keywords_search", "text":
		return textTest(key, value)
	case "memory_ids":
		list, err := listIn(key, value)
		return func(m *memory) bool { return has(list, m.id) }, err
	case "categories":
		// Nothing here sorts memories into categories.
		if object, ok := value.(map[string]any); ok && object["contains"] != nil {
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

func textOrNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func allOf(tests []test) test {
	if len(tests) == 1 {
		return tests[0]
	}
	return func(m *memory) bool {
		for _, t := range tests {
			if !t(m) {
				return false
			}
		}
		return true
	}
}

func anyOf(tests []test) test {
	return func(m *memory) bool {
		for _, t := range tests {
			if t(m) {
				return true
			}
		}
		return false
	}
}

func not(t test) test { return func(m *memory) bool { return !t(m) } }
