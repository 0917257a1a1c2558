package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/durable"
)

const maxConfig = 4 << 20 // maximum size of a configuration file in bytes

// Load reads a file and resolves references with getenv. Invalid content is returned as
// Faults; another error means that the file cannot be read.
func Load(path string, getenv func(string) string) (*Config, error) {
	b, err := Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; memproxy init writes a first one", err)
	}
	if err != nil {
		return nil, err
	}
	return Parse(path, b, getenv)
}

// Read reads a configuration file, up to one byte more than allowed.
func Read(path string) ([]byte, error) {
	b, err := durable.ReadPrefix(path, maxConfig+1)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return b, nil
}

// Faults are the faults of a file, at most a hundred, each "file:line: message", sorted
// by line.
type Faults []string

// Error lists the faults, one per line.
func (f Faults) Error() string { return strings.Join(f, "\n") }

// Parse parses a configuration. name is used in errors.
func Parse(name string, text []byte, getenv func(string) string) (*Config, error) {
	c := &Config{}
	var hidden, referred []string
	root, err := parse(name, text, getenv, c, func(v *reader, at func(...any) int) {
		c.defaults()
		v.check(c, at)
		hidden, referred = v.hidden, v.files
	})
	if err != nil {
		return nil, err
	}
	c.file = &file{name, root, version(text, referred), func(what string) string { return redact(hidden, what) }}
	return c, nil
}

// Version returns a hash of a configuration's text and of the values that it takes from
// files, as they are now. Those that cannot be read do not count.
func Version(text []byte) string {
	v := &reader{getenv: func(string) string { return "" }, referenced: map[*yaml.Node]bool{}}
	if bytes.Contains(text, []byte("file:/")) { // otherwise the text need not be parsed at every look
		if root := v.document(text); root != nil {
			v.resolve(root, 0)
		}
	}
	return version(text, v.files)
}

func version(text []byte, files []string) string {
	sum := memproxy.TextSHA256(string(text))
	for _, value := range files {
		sum = memproxy.TextSHA256(sum + value)
	}
	return sum
}

// Strict parses another file, in which a reference is a fault, into a struct with the tags of a Config.
// line returns the line of the value at a path. name is used in errors.
func Strict(name string, text []byte, into any) (line func(path ...any) int, err error) {
	root, err := parse(name, text, nil, into, func(*reader, func(...any) int) {})
	return func(path ...any) int { return lineOf(root, path...) }, err
}

// parse decodes text into a configuration, which check then completes and checks. It
// stops after the first step with faults.
func parse(name string, text []byte, getenv func(string) string, into any, check func(v *reader, at func(...any) int)) (root *yaml.Node, err error) {
	v := &reader{name: name, getenv: getenv, referenced: map[*yaml.Node]bool{}}
	for _, step := range [...]func(){
		func() { root = v.document(text) },
		func() { v.resolve(root, 0) },
		func() { v.strict(root, field{typ: reflect.TypeOf(into).Elem()}, "") },
		func() { v.fromYAML(root.Decode(into)) },
		func() { check(v, func(path ...any) int { return lineOf(root, path...) }) },
	} {
		if step(); len(v.faults) > 0 {
			return nil, sorted(v)
		}
	}
	return root, nil
}

// reader collects faults and records which values came from references.
type reader struct {
	name       string
	getenv     func(string) string
	faults     []fault
	referenced map[*yaml.Node]bool // scalars whose value came from a reference
	hidden     []string            // values that faults must not quote
	files      []string            // values from files
}

type fault struct {
	line int
	what string
}

const maxFaults = 100 // maximum number of reported faults

func (v *reader) fault(line int, format string, args ...any) {
	if len(v.faults) >= maxFaults {
		return
	}
	v.faults = append(v.faults, fault{line, redact(v.hidden, fmt.Sprintf(format, args...))})
}

// redact replaces values of references in a message.
func redact(hidden []string, what string) string {
	for _, h := range hidden {
		what = strings.ReplaceAll(what, strconv.Quote(h), redacted)
		if len(h) > 3 { // shorter values could be ordinary words of the message
			what = strings.ReplaceAll(what, h, redacted)
		}
	}
	return what
}

func sorted(v *reader) Faults {
	slices.SortStableFunc(v.faults, func(a, b fault) int { return a.line - b.line })
	out := make(Faults, len(v.faults))
	for i, f := range v.faults {
		out[i] = fmt.Sprintf("%s:%d: %s", v.name, f.line, f.what)
	}
	return slices.Compact(out)
}

