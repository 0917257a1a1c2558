package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
)

// directionKind is how the values of a key compare in strictness.
type directionKind string

// The kinds. A test requires every key to declare one.
const (
	neutral directionKind = "-"       // no control depends on it
	up      directionKind = "up"      // higher is looser
	up0     directionKind = "up0"     // higher is looser; 0 is no limit
	down    directionKind = "down"    // lower is looser
	down0   directionKind = "down0"   // lower is looser; 0 is for ever
	order   directionKind = "order"   // a list of values, strictest first
	more    directionKind = "more"    // additional entries are looser
	fewer   directionKind = "fewer"   // missing entries are looser
	names   directionKind = "names"   // additional entries are looser; an absent list means all names
	present directionKind = "present" // absent is looser
)

// direction is how a change of a key loosens a control (struct tag loose).
type direction struct {
	kind   directionKind
	values []string // the values of order
	// unsafe is set if values that are looser than production's default weaken
	// production.
	unsafe   bool
	switches bool     // set if the loosest value of order switches the control off
	off      []string // values that switch the control off and so weaken production
}

// directionOf parses a tag: KIND[:VALUES][;unsafe][;off:VALUES].
func directionOf(tag string) direction {
	parts := strings.Split(tag, ";")
	kind, values, _ := strings.Cut(parts[0], ":")
	d := direction{kind: directionKind(kind), values: words(values)}
	for _, p := range parts[1:] {
		switch name, list, _ := strings.Cut(p, ":"); name {
		case "unsafe":
			d.unsafe, d.switches = true, d.kind == order && len(d.values) == 2
		case "off":
			d.off = words(list)
		}
	}
	if d.kind == order && slices.ContainsFunc(d.values, func(v string) bool { return v == "ignore" || v == "allow" }) {
		d.switches = true
	}
	return d
}

func (d direction) isOff(value string) bool {
	if f, ok := amount(value); ok {
		return slices.ContainsFunc(d.off, func(o string) bool { x, _ := amount(o); return x == f })
	}
	return false
}

// looser reports whether after is looser than before, both as written in the file. was and
// is report whether the key was and is present.
func (d direction) looser(before string, was bool, after string, is bool) bool {
	switch d.kind {
	case order:
		b, a := slices.Index(d.values, before), slices.Index(d.values, after)
		return is && (a < 0 || a > b)
	case more, names, fewer:
		if d.kind == fewer {
			before, was, after, is = after, is, before, was
		}
		if d.kind == names && (!was || before == "*") {
			return false
		}
		return is && len(missingEntries(after, before)) > 0
	case present:
		return before != "" && after == ""
	case up, up0, down, down0:
		if !is || !was {
			// Without an entry there is no limit.
			return !is && was && (d.kind == up || d.kind == up0 && before != "0")
		}
		b, _ := amount(before)
		a, _ := amount(after)
		switch d.kind {
		case down:
			return a < b
		case down0:
			return a != 0 && (a < b || b == 0)
		case up0:
			return b != 0 && (a > b || a == 0)
		}
		return a > b
	}
	return false
}

// missingEntries returns the entries of list that are not in of.
func missingEntries(list, of string) []string {
	there := entriesOf(of)
	if slices.Contains(there, "*") {
		return nil
	}
	return slices.DeleteFunc(entriesOf(list), func(e string) bool { return slices.Contains(there, e) })
}

func entriesOf(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ", ")
}

func amount(s string) (float64, bool) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return f, true
	}
	d, err := parseDuration(s)
	return float64(d), err == nil
}

// Snapshot maps the paths of settings to their values, for comparison at a later start.
func Snapshot(settings []Setting) map[string]string {
	out := make(map[string]string, len(settings))
	for _, s := range settings {
		out[s.Path] = s.Value
	}
	return out
}

// fallbacks are the keys that apply if a map lacks an entry, by the prefixes of their paths.
// A whole entry replaces its fallback in all keys: those that it leaves out have no limit.
var fallbacks = [...]struct {
	entry, key string
	whole      bool
}{
	{entry: "budgets.overrides[", key: "budgets.default."},
	{entry: "budgets.tenants[", key: "budgets.tenants[*].", whole: true},
	{entry: "memories.ttl[", key: "memories.ttl[default]"},
	{entry: "screening.sources[", key: "screening.sensitivity"},
}

// sourceEntry begins the path of a source's tier.
const sourceEntry = "sources.names["

// tierOf returns the tier of a source that the file does not list: that of the built-in
// table, else that of "*" (others). A source without a tier has no ceiling, like a
// trusted one.
func tierOf(name, others string) string {
	tier := memproxy.DefaultSourceNames().With(map[string]memproxy.Source{everyOther: memproxy.Source(others)}).Tier(name)
	return string(cmp.Or(tier, memproxy.SourceTrusted))
}

func hasPath(in map[string]string, prefix string) bool {
	for path := range in {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// Loosened describes the settings that are looser than before, one sentence each:
// "enforce: true became false".
func Loosened(before map[string]string, after []Setting) []string {
	now := Snapshot(after)
	value := func(in map[string]string, path string) (string, bool) {
		if v, ok := in[path]; ok {
			return v, true
		}
		if name, ok := strings.CutPrefix(path, sourceEntry); ok {
			return tierOf(strings.TrimSuffix(name, "]"), in[sourceEntry+everyOther+"]"]), true
		}
		for _, i := range fallbacks {
			if strings.HasPrefix(path, i.entry) {
				key := i.key
				if strings.HasSuffix(key, ".") {
					dot := strings.LastIndexByte(path, '.') + 1
					key += path[dot:]
					if i.whole && hasPath(in, path[:dot]) {
						return "", false
					}
				}
				v, ok := in[key]
				return v, ok
			}
		}
		return "", false
	}
	byName, byPath := allDirections(), map[string]direction{}
	for path := range before { // removed settings: their directions are found by name
		byPath[path] = byName[listEntry.ReplaceAllString(path, "")]
	}
	for _, s := range after {
		byPath[s.Path] = s.direction
	}
	var out []string
	for path, d := range byPath {
		b, was := value(before, path)
		a, is := value(now, path)
		if d.looser(b, was, a, is) {
			out = append(out, fmt.Sprintf("%s: %s became %s", path, quoted(b), quoted(a)))
		}
	}
	slices.Sort(out)
	return out
}
