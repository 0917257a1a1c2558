// Package metadata compares the metadata next to a memory with the metadata that
// its stamp was written with. It is pure.
package metadata

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memproxy/memproxy"
)

const (
	// hashSize is the length of the hash of one member in a stamp: 64 bits
	// in base64url, so that a stamp stays below 1 KB.
	hashSize = 11
	// maxMembers bounds the members of metadata that a stamp covers, the first by name.
	maxMembers = 24
)

// canonical returns a member's value in canonical form (RFC 8785).
func canonical(value jsontext.Value) (jsontext.Value, error) {
	if isCanonical(value) {
		return value, nil
	}
	value = value.Clone()
	return value, value.Canonicalize()
}

// isCanonical reports whether a value is in canonical form at first sight: a literal, a
// string without escapes, or a number without an exponent that is short enough for a double
// to tell it from all others of its length.
func isCanonical(v jsontext.Value) bool {
	switch v.Kind() {
	case 'n', 't', 'f':
		return true
	case '"':
		return bytes.IndexByte(v, '\\') < 0
	case '0':
		short := len(v) <= 15 && v[0] != '-' && !bytes.ContainsAny(v, "eE")
		return short && (bytes.IndexByte(v, '.') < 0 || v[len(v)-1] != '0' && !bytes.HasPrefix(v, []byte("0.00000")))
	}
	return false
}

// hash returns the hash of a member, with its value in canonical form, for the stamp of one
// write.
func hash(id string, m *memproxy.Member) (hash [hashSize]byte) {
	b := make([]byte, 0, 256)
	for _, s := range [...]string{"memproxy beside", id, m.Name} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	sum := sha256.Sum256(append(b, m.Value...))
	base64.RawURLEncoding.Encode(hash[:], sum[:8])
	return hash
}

// Hashes returns the member hashes for a stamp, by its decision's id, that is written next
// to these members, or "" if a value is no JSON. It skips memproxy's own members, null members,
// because some stores drop them, and members that the backend may mix in (mixed).
func Hashes(id string, members []memproxy.Member, mixed func(string) bool) string {
	all := make([]memproxy.Member, 0, maxMembers)
	for _, m := range members {
		if memproxy.Reserved(m.Name) || mixed(m.Name) {
			continue
		}
		value, err := canonical(m.Value)
		if err != nil {
			return ""
		}
		if value[0] != 'n' {
			all = append(all, memproxy.Member{Name: m.Name, Value: value})
		}
	}
	slices.SortFunc(all, func(a, b memproxy.Member) int { return strings.Compare(a.Name, b.Name) })
	var out strings.Builder
	out.Grow(min(len(all), maxMembers) * hashSize)
	for i := range all[:min(len(all), maxMembers)] {
		hash := hash(id, &all[i])
		out.Write(hash[:])
	}
	return out.String()
}

// Differs reports whether a member of the metadata, without memproxy's own, has been
// changed or removed since the stamp was written. Extra members are allowed: backends add
// their own.
func Differs(s *memproxy.Stamp, members []memproxy.Member) bool {
	if s.Metadata == "" {
		return false
	}
	hashes := len(s.Metadata) / hashSize
	if len(s.Metadata)%hashSize != 0 || hashes > maxMembers {
		return true
	}
	var found uint64 // one bit for each hash of the stamp
	for _, m := range members {
		var err error
		if m.Value, err = canonical(m.Value); err != nil {
			return true
		}
		hash := hash(s.ID, &m)
		for i := range hashes {
			if s.Metadata[i*hashSize:(i+1)*hashSize] == string(hash[:]) {
				found |= 1 << i
			}
		}
	}
	return found != 1<<hashes-1
}
