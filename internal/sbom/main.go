// Command sbom writes what a Go binary is built from as a CycloneDX 1.6 bill of
// materials, from the build information inside the binary itself: so it says
// what is in it, and not what go.mod would allow.
//
//	go run ./internal/sbom -binary bin/memproxy -version v1.2.3 > memproxy.cdx.json
//
// The same binary gives the same document, byte for byte.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	binary := flag.String("binary", "", "the binary")
	version := flag.String("version", "unknown", "the version that it was stamped with")
	flag.Parse()
	if err := run(*binary, *version, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// document is CycloneDX 1.6, as far as it is used.
type document struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Ref        string     `json:"bom-ref"`
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Scope      string     `json:"scope,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

func run(path, version string, w io.Writer) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	doc, err := describe(info, version, sha256.Sum256(b))
	if err != nil {
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}

// describe turns build information into a document.
func describe(info *debug.BuildInfo, version string, sum [32]byte) (*document, error) {
	if info.Main.Path == "" {
		return nil, errors.New("the binary does not say what it is built from")
	}
	digest := hex.EncodeToString(sum[:])
	doc := &document{Format: "CycloneDX", Spec: "1.6", Serial: serial(sum), Version: 1, Components: []component{}}
	doc.Metadata.Component = component{
		Ref: purl(info.Main.Path, version), Type: "application", Name: info.Main.Path, Version: version,
		Hashes: []hash{{"SHA-256", digest}}, PURL: purl(info.Main.Path, version), Properties: settings(info),
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	doc.add("std", goVersion, "")
	for _, m := range info.Deps {
		if r := m.Replace; r != nil {
			m = r
		}
		doc.add(m.Path, m.Version, m.Sum)
	}
	slices.SortFunc(doc.Components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	all := dependency{Ref: doc.Metadata.Component.Ref, DependsOn: []string{}}
	for _, c := range doc.Components {
		all.DependsOn = append(all.DependsOn, c.Ref)
	}
	doc.Dependencies = []dependency{all}
	return doc, nil
}

func (d *document) add(path, version, sum string) {
	c := component{Ref: purl(path, version), Type: "library", Name: path, Version: version, Scope: "required", PURL: purl(path, version)}
	if h1, ok := strings.CutPrefix(sum, "h1:"); ok {
		// The hash of go.sum is over the module's files, not over an archive.
		if b, err := base64.StdEncoding.DecodeString(h1); err == nil {
			c.Properties = []property{{"go:sum:h1", hex.EncodeToString(b)}}
		}
	}
	d.Components = append(d.Components, c)
}

// purl is a package URL (type golang). Paths of modules need no escaping
// beyond that of the at sign, which they do not have.
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}

// settings are those of the build that change what is in the binary.
func settings(info *debug.BuildInfo) (out []property) {
	out = append(out, property{"go:version", info.GoVersion})
	for _, s := range info.Settings {
		if slices.Contains([]string{"CGO_ENABLED", "GOARCH", "GOOS", "GOAMD64", "GOARM64", "-trimpath", "GOFIPS140"}, s.Key) {
			out = append(out, property{"go:build:" + s.Key, s.Value})
		}
	}
	slices.SortFunc(out, func(a, b property) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// serial is a UUID (version 8) made from the binary's digest.
func serial(sum [32]byte) string {
	u := sum
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}
