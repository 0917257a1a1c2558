package config_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

var update = flag.Bool("update", false, "write memproxy.schema.json and the tables of docs/configuration.md")

type object = map[string]any

// Forms of values that editors cannot check: references to the environment or a file.
const (
	referencePattern = `\$\{[A-Za-z_][A-Za-z0-9_]*\}|^file:/`
	durationPattern  = `^(0|[0-9]+(\.[0-9]+)?d|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
)

func orReference(s object) object {
	return object{"anyOf": []any{s, object{"$ref": "#/$defs/reference"}}}
}

// schemaOf is the JSON Schema of a key's type.
func schemaOf(f field) object {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	bounds := func(s object) object {
		for key, bound := range map[string]string{"minimum": f.Min, "maximum": f.Max} {
			if x, err := strconv.ParseFloat(bound, 64); err == nil {
				s[key] = x
			}
		}
		return s
	}
	switch t {
	case reflect.TypeFor[config.Duration]():
		return orReference(object{"anyOf": []any{object{"type": "string", "pattern": durationPattern}, object{"const": 0}}})
	case reflect.TypeFor[config.Secret]():
		return object{"type": "string"}
	case reflect.TypeFor[config.Names]():
		return object{"anyOf": []any{object{"type": "string"}, object{"type": "array", "items": object{"type": "string"}}}}
	}
	switch t.Kind() {
	case reflect.Struct:
		return mappingOf(t)
	case reflect.Map:
		s := object{"type": "object", "additionalProperties": schemaOf(field{Type: t.Elem(), Enum: f.Enum, Min: f.Min, Max: f.Max})}
		if f.Keys != nil {
			s["propertyNames"] = object{"enum": f.Keys}
		}
		return s
	case reflect.Slice:
		return object{"type": "array", "items": schemaOf(field{Type: t.Elem(), Enum: f.Enum})}
	case reflect.Bool:
		return orReference(object{"type": "boolean"})
	case reflect.Int, reflect.Int64:
		return orReference(bounds(object{"type": "integer"}))
	case reflect.Float64:
		return orReference(bounds(object{"type": "number"}))
	}
	switch {
	case f.Enum != nil:
		return orReference(object{"enum": f.Enum})
	case f.Required:
		return object{"type": "string", "minLength": 1}
	}
	return object{"type": "string"}
}

func mappingOf(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range fields(t) {
		s := schemaOf(f)
		s["description"] = f.Doc
		if f.Default != "" {
			s["description"] = f.Doc + " (default: " + f.Default + ")"
		}
		properties[f.Key] = s
		if f.Required {
			required = append(required, f.Key)
		}
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func generate(t *testing.T) []byte {
	t.Helper()
	s := mappingOf(reflect.TypeFor[config.Config]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = "https://github.com/memproxy/memproxy/config/memproxy.schema.json"
	s["title"] = "memproxy.yaml"
	s["$defs"] = object{"reference": object{"type": "string", "pattern": referencePattern}}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	must.Do(t, enc.Encode(s))
	return b.Bytes()
}

const schemaFile = "memproxy.schema.json"

func TestSchemaIsFresh(t *testing.T) {
	want := generate(t)
	if *update {
		must.Do(t, os.WriteFile(schemaFile, want, 0o644))
	}
	expect.Equal(t, string(must.Get(os.ReadFile(schemaFile))(t)), string(want), schemaFile, "is stale: run go test ./config -update")
}

// checker validates with the part of JSON Schema 2020-12 that the file uses,
// and refuses to pass over a keyword that it does not know.
type checker struct{ root object }

func (c checker) valid(s object, v any, at string) error {
	for _, key := range slices.Sorted(maps(s)) {
		arg, fault := s[key], ""
		switch key {
		case "$schema", "$id", "$defs", "title", "description":
		case "$ref":
			name := strings.TrimPrefix(arg.(string), "#/$defs/")
			if err := c.valid(c.root["$defs"].(object)[name].(object), v, at); err != nil {
				return err
			}
		case "anyOf":
			if !slices.ContainsFunc(arg.([]any), func(o any) bool { return c.valid(o.(object), v, at) == nil }) {
				fault = "none of anyOf"
			}
		case "type":
			if !isA(arg.(string), v) {
				fault = fmt.Sprintf("is no %v", arg)
			}
		case "const":
			if n, ok := number(v); !ok || n != arg.(float64) {
				fault = "is not the constant"
			}
		case "enum":
			if !slices.Contains(arg.([]any), v) {
				fault = "is not in the enum"
			}
		case "minimum", "maximum":
			if n, ok := number(v); ok && (key == "minimum" && !(n >= arg.(float64)) || key == "maximum" && !(n <= arg.(float64))) {
				fault = "is out of bounds"
			}
		case "minLength":
			if text, ok := v.(string); ok && float64(len(text)) < arg.(float64) {
				fault = "is too short"
			}
		case "pattern":
			if text, ok := v.(string); ok && !regexp.MustCompile(arg.(string)).MatchString(text) {
				fault = "does not match"
			}
		case "items":
			list, _ := v.([]any)
			for i, e := range list {
				if err := c.valid(arg.(object), e, fmt.Sprintf("%s[%d]", at, i)); err != nil {
					return err
				}
			}
		case "required":
			m, _ := v.(object)
			for _, name := range arg.([]any) {
				if _, ok := m[name.(string)]; !ok {
					fault = fmt.Sprintf("lacks %v", name)
				}
			}
		case "propertyNames":
			m, _ := v.(object)
			for k := range m {
				if err := c.valid(arg.(object), k, at+"."+k); err != nil {
					return err
				}
			}
		case "properties", "additionalProperties":
			if err := c.members(s, v, at); err != nil {
				return err
			}
		default:
			return fmt.Errorf("the schema uses %s, which this test does not know", key)
		}
		if fault != "" {
			return fmt.Errorf("%s %s", at, fault)
		}
	}
	return nil
}

func (c checker) members(s object, v any, at string) error {
	m, _ := v.(object)
	known, _ := s["properties"].(object)
	for k, e := range m {
		sub, ok := known[k].(object)
		if !ok {
			if sub, ok = s["additionalProperties"].(object); !ok {
				return fmt.Errorf("%s.%s is unknown", at, k)
			}
		}
		if err := c.valid(sub, e, at+"."+k); err != nil {
			return err
		}
	}
	return nil
}

func maps(m object) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func isA(typ string, v any) bool {
	n, isNumber := number(v)
	switch typ {
	case "object":
		_, ok := v.(object)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	case "string":
		_, ok := v.(string)
		return ok
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "integer":
		return isNumber && n == math.Trunc(n)
	case "number":
		return isNumber
	}
	return false
}

// bySchema validates a file as an editor would.
func bySchema(t *testing.T, text []byte) error {
	t.Helper()
	b := must.Get(os.ReadFile(schemaFile))(t)
	var schema object
	must.Do(t, json.Unmarshal(b, &schema))
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return err
	}
	return checker{schema}.valid(schema, v, "")
}

// The JSON Schema and the reader agree: what is valid for one is valid for the other,
// and faults that need no context are found by both.
func TestSchemaAgreesWithTheReader(t *testing.T) {
	ring.Long(t, "one configuration after another")
	right, _ := filepath.Glob("testdata/valid/*.yaml")
	examples, _ := filepath.Glob("../examples/*/*.yaml")
	for _, path := range append(right, examples...) {
		if name := filepath.Base(path); name == "bundle.yaml" || name == "envoy.yaml" || name == "authz.yaml" { // not memproxy.yaml
			continue
		}
		text := must.Get(os.ReadFile(path))(t)
		expect.OK(t, bySchema(t, text), path)
	}
	wrong, _ := filepath.Glob("testdata/errors/*.txtar")
	for _, path := range wrong {
		a := must.Get(txtar.ParseFile(path))(t)
		name := filepath.Base(path)
		if right := section(a, "right.yaml"); right != nil {
			expect.OK(t, bySchema(t, right), name, "the right file")
		}
		for _, prefix := range []string{"unknown_", "type_", "limit_", "duration_", "share_", "ceiling_", "body_", "depth_", "oidc_without", "spiffe_", "key_without"} {
			if strings.HasPrefix(name, prefix) && name != "type_number_too_big.txtar" && name != "duration_zero.txtar" && name != "duration_too_long.txtar" && name != "unknown_key_merge.txtar" &&
				bySchema(t, section(a, "memproxy.yaml")) == nil {
				t.Errorf("%s: right by the schema", name)
			}
		}
	}
}

// An unknown key is refused at any level.
func TestUnknownKeyAnywhere(t *testing.T) {
	ring.Long(t, "one configuration after another")
	var root yaml.Node
	must.Do(t, yaml.Unmarshal(valid(t, "every_key"), &root))
	mappings := 0
	var visit func(n *yaml.Node, path string)
	visit = func(n *yaml.Node, path string) {
		if n.Kind == yaml.MappingNode && !freeKeys[path] {
			mappings++
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "zzz"}, &yaml.Node{Kind: yaml.ScalarNode, Value: "1"})
			text := must.Get(yaml.Marshal(&root))(t)
			expect.ErrorHas(t, expect.Err(config.Parse("x", text, env)), `unknown key "zzz"`, path, "the reader says")
			expect.Error(t, bySchema(t, text), path, "right by the schema")
			n.Content = n.Content[:len(n.Content)-2]
		}
		for i, c := range n.Content {
			if n.Kind != yaml.MappingNode {
				visit(c, path)
			} else if i%2 == 1 {
				visit(c, strings.TrimPrefix(path+"."+n.Content[i-1].Value, "."))
			}
		}
	}
	visit(&root, "")
	expect.Equal(t, mappings >= 25, true, mappings, "mappings were tried")
}

// freeKeys are the mappings whose keys are names of the user's.
var freeKeys = map[string]bool{"policy.control.labels": true, "budgets.overrides": true, "budgets.tenants": true, "budgets.namespaces": true, "telemetry.headers": true, "memories.ttl": true, "sources.names": true}
