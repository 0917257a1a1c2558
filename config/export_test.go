package config

import (
	"reflect"
	"slices"
)

// Field is a key as the tags describe it, for the tests of the schema and of
// the document.
type Field struct {
	Key, Doc, Default string
	Type              reflect.Type
	Enum, Keys        []string
	Min, Max          string
	Required          bool
	Loose             string
}

// Fields lists the keys of a struct type.
func Fields(t reflect.Type) []Field {
	var out []Field
	for _, f := range fieldsOf(t) {
		out = append(out, Field{f.key, f.doc, f.def, f.typ, f.enum, f.keys, f.min, f.max, f.required, f.loose})
	}
	return out
}

// ValidDirection reports whether a tag says which way a key loosens.
func ValidDirection(tag string) bool {
	switch d := directionOf(tag); d.kind {
	case order:
		return len(d.values) > 1
	case neutral, up, up0, down, down0, more, fewer, names, present:
		return len(d.values) == 0
	}
	return false
}

// Unsafeable reports whether there is a value of the key that weakens
// production.
func (s Setting) Unsafeable() bool {
	return s.direction.unsafe || len(s.direction.off) > 0 || slices.Contains([]string{"profile", "backends.passthrough", "identity.require"}, s.Name)
}
