package config

import "reflect"

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
func ValidDirection(tag string) bool { return directionOf(tag).valid() }
