package config

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy"
)

var (
	durationType = reflect.TypeFor[Duration]()
	namesType    = reflect.TypeFor[Names]()
	secretType   = reflect.TypeFor[Secret]()
)

// strict checks a node against the type into which it will be decoded: unknown, repeated
// and missing keys, wrong types, values out of range. path names the node in faults.
func (v *reader) strict(n *yaml.Node, f field, path string) {
	t := f.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isNull(n) || t == namesType && isBlank(n) {
		// An empty "users:" would mean all users, like an absent key.
		faultIf(v, t == namesType, n.Line, "%s is empty: leave it out, or write [] for none", path)
		return
	}
	switch {
	case t == durationType:
		v.duration(n, f, path)
	case t == secretType:
		v.value(n, reflect.TypeFor[string](), f, path)
	case t == namesType:
		if n.Kind == yaml.SequenceNode {
			v.list(n, field{typ: reflect.TypeFor[string]()}, path)
		} else {
			v.expect(n, yaml.ScalarNode, path, "a name or a list of names")
		}
		for _, name := range append([]*yaml.Node{n}, n.Content...) {
			faultIf(v, name.Value != "*" && strings.Contains(name.Value, "*"), name.Line, "%s has %q, and names are not patterns: list them, or write \"*\" for all", path, name.Value)
		}
	case t.Kind() == reflect.Struct:
		v.mapping(n, t, path)
	case t.Kind() == reflect.Map:
		v.entries(n, f, path)
	case t.Kind() == reflect.Slice:
		if v.expect(n, yaml.SequenceNode, path, "a list") {
			v.list(n, field{typ: t.Elem(), enum: f.enum}, path)
		}
	default:
		v.value(n, t, f, path)
	}
}

// isNull reports whether a node is left out, or is null or ~.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func isBlank(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Value == "" }

// expect adds a fault unless a node is of a kind.
func (v *reader) expect(n *yaml.Node, kind yaml.Kind, path, what string) bool {
	faultIf(v, n.Kind != kind, n.Line, "%s must be %s", path, what)
	return n.Kind == kind
}

func (v *reader) mapping(n *yaml.Node, t reflect.Type, path string) {
	if !v.expect(n, yaml.MappingNode, cmp.Or(path, "the file"), "keys and values") {
		return
	}
	fields, known := fieldsOf(t), []string{}
	for _, f := range fields {
		known = append(known, f.key)
	}
	present := map[string]bool{}
	v.pairs(n, path, func(key, value *yaml.Node) {
		i := slices.Index(known, key.Value)
		if i < 0 {
			v.unknown(key, known, path)
			return
		}
		present[key.Value] = !isNull(value)
		v.strict(value, fields[i], join(path, key.Value))
	})
	for _, f := range fields {
		faultIf(v, f.required && !present[f.key], n.Line, "%s is missing", join(path, f.key))
	}
}

// entries checks a map, whose keys may be restricted.
func (v *reader) entries(n *yaml.Node, f field, path string) {
	if !v.expect(n, yaml.MappingNode, path, "keys and values") {
		return
	}
	v.pairs(n, path, func(key, value *yaml.Node) {
		if f.keys != nil && !slices.Contains(f.keys, key.Value) {
			v.unknown(key, f.keys, path)
			return
		}
		// A tier left open would be none, and a duration would be 0, for ever.
		faultIf(v, isNull(value) && (f.enum != nil || f.typ.Elem() == durationType), value.Line, "%s is empty", join(path, key.Value))
		v.strict(value, field{typ: f.typ.Elem(), enum: f.enum, min: f.min, max: f.max}, join(path, key.Value))
	})
}

// folded has the form in which keys of a map are compared, if not their own. Of two keys
// with one form, the order of the map would decide which counts.
var folded = map[string]func(string) string{
	"budgets.namespaces": memproxy.Key, "memories.ttl": memproxy.Key, "sources.names": memproxy.SourceKey, "telemetry.headers": http.CanonicalHeaderKey,
}

// pairs visits each key of a mapping once, and adds faults for repetitions.
func (v *reader) pairs(n *yaml.Node, path string, visit func(key, value *yaml.Node)) {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0 {
			v.fault(key.Line, "a key must be a plain word")
			continue
		}
		name := key.Value
		if fold := folded[path]; fold != nil {
			name = fold(name)
		}
		if line, twice := first[name]; twice {
			v.fault(key.Line, "key %q occurs twice; the first is on line %d", key.Value, line)
			continue
		}
		first[name] = key.Line
		visit(key, n.Content[i+1])
	}
}

func (v *reader) unknown(key *yaml.Node, known []string, path string) {
	msg := fmt.Sprintf("unknown key %q", key.Value)
	if path != "" {
		msg += " in " + path
	}
	if near := nearest(key.Value, known); near != "" {
		msg += fmt.Sprintf("; did you mean %q?", near)
	}
	v.fault(key.Line, "%s", msg)
}

