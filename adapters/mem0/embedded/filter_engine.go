package embedded

//lint:file-ignore ST1005 the sentences are the real server's, word for word

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"
)

// engineFilter compiles the filter of the self-hosted search the way Mem0's
// engine flattens it, holes included: conditions inside AND are merged into the
// top level, so that a nested user_id takes the place of the caller's own, and
// "*" lifts the scope. The order of the keys decides which one wins.
func engineFilter(c *call, filters dict) (test, *reply) {
	scoped := false
	for i := range filters {
		if p := &filters[i]; slices.Contains(engineIDs, p.key) {
			id, err := entityID(p.key, p.value)
			if err != nil {
				return nil, detailed(http.StatusBadRequest, err.Error())
			}
			p.value, scoped = id, true
		}
	}
	if !scoped {
		return nil, detailed(http.StatusBadRequest, "filters must contain at least one of: user_id, agent_id, run_id. Example: filters={'user_id': 'u1'}")
	}
	if advanced(filters) {
		flat, err := flatten(filters)
		if errors.Is(err, errEngine) {
			return nil, c.engineFailure()
		} else if err != nil {
			return nil, detailed(http.StatusBadRequest, err.Error())
		}
		filters = flat
	}
	for _, p := range filters {
		// The engine hashes these ids on its way and breaks on anything else.
		if _, ok := p.value.(string); !ok && slices.Contains(engineIDs, p.key) {
			return nil, c.engineFailure()
		}
	}
	t, err := storeFilter(filters)
	if err != nil {
		return nil, detailed(http.StatusBadRequest, err.Error())
	}
	return t, nil
}

// errEngine stands for a Python exception that nobody caught.
var errEngine = errors.New("engine failure")

// engineFailure is the self-hosted answer to one.
func (c *call) engineFailure() *reply {
	return &reply{status: http.StatusBadGateway, body: object{"detail": "The memory engine failed", "code": "unknown", "request_id": c.id}}
}

// entityID trims an id and refuses white space in it. Anything but a string is
// turned into one, null excepted.
func entityID(name string, v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	id, ok := v.(string)
	if !ok {
		if text, err := json.Marshal(v); err == nil {
			id = string(text)
		}
		switch v.(type) {
		case map[string]any, []any:
			id = " x x " // written by Python it has blanks inside
		}
	}
	id = strings.TrimSpace(id)
	if id == "" {
		return nil, fmt.Errorf("Invalid %s: cannot be empty or whitespace-only. Provide a valid identifier.", name)
	}
	if strings.ContainsFunc(id, unicode.IsSpace) {
		return nil, fmt.Errorf("Invalid %s: cannot contain whitespace. Provide a valid identifier without spaces.", name)
	}
	return id, nil
}

// engineIDs are the ids that the engine knows.
var engineIDs = []string{"user_id", "agent_id", "run_id"}

var engineOps = []string{"eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains", "icontains"}

// advanced tells whether the engine rewrites a filter at all.
func advanced(filters dict) bool {
	for _, p := range filters {
		if p.key == "AND" || p.key == "OR" || p.key == "NOT" || p.value == "*" {
			return true
		}
		ops, _ := p.value.(map[string]any)
		for op := range ops {
			if slices.Contains(engineOps, op) {
				return true
			}
		}
	}
	return false
}

func flatten(filters dict) (dict, error) {
	var flat dict
	for _, p := range filters {
		switch p.key {
		case "AND":
			list, ok := p.value.([]any)
			if !ok {
				return nil, errors.New("AND operator requires a list of conditions")
			}
			for _, item := range list {
				if err := merge(&flat, item); err != nil {
					return nil, err
				}
			}
		case "OR", "NOT":
			list, ok := p.value.([]any)
			if !ok || len(list) == 0 {
				return nil, fmt.Errorf("%s operator requires a non-empty list of conditions", p.key)
			}
			parts := make([]any, len(list))
			for i, item := range list {
				var part dict
				if err := merge(&part, item); err != nil {
					return nil, err
				}
				parts[i] = part
			}
			flat.set(p.key, parts)
		default:
			if err := condition(&flat, p.key, p.value); err != nil {
				return nil, err
			}
		}
	}
	return flat, nil
}

// merge adds the members of one condition; an equal key is overwritten, unless
// both are operators, which then stand together.
func merge(into *dict, item any) error {
	conditions, ok := item.(object)
	if !ok {
		return errEngine
	}
	for _, key := range slices.Sorted(maps.Keys(conditions)) {
		if err := condition(into, key, conditions[key]); err != nil {
			return err
		}
	}
	return nil
}

func condition(into *dict, key string, value any) error {
	ops, ok := value.(map[string]any)
	if !ok {
		into.set(key, value)
		return nil
	}
	for _, op := range slices.Sorted(maps.Keys(ops)) {
		if !slices.Contains(engineOps, op) {
			return fmt.Errorf("Unsupported metadata filter operator: %s", op)
		}
	}
	if len(ops) == 0 {
		return nil
	}
	old, _ := into.get(key)
	both, _ := old.(object)
	if both = maps.Clone(both); both == nil {
		both = object{}
	}
	maps.Copy(both, ops)
	into.set(key, both)
	return nil
}
