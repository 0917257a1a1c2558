package embedded

//lint:file-ignore ST1005 the sentences are the real server's, word for word

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// storeFilter compiles a flat filter the way the engine's vector store
// (Qdrant) reads it: everything in one flat payload, nested AND, OR and NOT
// lists allowed, "*" no condition at all, and "ne" and "nin" only true of
// memories that have the key.
func storeFilter(filters dict) (test, error) {
	var must, should, mustNot []test
	for _, p := range filters {
		switch p.key {
		case "AND", "OR", "NOT":
			list, ok := p.value.([]any)
			if !ok {
				return nil, fmt.Errorf("%s filter value must be a list of filter dicts", p.key)
			}
			for i, item := range list {
				sub, err := subFilter(p.key, i, item)
				if err != nil {
					return nil, err
				}
				switch p.key {
				case "AND":
					must = append(must, sub)
				case "OR":
					should = append(should, sub)
				case "NOT":
					mustNot = append(mustNot, sub)
				}
			}
		default:
			t, err := fieldTest(p.key, p.value)
			if err != nil {
				return nil, err
			}
			must = append(must, t)
		}
	}
	if len(should) > 0 {
		must = append(must, anyOf(should))
	}
	if len(mustNot) > 0 {
		must = append(must, not(anyOf(mustNot)))
	}
	return allOf(must), nil
}

func subFilter(op string, i int, item any) (test, error) {
	var d dict
	switch item := item.(type) {
	case dict:
		d = item
	case map[string]any:
		for _, key := range sortedKeys(item) {
			d.set(key, item[key])
		}
	default:
		return nil, fmt.Errorf("%s filter list item at index %d must be a dict", op, i)
	}
	return storeFilter(d)
}

func fieldTest(key string, want any) (test, error) {
	switch want := want.(type) {
	case map[string]any:
		return operatorTest(key, want)
	case []any:
		return func(m *memory) bool { return anyValue(m.payload(key), func(v any) bool { return has(want, v) }) }, nil
	case string:
		if want == "*" {
			return always, nil
		}
	}
	if err := matchable(want); err != nil {
		return nil, err
	}
	return func(m *memory) bool { return anyValue(m.payload(key), func(v any) bool { return equal(v, want) }) }, nil
}

// matchable: the store matches booleans, whole numbers and strings.
func matchable(v any) error {
	switch v := v.(type) {
	case bool, string:
		return nil
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return nil
		}
	}
	return errors.New("3 validation errors for MatchValue")
}

func operatorTest(key string, ops map[string]any) (test, error) {
	var ranges []test
	var first, other string
	for _, op := range sortedKeys(ops) {
		switch op {
		case "gt", "gte", "lt", "lte":
			t, err := rangeTest(key, op, ops[op])
			if err != nil {
				return nil, err
			}
			ranges = append(ranges, t)
			first = op
		default:
			other = op
		}
	}
	switch {
	case len(ranges) > 0 && other != "":
		return nil, fmt.Errorf("Cannot mix range operators ({'%s'}) with non-range operators ({'%s'}) for field '%s'. Use AND to combine them as separate conditions.", first, other, key)
	case len(ranges) > 0:
		return allOf(ranges), nil
	}
	// Of several operators the store takes the first it looks for.
	for _, op := range [...]string{"eq", "ne", "in", "nin", "contains", "icontains"} {
		want, ok := ops[op]
		if !ok {
			continue
		}
		list, isList := want.([]any)
		switch {
		case op == "in" && isList:
			return func(m *memory) bool { return anyValue(m.payload(key), func(v any) bool { return has(list, v) }) }, nil
		case op == "nin" && isList:
			return func(m *memory) bool { return anyValue(m.payload(key), func(v any) bool { return !has(list, v) }) }, nil
		case op == "in", op == "nin":
			return nil, errors.New("validation errors: a list is needed")
		case op == "ne":
			return func(m *memory) bool { return anyValue(m.payload(key), func(v any) bool { return !equal(v, want) }) }, nil
		case op == "eq":
			return fieldTest(key, want)
		}
		word, ok := want.(string)
		if !ok {
			return nil, errors.New("1 validation error for MatchText")
		}
		return func(m *memory) bool {
			return anyValue(m.payload(key), func(v any) bool {
				text, ok := v.(string)
				return ok && strings.Contains(text, word)
			})
		}, nil
	}
	return nil, fmt.Errorf("Unsupported filter operator(s) for field '%s': %v. Supported operators: %v", key, sortedKeys(ops), engineOps)
}

func rangeTest(key, op string, want any) (test, error) {
	holds := comparisons[op]
	switch want := want.(type) {
	case json.Number:
		limit, err := want.Float64()
		if err != nil {
			return nil, err
		}
		return func(m *memory) bool {
			return anyValue(m.payload(key), func(v any) bool {
				n, ok := v.(json.Number)
				if !ok {
					return false
				}
				x, err := n.Float64()
				return err == nil && holds(cmp.Compare(x, limit))
			})
		}, nil
	case string:
		limit, err := moment(want)
		if err != nil {
			return nil, errors.New("1 validation error for Range")
		}
		return func(m *memory) bool {
			return anyValue(m.payload(key), func(v any) bool {
				text, _ := v.(string)
				at, err := moment(text)
				return err == nil && holds(at.Compare(limit))
			})
		}, nil
	}
	return nil, errors.New("1 validation error for Range")
}

// payload is a field of the flat payload that the engine keeps for a memory.
// nil means absent.
func (m *memory) payload(key string) any {
	switch key {
	case "user_id", "agent_id", "run_id", "app_id":
		return textOrNil(m.entity(strings.TrimSuffix(key, "_id")))
	case "data", "text_lemmatized":
		return m.text
	case "hash":
		return m.hash
	case "created_at":
		return m.created
	case "updated_at":
		return m.updated
	case "role":
		return m.role
	case "actor_id":
		return m.actor
	case "attributed_to":
		return m.attribute
	case "expiration_date":
		return m.expires
	}
	return m.metadata[key]
}

// anyValue: a list in the payload passes when one of its items does.
func anyValue(have any, passes func(any) bool) bool {
	switch have := have.(type) {
	case nil, json.RawMessage:
		return false
	case []any:
		return slices.ContainsFunc(have, passes)
	}
	return passes(have)
}
