package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// UnsafeEnv is the environment variable that lists, separated by commas, the settings
// that are allowed to weaken production.
const UnsafeEnv = "MEMPROXY_ALLOW_UNSAFE"

// unsafe returns why production does not start with a setting, or "".
func (c *Config) unsafe(s *Setting) string {
	if c.Profile != "production" {
		if s.Name == "profile" {
			if where := exposure(c); where != "" {
				return c.Profile + " is permissive, and " + where
			}
		}
		return ""
	}
	switch s.Name {
	case "backends.passthrough":
		for _, p := range entriesOf(s.Value) {
			if _, path, _ := strings.Cut(p, " "); strings.Trim(path, "/*") == "" {
				return p + " passes every route that the adapter does not know"
			}
		}
		return ""
	case "identity.require": // also if a default principal implies the value
		return c.servesUnidentified()
	}
	switch {
	case s.Line == 0: // the profile's own default
		return ""
	case s.direction.isOff(s.Value):
		return s.Value + " switches it off"
	case !s.direction.unsafe, s.Name == "sources.names" && s.Path != sourceEntry+everyOther+"]": // the file knows a source that it lists
		return ""
	case s.Name == "ownership.unattributed" && s.Value == "visible":
		// The default is visible for a single tenant and becomes stricter with a second
		// one. An explicit value remains.
		return "visible shows memories written out-of-band to all tenants, including ones added later"
	}
	root := clone(c.file.root)
	cut(root, s.at)
	value, there := productionDefault(root, s.Path)
	// That default may follow another setting ("as memories.inferred") which is stricter than
	// the profile requires of this one.
	profile, own := productionDefault(&yaml.Node{Kind: yaml.MappingNode}, s.Path)
	if !own {
		profile, own = value, there
	}
	if !s.direction.looser(value, there, s.Value, true) || !s.direction.looser(profile, own, s.Value, true) {
		return ""
	}
	return fmt.Sprintf("%s is looser than %s, the default in production", quoted(s.Value), quoted(profile))
}

func quoted(value string) string { return cmp.Or(value, "none") }

// servesUnidentified returns why it is unsafe to serve callers without a credential, or with
// one that proves nothing; "" if it is not. On loopback, callers without a credential are
// processes of the same pod.
func (c *Config) servesUnidentified() string {
	if c.anyEnvoy && c.Identity.SPIFFE != nil {
		return "client certificates are taken from Envoy's messages, and any process that can connect to the processor's port can pose as Envoy: use a socket (--listen unix:PATH) or client certificates (--client-ca)"
	}
	if where := exposure(c); where != "" && c.Identity.Default != nil {
		return "callers without a credential may write, as " + c.Identity.Default.ID + ", and " + where
	}
	return ""
}

// BehindEnvoy declares that Envoy's clients are served as well. They may be on any host,
// because Envoy has its own listeners. port means that any process on the machine, or in
// the pod, can connect to the processor's port.
func (c *Config) BehindEnvoy(port bool) { c.behindEnvoy, c.anyEnvoy = true, port }

// exposure says how other hosts can send requests to memproxy, or is "" if they cannot.
func exposure(c *Config) string {
	if c.behindEnvoy {
		return "every client of Envoy is served"
	}
	for _, b := range c.Backends {
		if host, _, err := net.SplitHostPort(b.Listen); err != nil || !loopback(host) {
			return fmt.Sprintf("backend %s listens on %s, which other hosts reach", b.Name, b.Listen)
		}
	}
	return ""
}

// productionDefault returns the value that a key has in production with a file that lacks
// it.
func productionDefault(file *yaml.Node, path string) (value string, there bool) {
	other := &Config{}
	_ = file.Decode(other) // the file was decoded before
	other.Profile = "production"
	other.defaults()
	var w walk
	w.structure(reflect.ValueOf(other).Elem(), "", "", nil)
	if i := slices.IndexFunc(w, func(other Setting) bool { return other.Path == path }); i >= 0 {
		return w[i].Value, true
	}
	return "", false
}

func clone(n *yaml.Node) *yaml.Node {
	out := *n
	out.Content = nil
	for _, child := range n.Content {
		out.Content = append(out.Content, clone(child))
	}
	return &out
}

// cut removes the key at a path, which the file has.
func cut(n *yaml.Node, path []any) {
	parent, _ := find(n, path[:len(path)-1])
	for i := 0; i < len(parent.Content); i += 2 {
		if parent.Content[i].Value == fmt.Sprint(path[len(path)-1]) {
			parent.Content = slices.Delete(parent.Content, i, i+2)
			return
		}
	}
}

// BuiltinPolicies is the name in UnsafeEnv of the setting builtin: false in a policy
// directory.
const BuiltinPolicies = "policy.builtin"

// SetBuiltinOff records which file leaves the built-in policies out; "" if none does.
func SetBuiltinOff(c *Config, file string) { c.builtinOff = file }

// Unsafe returns the settings that weaken production, or that weaken a development
// profile which other hosts can reach.
func (c *Config) Unsafe() []Setting {
	out := slices.DeleteFunc(c.Settings(), func(s Setting) bool { return s.Unsafe == "" })
	if c.builtinOff != "" && c.Profile == "production" {
		out = append(out, Setting{Path: BuiltinPolicies, Name: BuiltinPolicies, Value: "false", Status: StatusOff, From: c.builtinOff, Line: 1, Unsafe: "builtin: false leaves the built-in policies out"})
	}
	return out
}

// AllowedUnsafe returns the distinct names of the settings that weaken production. Settings
// that are not listed in allowed, the value of UnsafeEnv, are reported as Faults, and so
// are unknown names in that list.
func (c *Config) AllowedUnsafe(allowed string) ([]string, error) {
	list := strings.FieldsFunc(allowed, func(r rune) bool { return r == ',' || r == ' ' })
	var faults Faults
	for _, name := range list {
		if _, known := allDirections()[name]; !known && name != BuiltinPolicies {
			what := fmt.Sprintf("%s names %q, which is not a setting", UnsafeEnv, name)
			if near := nearest(name, append(slices.Sorted(maps.Keys(allDirections())), BuiltinPolicies)); near != "" {
				what += "; did you mean " + near + "?"
			}
			faults = append(faults, what)
		}
	}
	var out []string
	for _, s := range c.Unsafe() {
		if !slices.Contains(list, s.Name) {
			from := s.From
			if s.Line == 0 && c.file != nil {
				from = c.file.name + " (" + s.From + ")"
			}
			faults = append(faults, fmt.Sprintf("%s: %s weakens production: %s; to start all the same, set %s=%s", from, s.Path, s.Unsafe, UnsafeEnv, s.Name))
		}
		if !slices.Contains(out, s.Name) {
			out = append(out, s.Name)
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return out, nil
}

// allDirections returns the directions of all settings, by name.
var allDirections = sync.OnceValue(func() map[string]direction { return directions(reflect.TypeFor[Config](), "") })

func directions(t reflect.Type, prefix string) map[string]direction {
	out := map[string]direction{}
	for _, f := range fieldsOf(t) {
		typ, name := f.typ, join(prefix, f.key)
		if f.direction.kind != "" {
			out[name] = f.direction
		}
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() == reflect.Struct && typ != secretType {
			maps.Copy(out, directions(typ, name))
		}
	}
	return out
}

// listEntry matches the part of a path that names an element of a list or map.
var listEntry = regexp.MustCompile(`\[[^\]]*\]+`)
