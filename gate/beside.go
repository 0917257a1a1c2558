package gate

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
	// besideSize is the length of the hash of one member in a stamp: 64 bits
	// in base64url. A stamp is to stay under a kilobyte.
	besideSize = 11
	// maxBeside is how many members of metadata a stamp speaks for, the first
	// by name.
	maxBeside = 24
)

// pair is a member of metadata: its name, and its value in canonical form.
type pair struct {
	name  string
	value []byte
}

// decoders are kept for their buffers.
var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(new(bytes.Buffer)) }}

func (p *pair) null() bool { return p.value[0] == 'n' }

// besides are the members of metadata that are not the proxy's own, in the
// order in which they stand. The values share raw's memory.
func besides(raw []byte) ([]pair, error) {
	d := decoders.Get().(*jsontext.Decoder)
	d.Reset(bytes.NewBuffer(raw))
	defer func() {
		d.Reset(new(bytes.Buffer)) // it must not hold on to the answer
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
	_, err := d.ReadToken() // the end of it, or what is wrong
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

// hash is a member's, in the stamp of one write.
func (p *pair) hash(id string) string {
	b := make([]byte, 0, 256)
	for _, s := range [...]string{"memproxy beside", id, p.name} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	sum := sha256.Sum256(append(b, p.value...))
	return base64.RawURLEncoding.EncodeToString(sum[:8])
}

// sealed are the hashes of metadata that a stamp is written beside. What is
// null is not counted: some stores leave it out.
func sealed(id string, metadata []byte, mixed func(string) bool) string {
	all, err := besides(metadata)
	if err != nil {
		return ""
	}
	all = slices.DeleteFunc(all, func(p pair) bool { return p.null() || mixed(p.name) })
	slices.SortFunc(all, func(a, b pair) int { return cmp.Compare(a.name, b.name) })
	var out strings.Builder
	for i := range all[:min(len(all), maxBeside)] {
		out.WriteString(all[i].hash(id))
	}
	return out.String()
}

// unlike reports whether metadata lacks something that a stamp was written
// beside. Whatever came to it says nothing: backends add fields of their own.
func unlike(s *memproxy.Stamp, there []pair) bool {
	if s.Metadata == "" {
		return false
	}
	hashes := make([]string, len(there))
	for i := range there {
		hashes[i] = there[i].hash(s.ID)
	}
	for rest := s.Metadata; rest != ""; rest = rest[besideSize:] {
		if len(rest) < besideSize || !slices.Contains(hashes, rest[:besideSize]) {
			return true
		}
	}
	return false
}

// seal signs a stamp anew for the metadata that the adapter writes it beside. A
// stamp that stands there already is sealed anew only if it is ours, and for
// the tenant that the memory is of.
func (r *run) seal(s memproxy.Stamp, metadata []byte) memproxy.Stamp {
	beside := sealed(s.ID, metadata, mixedBy(r.call.Backend.Adapter))
	if beside == s.Metadata {
		return s
	}
	if s.Signature != r.op.Stamp.Signature {
		if s.Tenant = r.Principal.Tenant; !r.g.opt.Signer.Verify(s) {
			return s
		}
	}
	s.Metadata = beside
	return r.g.opt.Signer.Sign(s)
}

// A Mixer is an Adapter whose backend shows fields of its own among a memory's
// metadata in some answers, and beside it in others.
type Mixer interface {
	// Mixed reports whether a name may be such a field's.
	Mixed(name string) bool
}

// mixedBy tells the names that an adapter's backend mixes into metadata.
func mixedBy(adapter any) func(string) bool {
	if mixer, ok := adapter.(Mixer); ok {
		return mixer.Mixed
	}
	return func(string) bool { return false }
}
