package embedded

//lint:file-ignore ST1005 the sentences are the real server's, word for word

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// storeFilter compiles a flat filter the way the engine's vector store
// (Qdrant) reads it: everything in one flat payload, nested AND, OR and NOT
// lists allowed, "*" no condition at all, and "ne" and "nin" only true of
// memories that have the key.
func storeFilter(filters dict) (test, error) {
	var must []test
	nested := make(map[string][]test)
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
				nested[p.key] = append(nested[p.key], sub)
			}
		default:
			t, err := fieldTest(p.key, p.value)
			if err != nil {
				return nil, err
			}
			must = append(must, t)
		}
	}
	must = append(must, nested["AND"]...)
	if len(nested["OR"]) > 0 {
		must = append(must, anyOf(nested["OR"]))
	}
	return allOf(append(must, not(anyOf(nested["NOT"])))), nil
}

func subFilter(op string, i int, item any) (test, error) {
	var d dict
	switch item := item.(type) {
	case dict:
		d = item
	case object:
		for _, key := range slices.Sorted(maps.Keys(item)) {
			d.set(key, item[key])
		}
	default:
		return nil, fmt.Errorf("%s filter list item at index %d must be a dict", op, i)
	}
	return storeFilter(d)
}

func fieldTest(key string, want any) (test, error) {
	switch want := want.(type) {
	case object:
		return operatorTest(key, want)
	case []any:
		return onPayload(key, func(v any) bool { return has(want, v) }), nil
	case string:
		if want == "*" {
			return always, nil
		}
	}
	if err := matchable(want); err != nil {
		return nil, err
	}
	return onPayload(key, func(v any) bool { return equal(v, want) }), nil
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

var rangeOps = []string{"gt", "gte", "lt", "lte"}

func operatorTest(key string, ops object) (test, error) {
	var ranges []test
	var first, other string
	for _, op := range slices.Sorted(maps.Keys(ops)) {
		if !slices.Contains(rangeOps, op) {
			other = op
			continue
		}
		of := ofNumbers
		if _, isText := ops[op].(string); isText {
			of = ofMoments
		}
		within, err := of[op](ops[op])
		if err != nil {
			return nil, errors.New("1 validation error for Range")
		}
		ranges, first = append(ranges, onPayload(key, within)), op
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
		word, isText := want.(string)
		switch {
		case op == "eq":
			return fieldTest(key, want)
		case op == "ne":
			return onPayload(key, func(v any) bool { return !equal(v, want) }), nil
		case op == "in" || op == "nin":
			if !isList {
				return nil, errors.New("validation errors: a list is needed")
			}
			return onPayload(key, func(v any) bool { return has(list, v) == (op == "in") }), nil
		case !isText:
			return nil, errors.New("1 validation error for MatchText")
		}
		return onPayload(key, func(v any) bool {
			text, isText := v.(string)
			return isText && strings.Contains(text, word)
		}), nil
	}
	return nil, fmt.Errorf("Unsupported filter operator(s) for field '%s': %v. Supported operators: %v", key, slices.Sorted(maps.Keys(ops)), engineOps)
}

// onPayload tests a field of the payload. A list passes when one of its items does.
func onPayload(key string, passes check) test {
	return func(m *memory) bool {
		switch have := m.payload(key).(type) {
		case nil, json.RawMessage:
			return false
		case []any:
			return slices.ContainsFunc(have, passes)
		default:
			return passes(have)
		}
	}
}

// payload is a field of the flat payload that the engine keeps for a memory.
// nil means absent.
func (m *memory) payload(key string) any {
	switch key {
	case "user_id", "agent_id", "run_id", "app_id":
		return orNull(m.entity(strings.TrimSuffix(key, "_id")))
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
