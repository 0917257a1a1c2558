package keys

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"strings"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cache"
)

const (
	// stampDomain separates these signatures from everything else that is signed with the
	// same key. It is also the version of the format.
	stampDomain  = "memproxy stamp 1"
	originDomain = "memproxy stamp 2" // domain of stamps that describe how the write came about
	// sigPrefix begins a signature: version, then key id, then MAC.
	sigPrefix  = "1."
	sigSize    = len(sigPrefix) + 8 + 1 + 43
	tenantKeys = 1024 // minimum number of derived keys that are cached
)

// Signer signs and verifies provenance stamps with HMAC-SHA-256 over every field. The
// key is derived for the tenant, so that a stamp of one tenant never verifies as
// another's. A Signer is safe for concurrent use.
//
// A signature is "1.", the id of the installation's key, ".", and the MAC in base64url:
// 54 characters.
type Signer struct {
	signing Key
	keys    map[string]Key                          // by id
	derived *cache.Generations[tenantKey, *macPool] // MACs of each tenant in use
	id      string
}

type tenantKey struct{ id, tenant string }

// macPool pools HMAC states for one tenant's key: to initialise one costs as much as to
// use it.
type macPool struct{ pool sync.Pool }

// mac is an HMAC state with buffers for its input and its sum.
type mac struct {
	hash.Hash
	buf []byte
	out [sha256.Size]byte
}

// NewSigner returns a signer that signs with keys.Signing and accepts all of the keys.
func NewSigner(keys Set) (*Signer, error) {
	if keys.Signing == (Key{}) {
		return nil, errors.New("keys: no key to sign stamps with")
	}
	byID, err := keys.byID(stampKeys)
	if err != nil {
		return nil, err
	}
	return &Signer{keys.Signing, byID, cache.NewGenerations[tenantKey, *macPool](tenantKeys), keys.Signing.ID()}, nil
}

// Sign returns the stamp with its Signature. Its time is truncated to the second, in
// UTC, which is how it is written.
func (s *Signer) Sign(st memproxy.Stamp) memproxy.Stamp {
	st.Time = time.Unix(st.Time.Unix(), 0).UTC()
	if !st.Received.IsZero() {
		st.Received = time.Unix(st.Received.Unix(), 0).UTC()
	}
	var sum [sha256.Size]byte
	s.mac(s.signing, s.id, &st, &sum)
	sig := make([]byte, sigSize)
	n := copy(sig, sigPrefix)
	n += copy(sig[n:], s.id)
	sig[n] = '.'
	base64.RawURLEncoding.Encode(sig[n+1:], sum[:])
	st.Signature = string(sig)
	return st
}

// strict refuses encodings of a MAC other than the canonical one.
var strict = base64.RawURLEncoding.Strict()

// Verify reports whether the stamp was signed by this installation for its Tenant,
// which the reader fills in, and is unchanged.
func (s *Signer) Verify(st memproxy.Stamp) bool {
	rest, ok := strings.CutPrefix(st.Signature, sigPrefix)
	if !ok || len(st.Signature) != sigSize {
		return false
	}
	id, text := rest[:8], rest[9:]
	key, known := s.keys[id]
	if !known || rest[8] != '.' || st.Time.Nanosecond() != 0 || st.Received.Nanosecond() != 0 {
		return false
	}
	var given, want [sha256.Size]byte
	var sig [sigSize]byte
	if n, err := strict.Decode(given[:], sig[:copy(sig[:], text)]); err != nil || n != len(given) {
		return false
	}
	s.mac(key, id, &st, &want)
	return hmac.Equal(given[:], want[:])
}

// mac computes the MAC of a stamp's fields.
func (s *Signer) mac(key Key, id string, st *memproxy.Stamp, sum *[sha256.Size]byte) {
	pool := s.macs(key, id, st.Tenant)
	h := pool.pool.Get().(*mac)
	domain := stampDomain
	if !st.Received.IsZero() || st.Session != "" || st.Trigger != "" || st.Score != 0 || st.Flags != "" {
		domain = originDomain
	}
	b := AppendFields(h.buf[:0], []string{domain, st.ID, st.Actor, st.Tenant, string(st.Trust)}, int64(st.Confidence))
	b = AppendFields(b, []string{string(st.Source), string(st.Attestation)}, st.Time.Unix())
	b = AppendField(b, st.SHA256)
	// Stamps from before marks, hashes of metadata and the origin of the write were added
	// keep their original encoding, so that they still verify.
	if domain == originDomain {
		b = AppendFields(b, []string{st.Mark, st.Metadata}, st.Received.Unix())
		b = AppendFields(b, []string{st.Session, st.Trigger}, int64(st.Score))
		b = AppendField(b, st.Flags)
	} else if st.Mark != "" || st.Metadata != "" {
		b = AppendField(b, st.Mark)
		if st.Metadata != "" {
			b = AppendField(b, st.Metadata)
		}
	}
	pool.end(h, b, sum[:])
}

// end writes to sum the MAC over b, which begins in h's buffer.
func (p *macPool) end(h *mac, b, sum []byte) {
	h.Reset()
	h.Write(b)
	copy(sum, h.Sum(h.out[:0]))
	h.buf = b
	if cap(b) <= 4<<10 { // stamps and rows take about a tenth of that
		p.pool.Put(h)
	}
}

// sum writes to sum the MAC over what row appends.
func (p *macPool) sum(row func([]byte) []byte, sum []byte) {
	h := p.pool.Get().(*mac)
	p.end(h, row(h.buf[:0]), sum)
}

func newMACPool(key []byte) *macPool {
	p := &macPool{}
	p.pool.New = func() any { return &mac{Hash: hmac.New(sha256.New, key)} }
	return p
}

// AppendField appends a string after its length, so that no two different stamps have
// the same encoding.
func AppendField(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// AppendFields appends strings as AppendField does, and then numbers.
func AppendFields(b []byte, texts []string, numbers ...int64) []byte {
	for _, s := range texts {
		b = AppendField(b, s)
	}
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// macs returns the pool for a tenant's key. Verify is called for tenants of callers
// only, so a forger cannot fill the cache.
func (s *Signer) macs(key Key, id, tenant string) *macPool {
	k := tenantKey{id, tenant}
	p, ok := s.derived.Get(k)
	if !ok {
		p = newMACPool(key.derive("memproxy stamp tenant\x00" + tenant))
		s.derived.Add(k, p)
	}
	return p
}
