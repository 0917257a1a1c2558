//go:build slow

package review

import (
	"cmp"
	"encoding"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

var update = flag.Bool("update", false, "write openapi.json")

// The served description is that of the routes and their types.
func TestDescriptionIsOfTheRoutes(t *testing.T) {
	want := append(must.Get(json.MarshalIndent(describeAPI(), "", "  "))(t), '\n')
	if *update {
		must.Do(t, os.WriteFile("openapi.json", want, 0o644))
		return
	}
	expect.Equal(t, string(openAPI), string(want), "make update: openapi.json")
}

type object = map[string]any

// describeAPI returns the API's description in OpenAPI 3.1, from the served routes and their
// types.
func describeAPI() map[string]any {
	s := schemas{}
	paths := object{}
	for _, rt := range routes() {
		entry, ok := paths[rt.path].(object)
		if !ok {
			entry = object{}
			paths[rt.path] = entry
		}
		entry[strings.ToLower(rt.method)] = rt.describe(s)
	}
	problem := s.of(reflect.TypeFor[Problem]())
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "memproxy review", "version": "1",
			"description": "Review of what memproxy held back: held writes, memories, sessions. Served by the admin listener.",
			"license":     object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"paths":    paths,
		"security": []any{object{"token": []any{}}},
		"components": object{
			"schemas":         object(s),
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
			"responses": object{"Problem": object{
				"description": "A refusal: 401 no token, 403 missing role or own writing, 404 unknown, 409 wrong state, 410 content destroyed, 428 confirmation required, 503 temporarily unavailable.",
				"content":     object{"application/json": object{"schema": problem}},
			}},
		},
	}
}

func (rt route) describe(s schemas) object {
	params := []any{}
	for _, name := range rt.wildcards() {
		params = append(params, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, p := range rt.query {
		params = append(params, object{"name": p.name, "in": "query", "description": p.about, "schema": object{"type": "string"}})
	}
	out := object{
		"operationId": rt.op, "summary": rt.about, "description": "Takes the role " + string(rt.role()) + ".",
		"responses": object{
			"200": object{
				"description": "Done.",
				"content":     object{"application/json": object{"schema": s.of(reflect.TypeOf(rt.out))}},
			},
			"default": object{"$ref": "#/components/responses/Problem"},
		},
	}
	if len(params) > 0 {
		out["parameters"] = params
	}
	if rt.in != nil {
		out["requestBody"] = object{
			"required": true,
			"content":  object{"application/json": object{"schema": s.of(reflect.TypeOf(rt.in))}},
		}
	}
	return out
}

// schemas are the schemas of named types, by name.
type schemas object

// of returns the schema of a type as encoding/json encodes it.
func (s schemas) of(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return object{"type": "object"}
		}
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		if _, done := s[t.Name()]; !done {
			s[t.Name()] = nil // ends the recursion for a type that contains itself
			properties, required := object{}, map[string]bool{}
			s.fields(t, properties, required)
			s[t.Name()] = object{"type": "object", "properties": properties, "required": append([]string{}, slices.Sorted(maps.Keys(required))...)}
		}
		return object{"$ref": "#/components/schemas/" + t.Name()}
	}
	panic("review: no schema for " + t.String()) // a new kind of type in an answer
}

func (s schemas) fields(t reflect.Type, properties object, required map[string]bool) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "":
			s.fields(f.Type, properties, required)
		default:
			name = cmp.Or(name, f.Name)
			properties[name] = s.of(f.Type)
			if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
				required[name] = true
			}
		}
	}
}
