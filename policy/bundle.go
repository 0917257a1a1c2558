package policy

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"io"
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
	// Name is a path, or a name such as "builtin/fields.cedar". Errors quote it.
	Name string `json:"name"`
	Text string `json:"text"`
}

// Bundle is everything that a reload of the rules replaces as a unit.
type Bundle struct {
	Policies   []Source // sorted by name
	Schema     Source
	places     map[string]string // "file:line" of the ids in Disabled and Shadowed, if they were read from a file
	builtinOff string            // where the built-in policies are left out; "" if they are not

	// Disabled are the ids of policies that are left out.
	Disabled []string
	// Shadowed are the ids of policies that are evaluated and reported but do not decide,
	// like those with the annotation @enforce("false").
	Shadowed []string

	// Limits and Ceilings are nil if the sidecar's own configuration applies.
	Limits   *memproxy.Limits
	Ceilings *memproxy.Ceilings
	// Screening is an encoded screening pack, which this package does not interpret. If
	// it is nil, the sidecar's own pack applies.
	Screening []byte
}

// Builtin returns the bundle that is compiled into memproxy.
func Builtin() Bundle {
	var b Bundle
	entries, err := builtin.ReadDir("builtin")
	if err != nil {
		panic(err) // cannot fail: embedded at build time
	}
	for _, e := range entries {
		text, err := builtin.ReadFile("builtin/" + e.Name())
		if err != nil {
			panic(err)
		}
		s := Source{"builtin/" + e.Name(), string(text)}
		if strings.HasSuffix(e.Name(), ".cedarschema") {
			b.Schema = s
			continue
		}
		b.Policies = append(b.Policies, s)
	}
	return b
}

// Version returns the hex SHA-256 of the bundle's canonical form, in which parts are
// length-prefixed, and lists are sorted and count-prefixed.
func (b Bundle) Version() string {
	h := sha256.New()
	count := func(n int) {
		var p [8]byte
		binary.BigEndian.PutUint64(p[:], uint64(n))
		h.Write(p[:])
	}
	part := func(p string) {
		count(len(p))
		io.WriteString(h, p)
	}
	part("memproxy bundle v2")
	part(b.Schema.Text)
	// Only base names are hashed, so that proxies that mount the same files in different
	// directories have the same version.
	sorted := slices.SortedFunc(slices.Values(b.Policies), func(x, y Source) int {
		return cmp.Or(strings.Compare(x.base(), y.base()), strings.Compare(x.Text, y.Text))
	})
	count(len(sorted))
	for _, s := range sorted {
		part(s.base())
		part(s.Text)
	}
	for _, list := range [...][]string{b.Disabled, b.Shadowed} {
		count(len(list))
		for _, id := range slices.Sorted(slices.Values(list)) {
			part(id)
		}
	}
	text, err := json.Marshal(tablesOf(b), json.Deterministic(true))
	if err != nil {
		panic(err) // cannot fail: numbers, and names validated by SignRelease and Load
	}
	part(string(text))
	part(string(b.Screening))
	return hex.EncodeToString(h.Sum(nil))
}

func (s Source) base() string { return filepath.Base(s.Name) }
