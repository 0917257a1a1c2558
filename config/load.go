package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxConfig bounds a configuration file.
const maxConfig = 4 << 20

// Load reads a file.
func Load(path string, getenv func(string) string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return Parse(path, b, getenv)
}

// Faults is every fault of a file, each "file:line: what".
type Faults []string

// Error lists the faults, a line each.
func (f Faults) Error() string { return strings.Join(f, "\n") }

// Parse reads a configuration. Name is what errors call it.
func Parse(name string, text []byte, getenv func(string) string) (*Config, error) {
	if len(text) > maxConfig {
		return nil, Faults{fmt.Sprintf("%s: over %d bytes", name, maxConfig)}
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fromYAML(name, err)
	}
	if root.Kind == 0 {
		return nil, Faults{name + ":1: the file is empty"}
	}
	v := &reader{name: name, getenv: getenv}
	v.resolve(&root, 0)
	if len(v.faults) > 0 {
		return nil, v.faults
	}
	// Node.Decode cannot refuse unknown keys, so the resolved tree is printed
	// and read again; lines come from the first reading.
	c := &Config{}
	if err := strictKeys(&root, c); err != nil {
		return nil, fromYAML(name, err)
	}
	if err := root.Decode(c); err != nil {
		return nil, fromYAML(name, err)
	}
	c.defaults()
	v.check(c, &root)
	if len(v.faults) > 0 {
		return nil, v.faults
	}
	return c, nil
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// fromYAML puts the file in front of every line of a YAML error.
func fromYAML(name string, err error) error {
	lines := []string{err.Error()}
	var te *yaml.TypeError
	if errors.As(err, &te) {
		lines = te.Errors
	}
	var out Faults
	for _, l := range lines {
		if m := yamlLine.FindStringSubmatch(l); m != nil {
			out = append(out, name+":"+m[1]+": "+m[2])
		} else {
			out = append(out, name+": "+strings.TrimPrefix(l, "yaml: "))
		}
	}
	return out
}

// strictKeys decodes the original text's tree with unknown keys as errors.
func strictKeys(root *yaml.Node, into *Config) error {
	text, err := yaml.Marshal(root)
	if err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	scratch := &Config{}
	err = dec.Decode(scratch)
	var te *yaml.TypeError
	if !errors.As(err, &te) {
		return nil // anything else comes again, with its line, from Decode
	}
	var unknown []string
	for _, e := range te.Errors {
		if m := regexp.MustCompile(`field (\S+) not found in type`).FindStringSubmatch(e); m != nil && !slices.Contains(unknown, m[1]) {
			unknown = append(unknown, m[1])
		}
	}
	_ = into
	if len(unknown) == 0 {
		return nil
	}
	out := &yaml.TypeError{}
	walk(root, func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i < len(n.Content); i += 2 {
			if k := n.Content[i]; slices.Contains(unknown, k.Value) {
				out.Errors = append(out.Errors, fmt.Sprintf("line %d: unknown key %q", k.Line, k.Value))
			}
		}
	})
	return out
}

func walk(n *yaml.Node, visit func(*yaml.Node)) {
	visit(n)
	for _, c := range n.Content {
		walk(c, visit)
	}
}

// reader gathers faults and resolves references.
type reader struct {
	name   string
	getenv func(string) string
	faults Faults
}

func (v *reader) fault(line int, format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf("%s:%d: %s", v.name, line, fmt.Sprintf(format, args...)))
}

var reference = regexp.MustCompile(`\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// resolve replaces ${ENV} and whole values file:/path.
func (v *reader) resolve(n *yaml.Node, depth int) {
	if depth > 100 {
		v.fault(n.Line, "nested too deep")
		return
	}
	if n.Kind == yaml.AliasNode {
		v.fault(n.Line, "aliases are not supported")
		return
	}
	if n.Kind == yaml.ScalarNode {
		v.scalar(n)
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			continue // keys are taken as they stand
		}
		v.resolve(c, depth+1)
	}
}

// maxSecret bounds a file that holds a value.
const maxSecret = 64 << 10

func (v *reader) scalar(n *yaml.Node) {
	if path, ok := strings.CutPrefix(n.Value, "file:/"); ok {
		f, err := os.Open("/" + path)
		if err != nil {
			v.fault(n.Line, "%v", err)
			return
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxSecret))
		if err != nil {
			v.fault(n.Line, "%v", err)
			return
		}
		n.SetString(strings.TrimRight(string(b), "\r\n"))
		return
	}
	if !strings.Contains(n.Value, "${") {
		return
	}
	n.Value = reference.ReplaceAllStringFunc(n.Value, func(m string) string {
		if m == "$${" {
			return "${"
		}
		name := m[2 : len(m)-1]
		value := v.getenv(name)
		if value == "" {
			v.fault(n.Line, "the environment has no %s", name)
		}
		return value
	})
	n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
}
