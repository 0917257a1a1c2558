package config

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy/internal/durable"
)

// maxSecret bounds a file that contains a value.
const maxSecret = 64 << 10

// maxDepth bounds the nesting of the file. The deepest key is at level 6.
const maxDepth = 20

var reference = regexp.MustCompile(`\$\$\{|\$\{[^}]*\}?`)

var envName = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)

// resolve replaces references by their values, and refuses anchors, aliases and tags.
// Keys are not resolved.
func (v *reader) resolve(n *yaml.Node, depth int) {
	switch {
	case depth > maxDepth:
		v.fault(n.Line, "nested too deep")
		return
	case n.Kind == yaml.AliasNode:
		v.fault(n.Line, "aliases are not supported: write the value out")
		return
	case n.Anchor != "":
		v.fault(n.Line, "anchors are not supported: write the value out")
	case n.Style&yaml.TaggedStyle != 0:
		v.fault(n.Line, "tags are not supported")
	}
	if n.Kind == yaml.ScalarNode {
		v.scalar(n)
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			continue
		}
		v.resolve(c, depth+1)
	}
}

// scalar replaces ${ENV} within a value, or a value of the form file:/path. The result
// is not expanded again.
func (v *reader) scalar(n *yaml.Node) {
	if path, ok := strings.CutPrefix(n.Value, "file:"); ok {
		text, err := fromFile(path)
		if err != nil {
			v.fault(n.Line, "%v", err)
			return
		}
		v.put(n, text, text)
		return
	}
	if !strings.Contains(n.Value, "${") {
		return
	}
	var values []string
	text := reference.ReplaceAllStringFunc(n.Value, func(m string) string {
		if m == "$${" {
			return "${"
		}
		name := envName.FindStringSubmatch(m)
		if name == nil {
			v.fault(n.Line, "%s is not a reference: write ${NAME}, or $${ for a plain ${", m)
			return ""
		}
		value := v.getenv(name[1])
		if value == "" {
			v.fault(n.Line, "there is no environment variable %s", name[1])
		}
		values = append(values, value)
		return value
	})
	v.put(n, text, values...)
}

// put replaces a scalar and hides the values from faults.
func (v *reader) put(n *yaml.Node, text string, values ...string) {
	n.Value, n.Tag, n.Style = text, "!!str", yaml.DoubleQuotedStyle
	v.referenced[n] = true
	v.hidden = append(v.hidden, text)
	v.hidden = append(v.hidden, values...)
}

// fromFile reads a value from a file, without trailing line ends.
func fromFile(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", errors.New("file: takes an absolute path, file:/run/secrets/name")
	}
	b, err := durable.Head(path, maxSecret+1)
	text := strings.TrimRight(string(b), "\r\n")
	switch {
	case err != nil:
		return "", err
	case len(b) > maxSecret:
		return "", errors.New(path + " is over 65536 bytes")
	case text == "":
		return "", errors.New(path + " is empty")
	case !utf8.ValidString(text):
		return "", errors.New(path + " is not UTF-8 text")
	}
	return text, nil
}
