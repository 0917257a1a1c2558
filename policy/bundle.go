package policy

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"path/filepath"
	"slices"
	"strings"
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
	// Disabled are ids of policies that are left out.
	Disabled []string
	// Shadowed are ids of policies that are evaluated and reported, and do not
	// decide. The annotation @enforce("false") does the same.
	Shadowed []string
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

// write is the canonical form: every part with its length, lists sorted.
func (b Bundle) write(h hash.Hash) {
	part := func(p []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write(p)
	}
	part([]byte("memproxy bundle v1"))
	part(b.Schema.Text)
	// The directory is no part of it: two proxies with the same files mounted
	// in two places have one version.
	base := func(s Source) string { return filepath.Base(s.Name) }
	sorted := slices.SortedFunc(slices.Values(b.Policies), func(x, y Source) int {
		return cmp.Or(strings.Compare(base(x), base(y)), bytes.Compare(x.Text, y.Text))
	})
	for _, s := range sorted {
		part([]byte(base(s)))
		part(s.Text)
	}
	for _, list := range [...][]string{b.Disabled, b.Shadowed} {
		part([]byte("list"))
		for _, id := range slices.Sorted(slices.Values(list)) {
			part([]byte(id))
		}
	}
}

// Sign signs the bundle's canonical form.
func (b Bundle) Sign(key ed25519.PrivateKey) []byte {
	return ed25519.Sign(key, []byte("memproxy bundle "+b.Version()))
}

// Verify reports whether the signature is the key's over this very bundle.
func (b Bundle) Verify(key ed25519.PublicKey, sig []byte) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, []byte("memproxy bundle "+b.Version()), sig)
}