func (v *reader) list(n *yaml.Node, elem field, path string) {
	for i, c := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if isNull(c) || isBlank(c) {
			v.fault(c.Line, "%s is empty", at)
			continue
		}
		v.strict(c, elem, at)
	}
}

func (v *reader) duration(n *yaml.Node, f field, path string) {
	if !v.expect(n, yaml.ScalarNode, path, durationForm) {
		return
	}
	d, err := parseDuration(n.Value)
	if err != nil {
		v.fault(n.Line, "%s must be %s", path, durationForm)
		return
	}
	if least, err := time.ParseDuration(f.min); err == nil && d < least {
		v.fault(n.Line, "%s is at least %s; leave it out for the default", path, f.min)
	}
}

// value checks a scalar. A value from a reference is text in YAML but may be a number
// or a boolean.
func (v *reader) value(n *yaml.Node, t reflect.Type, f field, path string) {
	what, tags := "text", []string(nil)
	switch t.Kind() {
	case reflect.Bool:
		what, tags = "true or false", []string{"!!bool"}
	case reflect.Int, reflect.Int64:
		what, tags = "a whole number", []string{"!!int"}
	case reflect.Float64:
		what, tags = "a number", []string{"!!int", "!!float"}
	}
	if !v.expect(n, yaml.ScalarNode, path, what) {
		return
	}
	if tags == nil {
		if f.enum != nil && !slices.Contains(f.enum, n.Value) {
			v.fault(n.Line, "%s is %s, not %q", path, strings.Join(f.enum, " or "), n.Value)
		} else if f.required && n.Value == "" {
			v.fault(n.Line, "%s is empty", path)
		}
		return
	}
	if v.referenced[n] {
		n.Tag, n.Style = "", 0
	}
	if !slices.Contains(tags, n.ShortTag()) || n.Decode(reflect.New(t).Interface()) != nil {
		v.fault(n.Line, "%s must be %s", path, what)
		return
	}
	var x float64
	if t.Kind() == reflect.Bool || n.Decode(&x) != nil {
		return
	}
	// The negated comparisons also refuse NaN.
	if low, err := strconv.ParseFloat(f.min, 64); err == nil && !(x >= low) {
		v.fault(n.Line, "%s is at least %s, not %s", path, f.min, n.Value)
	} else if high, err := strconv.ParseFloat(f.max, 64); err == nil && !(x <= high) {
		v.fault(n.Line, "%s is at most %s, not %s", path, f.max, n.Value)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// field is a key of a mapping, as described by the tags of its struct field.
type field struct {
	key        string
	def        string // default value, or a description of it if it contains a space
	typ        reflect.Type
	enum, keys []string // allowed values of a scalar or of the entries of a list or map, and allowed keys of a map; nil is any
	min, max   string   // limits of numbers and durations; "" is none
	required   bool
	direction  direction
	index      []int // index of the struct field, through inlined structs
}

// listed caches the keys by struct type.
var listed sync.Map

// fieldsOf returns the keys of a struct type in order, including inlined ones.
func fieldsOf(t reflect.Type) []field {
	if known, ok := listed.Load(t); ok {
		return known.([]field)
	}
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		key, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if opts == "inline" {
			for _, in := range fieldsOf(f.Type) {
				in.index = append([]int{i}, in.index...)
				in.required = in.required && !slices.Contains(words(f.Tag.Get("optional")), in.key)
				out = append(out, in)
			}
			continue
		}
		out = append(out, field{
			key: key, def: f.Tag.Get("default"), typ: f.Type, enum: words(f.Tag.Get("enum")), keys: words(f.Tag.Get("keys")),
			min: f.Tag.Get("min"), max: f.Tag.Get("max"), required: f.Tag.Get("required") == "true",
			direction: directionOf(f.Tag.Get("loose")), index: f.Index,
		})
	}
	listed.Store(t, out)
	return out
}

func words(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// nearest returns the candidate closest to a misspelt word, or "" if more than a third of
// the letters differ.
func nearest(word string, candidates []string) string {
	best, least := "", len(word)/3+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), c); d <= least && (best == "" || d < least) {
			best, least = c, d
		}
	}
	return best
}

// distance returns the number of insertions, deletions, replacements and swaps of
// neighbouring letters that turn a into b (restricted Damerau-Levenshtein distance).
func distance(a, b string) int {
	two, one, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range one {
		one[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			differs := 1
			if a[i-1] == b[j-1] {
				differs = 0
			}
			row[j] = min(row[j-1]+1, one[j]+1, one[j-1]+differs)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], two[j-2]+1)
			}
		}
		two, one, row = one, row, two
	}
	return one[len(b)]
}
