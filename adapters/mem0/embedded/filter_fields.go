package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The platform allows each kind of field its own operators.

func idTest(key string, want any, have func(*memory) any) (test, error) {
	ops, ok := want.(map[string]any)
	if !ok {
		if want == "*" {
			return func(m *memory) bool { return have(m) != nil }, nil
		}
		return func(m *memory) bool { return equal(have(m), want) }, nil
	}
	var tests []test
	for op, value := range ops {
		switch op {
		case "in":
			list, ok := value.([]any)
			if !ok {
				return nil, fmt.Errorf("%s must be a list", key)
			}
			tests = append(tests, func(m *memory) bool { return has(list, have(m)) })
		case "eq":
			tests = append(tests, func(m *memory) bool { return equal(have(m), value) })
		case "ne":
			tests = append(tests, func(m *memory) bool { return !equal(have(m), value) })
		default:
			return nil, fmt.Errorf("unsupported operator for %s: %s", key, op)
		}
	}
	return allOf(tests), nil
}

func metadataTest(want any) (test, error) {
	object, ok := want.(map[string]any)
	if !ok {
		return nil, errors.New("metadata filter must be an object")
	}
	var tests []test
	for name, condition := range object {
		ops, ok := condition.(map[string]any)
		if !ok {
			tests = append(tests, func(m *memory) bool { return equal(m.metadata[name], condition) })
			continue
		}
		for op, value := range ops {
			switch op {
			case "eq":
				tests = append(tests, func(m *memory) bool { return equal(m.metadata[name], value) })
			case "ne": // a memory without the key is "not equal" too
				tests = append(tests, func(m *memory) bool { return !equal(m.metadata[name], value) })
			case "contains":
				tests = append(tests, func(m *memory) bool { return contains(m.metadata[name], value) })
			default:
				return nil, fmt.Errorf("unsupported metadata operator for %s: %s", name, op)
			}
		}
	}
	return allOf(tests), nil
}

func textTest(key string, want any) (test, error) {
	ops, ok := want.(map[string]any)
	if !ok {
		word := strings.ToLower(fmt.Sprint(want))
		return func(m *memory) bool { return strings.Contains(strings.ToLower(m.text), word) }, nil
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

func timeTest(key string, want any, have func(*memory) string) (test, error) {
	if want == "*" {
		return func(m *memory) bool { return have(m) != "" }, nil
	}
	ops, ok := want.(map[string]any)
	if !ok {
		ops = map[string]any{"eq": want}
	}
	var tests []test
	for op, value := range ops {
		list := []any{value}
		if op == "in" {
			if list, ok = value.([]any); !ok {
				return nil, fmt.Errorf("%s must be a list", key)
			}
		}
		moments := make([]time.Time, len(list))
		for i, v := range list {
			var err error
			if moments[i], err = moment(v); err != nil {
				return nil, err
			}
		}
		holds, ok := comparisons[op]
		if !ok && op != "in" {
			return nil, fmt.Errorf("unsupported operator for %s: %s", key, op)
		}
		tests = append(tests, func(m *memory) bool {
			at, err := moment(have(m))
			if err != nil {
				return false
			}
			if op != "in" {
				return holds(at.Compare(moments[0]))
			}
			for _, one := range moments {
				if at.Equal(one) {
					return true
				}
			}
			return false
		})
	}
	return allOf(tests), nil
}

var comparisons = map[string]func(int) bool{
	"eq": func(c int) bool { return c == 0 }, "ne": func(c int) bool { return c != 0 },
	"gt": func(c int) bool { return c > 0 }, "gte": func(c int) bool { return c >= 0 },
	"lt": func(c int) bool { return c < 0 }, "lte": func(c int) bool { return c <= 0 },
}

// moment reads an ISO date or time, or seconds since 1970.
func moment(v any) (time.Time, error) {
	switch v := v.(type) {
	case json.Number:
		if s, err := v.Float64(); err == nil {
			return time.UnixMicro(int64(s * 1e6)), nil
		}
	case string:
		for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
			if t, err := time.Parse(layout, v); err == nil {
				return t, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("not a date: %v", v)
}

func listIn(key string, value any) ([]any, error) {
	if object, ok := value.(map[string]any); ok {
		value = object["in"]
		if value == nil {
			return nil, nil
		}
	}
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("%s must be a list", key)
	}
	return list, nil
}

func contains(have, want any) bool {
	switch have := have.(type) {
	case string:
		word, ok := want.(string)
		return ok && strings.Contains(have, word)
	case []any:
		return has(have, want)
	case map[string]any:
		key, ok := want.(string)
		_, there := have[key]
		return ok && there
	}
	return false
}
