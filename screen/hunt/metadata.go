package hunt

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	maxStrings = 256
	maxDepth   = 16
)

// metadata returns the strings in a memory's metadata as items, named by JSON pointer.
// The proxy's own keys are included: a writer that bypassed the proxy may have used them.
// Metadata with more than maxStrings strings or deeper than maxDepth is one item, as raw
// JSON.
func metadata(of Item, raw json.RawMessage) []Item {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return nil
	}
	var out []Item
	whole := true
	add := func(pointer, text string) {
		i := of
		i.Field, i.Text, i.Raw, i.Incomplete = "metadata"+pointer, text, "", false
		out = append(out, i)
	}
	var visit func(pointer string, v any, depth int)
	visit = func(pointer string, v any, depth int) {
		if depth > maxDepth || len(out) >= maxStrings {
			whole = false
			return
		}
		switch v := v.(type) {
		case string:
			if v != "" {
				add(pointer, v)
			}
		case []any:
			for i, e := range v {
				visit(pointer+"/"+strconv.Itoa(i), e, depth+1)
			}
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				visit(pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k), v[k], depth+1)
			}
		}
	}
	visit("", v, 0)
	if !whole {
		out = nil
		add("", string(raw))
	}
	return out
}
