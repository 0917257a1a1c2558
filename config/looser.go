package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// Snapshot maps the paths of settings to their values, for comparison at a later start.
func Snapshot(settings []Setting) map[string]string {
	out := make(map[string]string, len(settings))
	for _, s := range settings {
		out[s.Path] = s.Value
	}
	return out
}

// instead maps entries that a map lacks to the keys that apply instead.
var instead = [...]struct{ entry, stands string }{
	{"budgets.overrides[", "budgets.default."},
	{"screening.sources[", "screening.sensitivity"},
}

// sourceEntry is the prefix of the path of a source's tier.
const sourceEntry = "sources.names["

// tierOf is the tier of a source that the file does not list: that of the built-in
// table, else the one for every other name. Without a tier it lowers nothing, like a
// trusted source.
func tierOf(name, others string) string {
	tier := memproxy.DefaultSourceNames().With(map[string]memproxy.Source{everyOther: memproxy.Source(others)}).Tier(name)
	return string(cmp.Or(tier, memproxy.SourceTrusted))
}

// Looser describes the settings that are looser than before, one sentence each:
// "enforce: true became false".
func Looser(before map[string]string, after []Setting) []string {
	now := Snapshot(after)
	value := func(in map[string]string, path string) (string, bool) {
		if v, ok := in[path]; ok {
			return v, true
		}
		if name, ok := strings.CutPrefix(path, sourceEntry); ok {
			return tierOf(strings.TrimSuffix(name, "]"), in[sourceEntry+everyOther+"]"]), true
		}
		for _, i := range instead {
			if strings.HasPrefix(path, i.entry) {
				stands := i.stands
				if strings.HasSuffix(stands, ".") {
					stands += path[strings.LastIndexByte(path, '.')+1:]
				}
				v, ok := in[stands]
				return v, ok
			}
		}
		return "", false
	}
	directions := map[string]direction{}
	for _, s := range after {
		directions[s.Path] = s.direction
	}
	for path := range before { // removed settings, by their names
		if _, is := directions[path]; !is {
			directions[path] = directionFor(path)
		}
	}
	var out []string
	for path, d := range directions {
		b, was := value(before, path)
		a, is := value(now, path)
		if d.looser(b, was, a, is) {
			out = append(out, fmt.Sprintf("%s: %s became %s", path, quoted(b), quoted(a)))
		}
	}
	slices.Sort(out)
	return out
}
