package config_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// row is a key with its full path.
type row struct {
	field
	path string
}

// rows lists every key with a value, such as "backends[].limits.body".
func rows(t reflect.Type, prefix string) []row {
	var out []row
	for _, f := range fields(t) {
		path, typ := strings.TrimPrefix(prefix+"."+f.Key, "."), f.Type
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		switch {
		case typ == reflect.TypeFor[config.Secret](), typ == reflect.TypeFor[config.Names]():
			out = append(out, row{f, path})
		case typ == reflect.TypeFor[memproxy.WriteLimit]():
			limit := memproxy.DefaultLimits().Default
			if f.Key == "anonymous" {
				limit = memproxy.DefaultLimits().Anonymous
			}
			for i, r := range rows(typ, path) {
				r.Doc, r.Default = f.Doc+": "+r.Doc, fmt.Sprint([]int64{limit.PerHour, limit.Total}[i])
				out = append(out, r)
			}
		case typ.Kind() == reflect.Struct:
			out = append(out, rows(typ, path)...)
		case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct:
			out = append(out, rows(typ.Elem(), path+"[]")...)
		case typ.Kind() == reflect.Map && typ.Elem() == reflect.TypeFor[memproxy.WriteLimit]():
			for _, r := range rows(typ.Elem(), path+".*") {
				r.Doc = f.Doc + ": " + r.Doc
				out = append(out, r)
			}
		case typ.Kind() == reflect.Map:
			out = append(out, row{f, path + ".*"})
		default:
			out = append(out, row{f, path})
		}
	}
	return out
}

// typeName is the name of a type in the document.
func typeName(f field) string {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Map {
		t = t.Elem()
	}
	bounds := ""
	if f.Max != "" {
		bounds = ", " + f.Min + " to " + f.Max
	} else if f.Min != "" && t != reflect.TypeFor[config.Duration]() {
		bounds = ", at least " + f.Min
	}
	switch {
	case f.Enum != nil && t.Kind() == reflect.Slice:
		return "list of `" + strings.Join(f.Enum, "`, `") + "`"
	case f.Enum != nil:
		return "`" + strings.Join(f.Enum, "`, `") + "`"
	case t == reflect.TypeFor[config.Duration]():
		return "duration"
	case t == reflect.TypeFor[config.Secret]():
		return "secret"
	case t == reflect.TypeFor[config.Names]():
		return "name or names"
	case t.Kind() == reflect.Slice:
		return "list of text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return "whole number" + bounds
	case t.Kind() == reflect.Float64:
		return "number" + bounds
	}
	return "text"
}

// as ends a row of keys that are described elsewhere.
func as(first string) string { return "` | | | as in `" + first + "` |\n" }

const configurationDoc = "../docs/configuration.md"

// The tables in the document match the struct tags, key for key.
func TestDocumentListsEveryKey(t *testing.T) {
	tables, heads, weak, again := map[string]string{}, []string{}, []string{}, map[string]string{}
	for _, r := range rows(reflect.TypeFor[config.Config](), "") {
		head, _, _ := strings.Cut(strings.ReplaceAll(r.path, "[]", ""), ".")
		if typ := r.Type; !strings.Contains(r.path, ".") && typ.Kind() != reflect.Struct {
			head = "top"
		}
		if !slices.Contains(heads, head) {
			heads = append(heads, head)
			tables[head] = "| key | type | default | meaning |\n|---|---|---|---|\n"
		}
		def := r.Default
		switch {
		case r.Required:
			def = "required"
		case def != "" && !strings.ContainsAny(def, " "):
			def = "`" + def + "`"
		}
		if strings.Contains(r.Loose, ";unsafe") || strings.Contains(r.Loose, ";off:") {
			weak = append(weak, strings.TrimSuffix(strings.ReplaceAll(r.path, "[]", ""), ".*"))
		}
		line := fmt.Sprintf("` | %s | %s | %s |\n", typeName(r.field), def, r.Doc)
		if first := again[r.Key+line]; head == "identity" && first != "" { // the keys of a principal are listed once
			rest, more := strings.CutSuffix(tables[head], as(first))
			if more {
				tables[head] = rest + "`, `." + r.Key + as(first)
			} else {
				tables[head] += "| `" + r.path + as(first)
			}
			continue
		}
		again[r.Key+line] = strings.TrimSuffix(r.path, "."+r.Key)
		tables[head] += "| `" + r.path + line
	}
	b := must.Get(os.ReadFile(configurationDoc))(t)
	doc := string(b)
	tables["unsafe"] = "`" + strings.Join(weak, "`, `") + "`\n"
	must.Get(parse(t, "backends: [{name: m, kind: mem0, listen: \"127.0.0.1:1\", upstream: \"http://127.0.0.1:2\"}]\n").AllowedUnsafe(strings.Join(weak, ",")))(t)
	for _, head := range append(heads, "unsafe") {
		from, to := "<!-- keys: "+head+" -->\n", "<!-- end -->"
		if head == "unsafe" {
			from = "<!-- unsafe -->\n"
		}
		before, rest, ok := strings.Cut(doc, from)
		have, after, closed := strings.Cut(rest, to)
		if !ok || !closed {
			t.Errorf("docs/configuration.md has no place for %s: %s", head, from)
			continue
		}
		if have != tables[head] && !*update {
			t.Errorf("docs/configuration.md, table %s, is stale: run go test ./config -update", head)
		}
		doc = before + from + tables[head] + to + after
	}
	expect.Equal(t, strings.Count(doc, "<!-- keys: "), len(heads), "the document has")
	if *update {
		must.Do(t, os.WriteFile(configurationDoc, []byte(doc), 0o644))
	}
}

