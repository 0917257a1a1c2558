// Package metadata compares the metadata next to a memory with the metadata that
// its stamp was written with. It is pure.
package metadata

import (
	"bytes"
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
	// in base64url, so that a stamp stays below 1 KB.
	hashSize = 11
	// maxMembers bounds the members of metadata that a stamp covers, the first by name.
	maxMembers = 24
)

// pair is a member of metadata: its name, and its value in canonical form.
type pair struct{ name, value []byte }

// reader is a decoder with its source. Readers are pooled for their buffers.
type reader struct {
	*jsontext.Decoder
	src bytes.Buffer
}

var readers = sync.Pool{New: func() any { return &reader{Decoder: jsontext.NewDecoder(new(bytes.Buffer))} }}

func (r *reader) read(raw []byte) {
	r.src = *bytes.NewBuffer(raw)
	r.Reset(&r.src)
}

// members calls each for the members of metadata that are not the proxy's own, in
// document order. The pairs share raw's memory.
func members(raw []byte, each func(pair)) error {
	d := readers.Get().(*reader)
	d.read(raw)
	defer func() {
		d.read(nil) // the pool must not retain the answer
		readers.Put(d)
	}()
	if d.PeekKind() != '{' {
		return errors.New("metadata is no object")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '"' {
		quoted, err := d.ReadValue()
		if err != nil {
			return err
		}
		name := []byte(quoted[1 : len(quoted)-1])
		if bytes.IndexByte(name, '\\') >= 0 {
			if name, err = jsontext.AppendUnquote(nil, quoted); err != nil {
				return err
			}
		}
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if memproxy.Reserved(string(name)) {
			continue
		}
		if !canonical(value) {
			value = value.Clone()
			if err := value.Canonicalize(); err != nil {
				return err
			}
		}
		each(pair{name, value})
	}
	_, err := d.ReadToken() // the end of the input, or the syntax error
	return err
}

// canonical reports whether a value is in canonical form (RFC 8785) at first sight: a
// literal, a string without escapes, a short number without an exponent that a double
// distinguishes from all others of that length.
func canonical(v jsontext.Value) bool {
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

// hash returns the hash of a member for the stamp of one write.
func (p *pair) hash(id string) (hash [hashSize]byte) {
	b := make([]byte, 0, 256)
	for _, s := range [...]string{"memproxy beside", id} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(p.name))), p.name...)
	sum := sha256.Sum256(append(b, p.value...))
	base64.RawURLEncoding.Encode(hash[:], sum[:8])
	return hash
}

// Hashes returns the member hashes for a stamp, by its decision's id, that is written next
// to this metadata, or "" for metadata that cannot be read. It skips null members, because
// some stores drop them, and members that the backend may mix in (mixed).
func Hashes(id string, raw []byte, mixed func(string) bool) string {
	all := make([]pair, 0, maxMembers)
	if members(raw, func(p pair) {
		if p.value[0] != 'n' && !mixed(string(p.name)) {
			all = append(all, p)
		}
	}) != nil {
		return ""
	}
	slices.SortFunc(all, func(a, b pair) int { return bytes.Compare(a.name, b.name) })
	var out strings.Builder
	out.Grow(min(len(all), maxMembers) * hashSize)
	for i := range all[:min(len(all), maxMembers)] {
		hash := all[i].hash(id)
		out.Write(hash[:])
	}
	return out.String()
}

// Differs reports whether a member of the metadata has been changed or removed
// since the stamp was written. Extra members are allowed: backends add their own.
func Differs(s *memproxy.Stamp, raw []byte) bool {
	if s.Metadata == "" {
		return false
	}
	hashes := len(s.Metadata) / hashSize
	if len(s.Metadata)%hashSize != 0 || hashes > maxMembers {
		return true
	}
	var found uint64 // one bit for each hash of the stamp
	err := members(raw, func(p pair) {
		hash := p.hash(s.ID)
		for i := range hashes {
			if s.Metadata[i*hashSize:(i+1)*hashSize] == string(hash[:]) {
				found |= 1 << i
			}
		}
	})
	return err != nil || found != 1<<hashes-1
}
