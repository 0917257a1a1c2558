package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// with sets a member of a JSON object, which may be nested: "filters.user_id".
func with(body, name, value string, list bool) (string, error) {
	var root map[string]any
	if err := json.Unmarshal([]byte(body), &root); err != nil {
		return "", fmt.Errorf("contract: payload %s: %w", body, err)
	}
	if strings.HasPrefix(name, "{") {
		quoted, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		var over map[string]any
		if err := json.Unmarshal([]byte(strings.ReplaceAll(name, `"{}"`, string(quoted))), &over); err != nil {
			return "", fmt.Errorf("contract: member %s: %w", name, err)
		}
		maps.Copy(root, over)
		out, err := json.Marshal(root)
		return string(out), err
	}
	at := root
	parts := strings.Split(name, ".")
	for _, p := range parts[:len(parts)-1] {
		next, ok := at[p].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[p] = next
		}
		at = next
	}
	var v any = value
	if list {
		v = []string{value}
	}
	at[parts[len(parts)-1]] = v
	out, err := json.Marshal(root)
	return string(out), err
}
