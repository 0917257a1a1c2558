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
	value jsontext.Value
}

// besides are the members of metadata that are not the proxy's own and not
// null, which some stores leave out. What is no object has none.
func besides(raw []byte) []pair {
	var out []pair
	err := members(raw, func(name string, value jsontext.Value) error {
		if value.Kind() == 'n' {
			return nil
		}
		out = append(out, pair{name, value.Clone()})
		return out[len(out)-1].value.Canonicalize()
	})
	if err != nil {
		return nil
	}
	return out
}

var errNoObject = errors.New("metadata is no object")

// members gives each member of an object that is not the proxy's own. The value
// is valid during the call.
func members(raw []byte, each func(name string, value jsontext.Value) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	if d.PeekKind() != '{' {
		return errNoObject
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		if memproxy.Reserved(name) {
			if err := d.SkipValue(); err != nil {
				return err
			}
			continue
		}
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := each(name, value); err != nil {
			return err
		}
	}
	_, err := d.ReadToken() // the end of it, or what is wrong
	return err
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

// sealed are the hashes of metadata that a stamp is written beside.
func sealed(id string, metadata []byte, mixed func(string) bool) string {
	all := slices.DeleteFunc(besides(metadata), func(p pair) bool { return mixed(p.name) })
	slices.SortFunc(all, func(a, b pair) int { return cmp.Compare(a.name, b.name) })
	var out strings.Builder
	for i := range all[:min(len(all), maxBeside)] {
		out.WriteString(all[i].hash(id))
	}
	return out.String()
}

// unlike reports whether metadata lacks something that a stamp was written
// beside. Whatever came to it says nothing: backends add fields of their own.
func unlike(s *memproxy.Stamp, metadata []byte) bool {
	if s.Metadata == "" {
		return false
	}
	there := map[string]bool{}
	for _, p := range besides(metadata) {
		there[p.hash(s.ID)] = true
	}
	for rest := s.Metadata; rest != ""; rest = rest[besideSize:] {
		if len(rest) < besideSize || !there[rest[:besideSize]] {
			return true
		}
	}
	return false
}

// seal signs a stamp anew for the metadata that the adapter writes it beside. A
// stamp that stands there already is sealed anew only if it is ours, and for
// the tenant that the memory is of.
func (r *run) seal(s memproxy.Stamp, metadata []byte) memproxy.Stamp {
	mixed := func(string) bool { return false }
	if mixer, ok := r.call.Backend.Adapter.(Mixer); ok {
		mixed = mixer.Mixed
	}
	beside := sealed(s.ID, metadata, mixed)
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
