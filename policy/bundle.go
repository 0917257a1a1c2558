package policy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/memproxy/memproxy"
)

//go:embed builtin/*.cedar builtin/*.cedarschema
var builtin embed.FS

// Source is one file of policies, or the schema.
type Source struct {
	// Name is what errors call it: a path, or "builtin/fields.cedar".
	Name string
	Text []byte
}

// Bundle is everything that can be replaced together while the proxy runs.
type Bundle struct {
	Policies []Source // sorted by name
	Schema   Source
	places   map[string]string // of the ids in Disabled and Shadowed, where they were read from a file

	// Disabled are ids of policies that are left out.
	Disabled []string
	// Shadowed are ids of policies that are evaluated and reported, and do not
	// decide. The annotation @enforce("false") does the same.
	Shadowed []string

	// Limits and Ceilings are nil where the sidecar's own configuration
	// stands.
	Limits   *memproxy.Limits
	Ceilings *memproxy.Ceilings
	// Screening is a screening pack, opaque here; nil is the sidecar's own.
	Screening []byte
}

// Builtin is the bundle that memproxy ships with.
func Builtin() Bundle {
	var b Bundle
	entries, err := builtin.ReadDir("builtin")
	if err != nil {
		panic(err) // embedded at build time
	}
	for _, e := range entries {
		text, err := builtin.ReadFile("builtin/" + e.Name())
		if err != nil {
			panic(err)
		}
		s := Source{Name: "builtin/" + e.Name(), Text: text}
		if strings.HasSuffix(e.Name(), ".cedarschema") {
			b.Schema = s
			continue
		}
		b.Policies = append(b.Policies, s)
	}
	return b
}

// Version is the hex SHA-256 of the bundle's canonical form.
func (b Bundle) Version() string {
	h := sha256.New()
	b.write(h)
	return hex.EncodeToString(h.Sum(nil))
}

// write is the canonical form: every part with its length, every list with its
// count, lists sorted.
func (b Bundle) write(h hash.Hash) {
	count := func(n int) {
		var p [8]byte
		binary.BigEndian.PutUint64(p[:], uint64(n))
		h.Write(p[:])
	}
	part := func(p []byte) {
		count(len(p))
		h.Write(p)
	}
	part([]byte("memproxy bundle v2"))
	part(b.Schema.Text)
	// The directory is no part of it: two proxies with the same files mounted
	// in two places have one version.
	sorted := slices.SortedFunc(slices.Values(b.Policies), func(x, y Source) int {
		return cmp.Or(strings.Compare(x.base(), y.base()), bytes.Compare(x.Text, y.Text))
	})
	count(len(sorted))
	for _, s := range sorted {
		part([]byte(s.base()))
		part(s.Text)
	}
	for _, list := range [...][]string{b.Disabled, b.Shadowed} {
		count(len(list))
		for _, id := range slices.Sorted(slices.Values(list)) {
			part([]byte(id))
		}
	}
	text, err := json.Marshal(tablesOf(b), json.Deterministic(true))
	if err != nil {
		panic(err) // numbers, and names that Seal and Load have seen to be text
	}
	part(text)
	part(b.Screening)
}

func (s Source) base() string { return filepath.Base(s.Name) }
