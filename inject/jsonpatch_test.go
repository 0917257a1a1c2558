package inject_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/internal/must"
)

// patched applies a JSON Patch (RFC 6902), independently of the package.
func patched(t testing.TB, doc any, patch []byte) any {
	t.Helper()
	var out any
	must.Do(t, json.Unmarshal([]byte(text(t, doc)), &out))
	if len(patch) == 0 {
		return out
	}
	var ops []inject.Patch
	must.Do(t, json.Unmarshal(patch, &ops))
	for _, op := range ops {
		var v any
		if op.Op != "remove" {
			must.Do(t, json.Unmarshal(op.Value, &v))
		}
		out = apply(t, out, strings.Split(op.Path, "/")[1:], op.Op, v)
	}
	return out
}

func apply(t testing.TB, doc any, path []string, op string, v any) any {
	t.Helper()
	key := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[0])
	last := len(path) == 1
	switch d := doc.(type) {
	case map[string]any:
		_, there := d[key]
		switch {
		case !last:
			must.Equal(t, there, true, key, "is not there")
			d[key] = apply(t, d[key], path[1:], op, v)
		case op == "add":
			d[key] = v
		case !there:
			t.Fatalf("%s of %s, which is not there", op, key)
		case op == "replace":
			d[key] = v
		default:
			delete(d, key)
		}
		return d
	case []any:
		if key == "-" && last && op == "add" {
			return append(d, v)
		}
		k, err := strconv.Atoi(key)
		if err != nil || k < 0 || k >= len(d) && (!last || op != "add" || k > len(d)) {
			t.Fatalf("%s is no index of a list of %d", key, len(d))
		}
		switch {
		case !last:
			d[k] = apply(t, d[k], path[1:], op, v)
		case op == "add":
			d = slices.Insert(d, k, v)
		case op == "replace":
			d[k] = v
		default:
			d = slices.Delete(d, k, k+1)
		}
		return d
	}
	t.Fatalf("%s is below a value that has no members", key)
	return nil
}
