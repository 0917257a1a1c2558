package config_test

import (
	"reflect"
	"slices"
	"strings"
)

// field is a key as described by its tags.
type field struct {
	Key, Doc, Default string
	Type              reflect.Type
	Enum, Keys        []string
	Min, Max          string
	Required          bool
	Loose             string
}

// fields lists the keys of a struct type.
func fields(t reflect.Type) (out []field) {
	words := func(s string) (out []string) {
		if s != "" {
			out = strings.Split(s, ",")
		}
		return out
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		tag := f.Tag.Get
		key, opts, _ := strings.Cut(tag("yaml"), ",")
		if opts == "inline" {
			for _, in := range fields(f.Type) {
				in.Required = in.Required && !slices.Contains(words(tag("optional")), in.Key)
				out = append(out, in)
			}
			continue
		}
		out = append(out, field{key, tag("doc"), tag("default"), f.Type, words(tag("enum")), words(tag("keys")), tag("min"), tag("max"), tag("required") == "true", tag("loose")})
	}
	return out
}
