package command

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// contentLines say of an operation's content what layers are ruled by: where it
// stands, its layer, whether it is inferred, and what becomes of that.
func contentLines(op *memproxy.Operation, g *memproxy.Governance) []string {
	if op.Kind != memproxy.Learn && op.Kind != memproxy.Correct {
		return nil
	}
	var out []string
	for i := range op.Items {
		it := &op.Items[i]
		if it.Kind != memproxy.ItemContent || it.Text == "" && !it.Moved {
			continue
		}
		layer := g.LayerOf(it)
		line := fmt.Sprintf("%s: %s", it.Pointer, layer)
		for _, claimed := range op.LayerClaims {
			if claimed != layer {
				line += fmt.Sprintf(", and as %s too", claimed)
			}
		}
		if it.Inferred {
			line += ", inferred: " + string(g.Inference(layer))
		} else if op.Extracts {
			line += ", what the backend's model makes of it and no user stated: " + string(g.Inference(layer))
		}
		for _, field := range it.Written() {
			if field != "" {
				line += fmt.Sprintf(", key %q: %s", memproxy.Key(field), g.Namespace(field))
			}
		}
		out = append(out, line)
	}
	keys := slices.DeleteFunc(slices.Clone(op.Keys), func(k string) bool { return !plainKey.MatchString(k) })
	if slices.Sort(keys); len(keys) > 0 {
		out = append(out, "filed under "+strings.Join(slices.Compact(keys), ", "))
	}
	return out
}

// plainKey is what a key looks like that is a name and no text.
var plainKey = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,40}$`)
