package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The bounds of a directory.
const (
	maxFile  = 1 << 20
	maxFiles = 500
)

// settings is a directory's bundle.yaml.
type settings struct {
	// Builtin keeps the built-in policies beside the directory's. Default true.
	Builtin *bool    `yaml:"builtin"`
	Disable []string `yaml:"disable"`
	Shadow  []string `yaml:"shadow"`
}

// Load reads a directory: every *.cedar, an optional *.cedarschema that takes
// the place of the built-in one, and an optional bundle.yaml with
//
//	builtin: true              # false leaves the built-in policies out
//	disable: [content.unseen]  # ids of policies that are left out
//	shadow: [surface.bulk]     # ids that are reported and do not decide
//
// The directory's policies are added to the built-in ones. Subdirectories and
// hidden entries are not read, so that a mounted ConfigMap is read once.
func Load(dir string) (Bundle, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return Bundle{}, fmt.Errorf("policy: %w", err)
	}
	own, set := Bundle{}, settings{}
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(dir, name)
		if strings.HasPrefix(name, ".") {
			continue
		}
		ext := filepath.Ext(name)
		if ext != ".cedar" && ext != ".cedarschema" && name != "bundle.yaml" {
			continue
		}
		text, err := read(path)
		if err != nil {
			return Bundle{}, err
		}
		switch {
		case ext == ".cedar":
			own.Policies = append(own.Policies, Source{path, text})
		case ext == ".cedarschema" && own.Schema.Text != nil:
			return Bundle{}, fmt.Errorf("policy: %s: a second schema beside %s", path, own.Schema.Name)
		case ext == ".cedarschema":
			own.Schema = Source{path, text}
		default:
			if set, err = parseSettings(path, text); err != nil {
				return Bundle{}, err
			}
		}
		if len(own.Policies) > maxFiles {
			return Bundle{}, fmt.Errorf("policy: %s: more than %d files", dir, maxFiles)
		}
	}
	base := Builtin()
	if own.Schema.Text == nil {
		own.Schema = base.Schema
	}
	if set.Builtin == nil || *set.Builtin {
		own.Policies = append(base.Policies, own.Policies...)
	}
	own.Disabled, own.Shadowed = set.Disable, set.Shadow
	slices.SortFunc(own.Policies, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	return own, nil
}

func parseSettings(path string, text []byte) (settings, error) {
	var set settings
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&set); err != nil && !errors.Is(err, io.EOF) {
		return set, fmt.Errorf("policy: %s: %w", path, err)
	}
	return set, nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("policy: %s: %w", path, err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("policy: %s: over %d bytes", path, maxFile)
	}
	return b, nil
}
