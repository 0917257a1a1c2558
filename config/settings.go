package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// file is the source of a configuration.
type file struct {
	name string
	root *yaml.Node          // YAML tree with resolved references
	sum  string              // of the text and of what it takes from files
	hide func(string) string // hides values of references; a function, because a list would be printed with a Config
}

// Version is Version of the source text when it was parsed.
func (c *Config) Version() string { return c.file.sum }

// Setting is the value of a key that a control depends on.
type Setting struct {
	// Path is the key with the names of list elements: "backends[mem0].ungated".
	Path string
	// Name is the key without the names of list elements, as in UnsafeEnv:
	// "backends.ungated".
	Name string
	// Value is the value as written in the file; "" for an absent list.
	Value string
	// Status is on, off, or shadow; shadow means that nothing is enforced.
	Status string
	// From is the origin of the value: "memproxy.yaml:12", "profile production" or
	// "default".
	From string
	// Line is the line in the file; 0 if the key is absent.
	Line int
	// Unsafe is why production refuses to start with this value; "" if it does not.
	Unsafe string

	direction direction
	at        []any // path, for lineOf
}

// Statuses of a control.
const (
	StatusOn     = "on"
	StatusOff    = "off"
	StatusShadow = "shadow"
)

// Settings returns the values of all keys on which controls depend, in the order of the
// document: the effective profile.
func (c *Config) Settings() []Setting {
	w := make(walk, 0, 128) // room for an ordinary file
	w.structure(reflect.ValueOf(c).Elem(), "", "", nil)
	for i := range w {
		s := &w[i]
		s.From = "default"
		if s.profiled() {
			s.From = "profile " + c.Profile
		}
		if c.file != nil {
			if n, found := find(c.file.root, s.at); found {
				s.Line, s.From = n.Line, c.file.name+":"+strconv.Itoa(n.Line)
			}
		}
		s.Unsafe = c.unsafe(s)
		s.Status = c.status(s)
	}
	return w
}

// profiled reports whether the default of the key depends on the profile.
func (s *Setting) profiled() bool {
	return slices.Contains([]string{
		"identity.require", "answers.headers", "answers.unclaimed", "backends.ungated", "memories.namespaces.outside",
		"ownership.unattributed", "memories.pending", "memories.ttl", "memories.seal", "memories.sweep", "sources.names", "sources.pending",
	}, s.Name)
}

// Strictest reports whether no other value of the key is stricter. A control that is off
// by such a value does not weaken anything.
func (s *Setting) Strictest() bool {
	return s.direction.kind == order && s.Value == s.direction.values[0]
}

func (c *Config) status(s *Setting) string {
	d, off := s.direction, false
	switch d.kind {
	case order: // false and off mean off whatever their position in the order
		off = s.Value == "false" || s.Value == "off" || d.switches && s.Value == d.values[len(d.values)-1]
	case present:
		off = s.Value == ""
	default:
		off = d.isOff(s.Value)
	}
	switch {
	case off:
		return StatusOff
	case !*c.Enforce && !strings.HasPrefix(s.Name, "limits.") && !strings.HasPrefix(s.Name, "audit."):
		return StatusShadow
	}
	return StatusOn
}

// Fault adds the position of a path in the file to an error about its value, and hides
// values of references in its text.
func (c *Config) Fault(err error, path ...any) error {
	if err == nil || c.file == nil {
		return err
	}
	var key strings.Builder
	for _, part := range path {
		if i, is := part.(int); is {
			fmt.Fprintf(&key, "[%d]", i)
		} else {
			fmt.Fprintf(&key, ".%v", part)
		}
	}
	name := key.String()[1:] + ": "
	what := name + strings.TrimPrefix(c.file.hide(err.Error()), name)
	return &located{fmt.Sprintf("%s:%d: %s", c.file.name, lineOf(c.file.root, path...), what), err}
}

// located is an error with its position in the file.
type located struct {
	text string
	err  error
}

func (p *located) Error() string { return p.text }
func (p *located) Unwrap() error { return p.err }

// find returns the node at a path, or its nearest existing ancestor.
func find(n *yaml.Node, path []any) (at *yaml.Node, found bool) {
	if len(path) == 0 {
		return n, true
	}
	switch n.Kind {
	case yaml.MappingNode:
		key := fmt.Sprint(path[0])
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return find(n.Content[i+1], path[1:])
			}
		}
	case yaml.SequenceNode:
		if i, ok := path[0].(int); ok && i < len(n.Content) {
			return find(n.Content[i], path[1:])
		}
	}
	return n, false
}

// walk collects settings.
type walk []Setting

func (w *walk) structure(v reflect.Value, path, name string, at []any) {
	for _, f := range fieldsOf(v.Type()) {
		w.field(v.FieldByIndex(f.index), f, join(path, f.key), join(name, f.key), append(slices.Clip(at), f.key))
	}
}

func (w *walk) field(v reflect.Value, f field, path, name string, at []any) {
	d := f.direction
	if d.kind == present {
		w.add(v, d, path, name, at)
	}
	if v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct && v.Type() != reflect.TypeFor[*Names]() {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch {
	case v.Type() == reflect.TypeFor[Secret]():
	case v.Kind() == reflect.Struct:
		w.structure(v, path, name, at)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		seen := map[string]int{}
		for i := range v.Len() {
			label := labelOf(v.Index(i), i)
			if seen[label]++; seen[label] > 1 {
				label += "#" + strconv.Itoa(seen[label])
			}
			w.structure(v.Index(i), path+"["+label+"]", name, append(slices.Clip(at), i))
		}
	case v.Kind() == reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		for _, k := range keys {
			entry, in := v.MapIndex(k), f
			in.typ = entry.Type()
			w.field(entry, in, path+"["+k.String()+"]", name, append(slices.Clip(at), k.String()))
		}
	case d.kind == up0 && f.min == "1" && v.Int() == 0: // absent, and without a default
	case d.kind != neutral && d.kind != present:
		w.add(v, d, path, name, at)
	}
}

func (w *walk) add(v reflect.Value, d direction, path, name string, at []any) {
	*w = append(*w, Setting{Path: path, Name: name, Value: fileValue(v, d), direction: d, at: at})
}

// labelOf returns the label of a list element: its name or id.
func labelOf(v reflect.Value, i int) string {
	for _, name := range [...]string{"Name", "ID", "Subject", "Path"} {
		if f := v.FieldByName(name); f.IsValid() && f.Kind() == reflect.String && f.String() != "" {
			return f.String()
		}
	}
	return strconv.Itoa(i)
}

// fileValue formats a value as the file spells it.
func fileValue(v reflect.Value, d direction) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			if d.kind == names {
				return "*"
			}
			return ""
		}
		if d.kind == present {
			return "set"
		}
		v = v.Elem()
	}
	if x, ok := v.Interface().(fmt.Stringer); ok {
		return x.String()
	}
	if v.Kind() == reflect.Slice {
		var all []string
		for i := range v.Len() {
			all = append(all, v.Index(i).String())
		}
		return strings.Join(all, ", ")
	}
	if v.Kind() == reflect.Float64 {
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}
