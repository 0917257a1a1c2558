// Package metadata compares the metadata next to a memory with the metadata that
// its stamp was written with. It is pure.
package metadata

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memproxy/memproxy"
)

const (
	// hashSize is the length of the hash of one member in a stamp: 64 bits
	// in base64url. A stamp is to stay under a kilobyte.
	hashSize = 11
	// maxMembers is how many members of metadata a stamp covers, the first by name.
	maxMembers = 24
)

// pair is a member of metadata: its name, and its value in canonical form.
type pair struct {
	name  string
	value []byte
}

// decoders are pooled for their buffers.
var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(new(bytes.Buffer)) }}

func (p *pair) null() bool { return p.value[0] == 'n' }

// members returns the members of metadata that are not the proxy's own, in document
// order. The values share raw's memory.
func members(raw []byte) ([]pair, error) {
	d := decoders.Get().(*jsontext.Decoder)
	d.Reset(bytes.NewBuffer(raw))
	defer func() {
		d.Reset(new(bytes.Buffer)) // the pool must not retain the answer
		decoders.Put(d)
	}()
	if d.PeekKind() != '{' {
		return nil, errors.New("metadata is no object")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var out []pair
	for d.PeekKind() == '"' {
		quoted, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		name := quoted[1 : len(quoted)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			if name, err = jsontext.AppendUnquote(nil, quoted); err != nil {
				return nil, err
			}
		}
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		if memproxy.Reserved(string(name)) {
			continue
		}
		if !canonical(value) {
			value = value.Clone()
			if err := value.Canonicalize(); err != nil {
				return nil, err
			}
		}
		out = append(out, pair{string(name), value})
	}
	_, err := d.ReadToken() // the end of the input, or the syntax error
	return out, err
}

// canonical reports whether a value is plainly in canonical form (RFC 8785):
// a literal, a string without escapes, a short whole number.
func canonical(v jsontext.Value) bool {
	switch v.Kind() {
	case 'n', 't', 'f':
		return true
	case '"':
		return bytes.IndexByte(v, '\\') < 0
	case '0':
		return len(v) <= 15 && v[0] != '-' && !bytes.ContainsAny(v, ".eE")
	}
	return false
}

// hash returns the hash of a member for the stamp of one write.
func (p *pair) hash(id string) string {
	b := make([]byte, 0, 256)
	for _, s := range [...]string{"memproxy beside", id, p.name} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	sum := sha256.Sum256(append(b, p.value...))
	return base64.RawURLEncoding.EncodeToString(sum[:8])
}

// Hashes returns the member hashes for a stamp that is written next to this
// metadata. Null members are skipped, because some stores drop them.
func Hashes(id string, raw []byte, mixed func(string) bool) string {
	all, err := members(raw)
	if err != nil {
		return ""
	}
	all = slices.DeleteFunc(all, func(p pair) bool { return p.null() || mixed(p.name) })
	slices.SortFunc(all, func(a, b pair) int { return cmp.Compare(a.name, b.name) })
	var out strings.Builder
	for i := range all[:min(len(all), maxMembers)] {
		out.WriteString(all[i].hash(id))
	}
	return out.String()
}

// Differs reports whether a member of the metadata has been changed or removed
// since the stamp was written. Extra members are allowed: backends add their own.
func Differs(s *memproxy.Stamp, raw []byte) bool {
	if s.Metadata == "" {
		return false
	}
	there, err := members(raw)
	if err != nil {
		return true
	}
	hashes := make([]string, len(there))
	for i := range there {
		hashes[i] = there[i].hash(s.ID)
	}
	for rest := s.Metadata; rest != ""; rest = rest[hashSize:] {
		if len(rest) < hashSize || !slices.Contains(hashes, rest[:hashSize]) {
			return true
		}
	}
	return false
}
