package config

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy/internal/durable"
)

// maxConfig bounds a configuration file.
const maxConfig = 4 << 20

// Load reads a file. References are looked up with getenv. Faults in the file
// come as Faults; another error means that it could not be read.
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

// Read reads as much of a configuration's file as shows that it is too large.
func Read(path string) ([]byte, error) {
	b, err := durable.Head(path, maxConfig+1)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return b, nil
}

// Faults is every fault of a file, up to a hundred, each "file:line: what", in
// the order of the lines.
type Faults []string

// Error lists the faults, a line each.
func (f Faults) Error() string { return strings.Join(f, "\n") }

// Parse reads a configuration. Name is what errors call it.
func Parse(name string, text []byte, getenv func(string) string) (*Config, error) {
	c := &Config{}
	root, err := parse(name, text, getenv, c, func(v *reader, at func(...any) int) {
		c.defaults()
		v.check(c, at)
	})
	if err != nil {
		return nil, err
	}
	c.file = &file{name, root, sha256.Sum256(text)}
	return c, nil
}

// parse reads text into a configuration, which check then completes and checks. A
// step whose forerunners found faults is not made.
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

// reader gathers faults and remembers what came from references.
type reader struct {
	name       string
	getenv     func(string) string
	faults     []fault
	referenced map[*yaml.Node]bool // scalars that a reference filled
	hidden     []string            // their values, which no fault shows
}

type fault struct {
	line int
	what string
}

// maxFaults is where a file is beyond a list of faults.
const maxFaults = 100

func (v *reader) fault(line int, format string, args ...any) {
	if len(v.faults) >= maxFaults {
		return
	}
	what := fmt.Sprintf(format, args...)
	for _, h := range v.hidden {
		what = strings.ReplaceAll(what, strconv.Quote(h), redacted)
		if len(h) > 3 { // shorter ones are words of the sentence too
			what = strings.ReplaceAll(what, h, redacted)
		}
	}
	v.faults = append(v.faults, fault{line, what})
}

func sorted(v *reader) Faults {
	slices.SortStableFunc(v.faults, func(a, b fault) int { return a.line - b.line })
	out := make(Faults, len(v.faults))
	for i, f := range v.faults {
		out[i] = fmt.Sprintf("%s:%d: %s", v.name, f.line, f.what)
	}
	return slices.Compact(out)
}

// document parses text that must hold one document, or faults and returns nil.
func (v *reader) document(text []byte) *yaml.Node {
	if len(text) > maxConfig {
		v.fault(1, "the file is over %d bytes", maxConfig)
		return nil
	}
	if at, what := oddity(text); at >= 0 {
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
	if body.Kind == yaml.ScalarNode && body.ShortTag() == "!!null" {
		v.fault(1, "the file is empty")
		return nil
	}
	if err := dec.Decode(&more); err == nil {
		v.fault(more.Line, "a second document: the file holds one")
		return nil
	} else if !errors.Is(err, io.EOF) {
		v.fromYAML(err)
		return nil
	}
	return body
}

// oddity finds the first byte that has no business in a text file.
func oddity(text []byte) (at int, what string) {
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

var yamlLine = regexp.MustCompile(`(?s)^(?:yaml: )?line (\d+): (.*)$`)

// fromYAML takes over the faults that the YAML library found.
func (v *reader) fromYAML(err error) {
	if err == nil {
		return
	}
	lines := []string{err.Error()}
	if te, ok := errors.AsType[*yaml.TypeError](err); ok {
		lines = te.Errors
	}
	for _, l := range lines {
		m := yamlLine.FindStringSubmatch(l)
		if m == nil {
			v.fault(1, "%s", strings.TrimPrefix(l, "yaml: "))
			continue
		}
		line, _ := strconv.Atoi(m[1]) // digits
		v.fault(line, "%s", m[2])
	}
}