// document parses text that must contain exactly one document. Otherwise it adds a fault
// and returns nil.
func (v *reader) document(text []byte) *yaml.Node {
	if len(text) > maxConfig {
		v.fault(1, "the file is over %d bytes", maxConfig)
		return nil
	}
	if at, what := invalidByte(text); at >= 0 {
		v.fault(1+bytes.Count(text[:at], []byte("\n")), "%s", what)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var root, more yaml.Node
	if err := dec.Decode(&root); errors.Is(err, io.EOF) {
		v.fault(1, "the file is empty")
		return nil
	} else if err != nil {
		v.fromYAML(err)
		return nil
	}
	body := root.Content[0]
	if isNull(body) {
		v.fault(1, "the file is empty")
		return nil
	}
	if err := dec.Decode(&more); err == nil {
		v.fault(more.Line, "a second document: only one is allowed")
		return nil
	} else if !errors.Is(err, io.EOF) {
		v.fromYAML(err)
		return nil
	}
	return body
}

// invalidByte finds the first byte that is not valid in a text file.
func invalidByte(text []byte) (at int, what string) {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			return i, "the file is not UTF-8"
		case unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t':
			return i, "a control character"
		}
		i += n
	}
	return -1, ""
}

var (
	yamlLine = regexp.MustCompile(`(?s)^(?:yaml: )?line (\d+): (.*)$`)
	// yamlParser matches the faults of the library's parser, whose lines it counts from 0.
	// It counts those of its scanner from 1.
	yamlParser = regexp.MustCompile(`^did not find expected (?:node content|'-' indicator|key|',' or '[]}]'|<document start>)$`)
)

// fromYAML adds a fault that the YAML library found.
func (v *reader) fromYAML(err error) {
	if err == nil {
		return
	}
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		v.fault(1, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	line, _ := strconv.Atoi(m[1]) // the pattern matches digits only
	if yamlParser.MatchString(m[2]) {
		line++
	}
	v.fault(line, "%s", strings.Replace(m[2], "found character that cannot start any token", "a value cannot begin with this character; indent with spaces, not tabs", 1))
}

const maxSecret = 64 << 10 // maximum size in bytes of a file that contains a value

// maxDepth is the maximum nesting depth of the file. The deepest key is at level 6.
const maxDepth = 20

var reference = regexp.MustCompile(`\$\$\{|\$\{[^}]*\}?`)

var envName = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$`)

// resolve replaces references in values, and refuses anchors, aliases and tags. It does
// not resolve keys.
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

// scalar replaces each ${ENV} in a value, or a whole value of the form file:/path. It
// does not expand the result again.
func (v *reader) scalar(n *yaml.Node) {
	if v.getenv == nil {
		faultIf(v, strings.HasPrefix(n.Value, "file:") || strings.Contains(n.Value, "${"), n.Line, "references are not supported: write the value out")
		return
	}
	if path, ok := strings.CutPrefix(n.Value, "file:"); ok {
		text, err := fromFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			v.fault(n.Line, "%v; file: names a file that the user memproxy runs as can read", err)
			return
		}
		if err != nil {
			v.fault(n.Line, "%v", err)
			return
		}
		v.files = append(v.files, text)
		v.replaceScalar(n, text, text)
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
		value := strings.TrimRight(v.getenv(name[1]), lineEnd)
		if value == "" {
			v.fault(n.Line, "environment variable %s is not set, or is empty", name[1])
		}
		values = append(values, value)
		return value
	})
	v.replaceScalar(n, text, values...)
}

// replaceScalar replaces a scalar, and hides the values from faults.
func (v *reader) replaceScalar(n *yaml.Node, text string, values ...string) {
	n.Value, n.Tag, n.Style = text, "!!str", yaml.DoubleQuotedStyle
	v.referenced[n] = true
	v.hidden = append(v.hidden, text)
	v.hidden = append(v.hidden, values...)
}

// lineEnd are the characters that are removed from the end of a referenced value: tools that
// write one add them.
const lineEnd = "\r\n"

// fromFile reads a value from a file, without trailing line breaks.
func fromFile(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", errors.New("file: takes an absolute path, file:/run/secrets/name")
	}
	b, err := durable.ReadPrefix(path, maxSecret+1)
	text := strings.TrimRight(string(b), lineEnd)
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