// The examples in the document are valid configurations.
func TestDocumentExamplesParse(t *testing.T) {
	b := must.Get(os.ReadFile(configurationDoc))(t)
	n := 0
	for i, part := range strings.Split(string(b), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		if !strings.Contains(text, "backends:") {
			text += backend
		}
		expect.OK(t, expect.Err(config.Parse(fmt.Sprintf("example %d", i+1), []byte(strings.ReplaceAll(text, "file:/", "x:/")), env)), text)
		n++
	}
	expect.Equal(t, n != 0, true, "no examples")
}

// valuesOf maps the paths of a YAML text, in the form of rows, to scalar values; others
// are empty.
func valuesOf(t *testing.T, text []byte) map[string]string {
	t.Helper()
	var root yaml.Node
	must.Do(t, yaml.Unmarshal(text, &root))
	out := map[string]string{}
	var visit func(n *yaml.Node, path string)
	visit = func(n *yaml.Node, path string) {
		out[path] = n.Value
		for i, c := range n.Content {
			switch {
			case n.Kind == yaml.DocumentNode:
				visit(c, path)
			case n.Kind == yaml.SequenceNode:
				visit(c, path+"[]")
			case n.Kind == yaml.MappingNode && i%2 == 1:
				visit(c, strings.TrimPrefix(path+"."+n.Content[i-1].Value, "."))
				visit(c, path+".*")
			}
		}
	}
	visit(&root, "")
	return out
}

// every_key.yaml has every key, so that tests on it cover all.
func TestEveryKeyHasEveryKey(t *testing.T) {
	have := valuesOf(t, valid(t, "every_key"))
	for _, r := range rows(reflect.TypeFor[config.Config](), "") {
		if _, ok := have[r.path]; !ok {
			t.Errorf("every_key.yaml has no %s", r.path)
		}
		expect.Equal(t, r.Doc != "", true, r.path, "has no description")
	}
}

// The documented default of a key is the one printed for a file without it.
func TestDefaultsAreAsDocumented(t *testing.T) {
	text, err := yaml.Marshal(parse(t, `identity: {oidc: {issuer: "https://i.example", audience: a}}
budgets: {redis: {url: "redis://127.0.0.1:1"}}
screening:
  baseline: {}
  judge: {url: "http://127.0.0.1:1", model: m}
`+backend))
	must.Do(t, err)
	got := valuesOf(t, text)
	if l := parse(t, "limits: {connections: 100, in_flight: 10000000}\n"+backend).Limits; l.PerAddress != 75 || l.InFlightPerAddress != 7_500_000 {
		t.Errorf("one address gets %d of 100 connections and %d of 10,000,000 bytes", l.PerAddress, l.InFlightPerAddress)
	}
	for _, path := range []string{"limits.connections_per_address", "limits.in_flight_per_address", "backends[].confidence_keys", "backends[].field_key", "confidence.principal.*", "confidence.source.*"} {
		if _, ok := got[path]; !ok {
			t.Errorf("%s is not printed", path)
		}
	}
	for _, r := range rows(reflect.TypeFor[config.Config](), "") {
		if r.Default == "" || strings.ContainsAny(r.Default, " ;") || strings.HasPrefix(r.path, "budgets.") && strings.Contains(r.path, ".*") {
			continue // prose: see TestProfiles and others
		}
		expect.Equal(t, got[r.path], r.Default, r.path, "documented")
	}
}

// The kinds for webhooks are the kinds of notices.
func TestWebhookKindsAreNotices(t *testing.T) {
	for _, f := range fields(reflect.TypeFor[config.Webhook]()) {
		if f.Key == "kinds" && !slices.Equal(f.Enum, []string{
			string(memproxy.NoticeHold), string(memproxy.NoticeAged), string(memproxy.NoticeRuled), string(memproxy.NoticeLocked), string(memproxy.NoticeEnded),
			string(memproxy.NoticeFlagged), string(memproxy.NoticeQuarantined), string(memproxy.NoticeMemoryRuled),
		}) {
			t.Errorf("kinds are %q", f.Enum)
		}
	}
}
