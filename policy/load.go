package policy

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/durable"
)

// Limits of a policy directory.
const (
	maxFile  = 1 << 20
	maxPack  = 8 << 20
	maxFiles = 500
)

const (
	// settingsFile is the file with the directory's settings.
	settingsFile = "bundle.yaml"
	// packFile is the file of the directory's screening pack.
	packFile = "screening.pack"
)

type settings struct {
	// Builtin keeps the built-in policies in addition to the directory's. The default is
	// true.
	Builtin *bool    `yaml:"builtin"`
	Disable []string `yaml:"disable"`
	Shadow  []string `yaml:"shadow"`
	Tables  tables   `yaml:",inline"`
}

// Position returns where an id of Disabled or Shadowed was read, "file:line", or else the
// name of the file that lists such ids.
func (b *Bundle) Position(id string) string { return cmp.Or(b.places[id], settingsFile) }

// BuiltinOff returns the file of a directory, or of a release's, that leaves the built-in
// policies out, or "".
func (b *Bundle) BuiltinOff() string { return b.builtinOff }

// Load reads a directory: every *.cedar, an optional *.cedarschema that replaces the
// built-in one, and an optional bundle.yaml with
//
//	builtin: true              # false leaves the built-in policies out
//	disable: [content.unseen]  # ids of policies that are left out
//	shadow: [surface.bulk]     # ids that are reported and do not decide
//	budgets: {…}               # as in memproxy.yaml, which it replaces
//	confidence: {…}            # likewise
//
// and an optional screening.pack, whose content is not interpreted. The directory's
// policies are added to the built-in ones. Subdirectories and hidden entries are skipped,
// so that the files of a mounted ConfigMap are read once only.
//
// A directory without any of these files, or with an empty one, is an error, because it
// may be an unfinished mount or edit. Anything other than a regular text file is an
// error, too. Errors name the file, and the line if there is one.
func Load(dir string) (Bundle, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Bundle{}, fmt.Errorf("policy: %w", err)
	}
	own, set, found := Bundle{}, settings{}, 0
	for _, e := range entries {
		name := e.Name()
		ext := filepath.Ext(name)
		if strings.HasPrefix(name, ".") || e.IsDir() || ext != ".cedar" && ext != ".cedarschema" && name != settingsFile && name != packFile {
			continue
		}
		if found++; found > maxFiles {
			return Bundle{}, fmt.Errorf("policy: %s: more than %d files", dir, maxFiles)
		}
		path := filepath.Join(dir, name)
		if name == packFile {
			if own.Screening, err = readFile(path, maxPack); err != nil {
				return Bundle{}, err
			}
			continue
		}
		text, err := read(path)
		if err != nil {
			return Bundle{}, err
		}
		switch {
		case ext == ".cedar":
			own.Policies = append(own.Policies, Source{path, string(text)})
		case ext == ".cedarschema" && own.Schema.Text != "":
			return Bundle{}, fmt.Errorf("policy: %s:1: a second schema, in addition to %s", path, own.Schema.Name)
		case ext == ".cedarschema":
			own.Schema = Source{path, string(text)}
		default:
			if set, err = own.parseSettings(path, text); err != nil {
				return Bundle{}, err
			}
		}
	}
	if found == 0 {
		return Bundle{}, fmt.Errorf("policy: %s: no *.cedar, *.cedarschema, %s or %s in it", dir, settingsFile, packFile)
	}
	base := Builtin()
	if own.Schema.Text == "" {
		own.Schema = base.Schema
	}
	file := filepath.Join(dir, settingsFile)
	if set.Builtin == nil || *set.Builtin {
		own.Policies = append(base.Policies, own.Policies...)
	} else {
		own.builtinOff = file
	}
	if err := set.Tables.applyTo(&own); err != nil {
		return Bundle{}, fmt.Errorf("policy: %s:1: %w", file, err)
	}
	slices.SortFunc(own.Policies, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	return own, nil
}

// parseSettings parses a bundle.yaml as the configuration is parsed, and records where each
// id was read.
func (b *Bundle) parseSettings(path string, text []byte) (set settings, err error) {
	if len(bytes.TrimSpace(comment.ReplaceAll(text, nil))) == 0 {
		return set, nil
	}
	line, err := config.Strict(path, text, &set)
	if err != nil {
		return set, fmt.Errorf("policy: %w", err)
	}
	b.Disabled, b.Shadowed, b.places = set.Disable, set.Shadow, map[string]string{}
	for i, id := range set.Disable {
		b.places[id] = fmt.Sprintf("%s:%d", path, line("disable", i))
	}
	for i, id := range set.Shadow {
		b.places[id] = fmt.Sprintf("%s:%d", path, line("shadow", i))
	}
	return set, nil
}

var comment = regexp.MustCompile(`(?m)^\s*#.*$`)

func read(path string) ([]byte, error) {
	b, err := readFile(path, maxFile)
	n := 0
	for line := range bytes.Lines(b) {
		if n++; !utf8.Valid(line) {
			return nil, fmt.Errorf("policy: %s:%d: not UTF-8", path, n)
		}
	}
	return b, err
}

func readFile(path string, bound int64) ([]byte, error) {
	b, err := durable.ReadPrefix(path, bound+1)
	switch {
	case err != nil:
		return nil, fmt.Errorf("policy: %w", err)
	case int64(len(b)) > bound:
		return nil, fmt.Errorf("policy: %s: over %d bytes", path, bound)
	case len(b) == 0:
		return nil, fmt.Errorf("policy: %s:1: the file is empty; for no policies, remove it", path)
	}
	return b, nil
}
