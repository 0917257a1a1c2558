// Package embedded is a small Mem0-style backend in one process: an
// http.Handler that speaks the hosted platform's dialect (/v1, /v2, /v3, /api)
// and the self-hosted server's (/memories, /search, …) over one store in
// memory. The demo, the proxy's tests and the benchmark use it, so that a
// newcomer needs no Mem0.
//
// It promises to be as trusting as the real thing, because that is what a gate
// in front of it is for: ids in payloads are believed, any metadata and any
// confidence is stored, operations by id ask for no owner, any accepted key
// reads and writes every user, and filters smuggle identities the way Mem0's
// engine lets them. It also promises to stay small: memories, history, events
// and recorded requests are bounded, the oldest go first.
//
// What it does not do: run a model (an extraction keeps each user message as
// it is), fetch URLs, call webhooks, or keep anything on disk. Package
// contract holds the cases that compare it with the real engine.
package embedded

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// DefaultMaxMemories keeps a search, which looks at every memory of its
	// scope, well under a millisecond.
	DefaultMaxMemories = 10_000
	// DefaultMaxBody is enough for a small base64 image in a message.
	DefaultMaxBody = 4 << 20
	// DefaultMaxRequests is how many requests Requests remembers.
	DefaultMaxRequests = 256

	// maxEvents and the byte limits bound what is kept next to the memories.
	maxEvents       = 4096
	maxEventBytes   = 32 << 20
	maxRequestBytes = 32 << 20
)

// Options configure a Backend. The zero value is a backend that accepts
// everybody as an administrator, as Mem0 does with AUTH_DISABLED.
type Options struct {
	// Clock tells the time; nil means time.Now.
	Clock func() time.Time
	// NewID makes the ids of memories, events and exports, which the hosted
	// dialect wants to be UUIDs; nil means random version 4 ones. It is called
	// with the store locked, and must not call the Backend.
	NewID func() string
	// Keys are the accepted API keys. With none, any credential will do, and
	// none at all.
	Keys []string
	// AdminKey is the self-hosted administrator's key; it is accepted next to
	// Keys. Without it every accepted caller is an administrator.
	AdminKey string
	// ExternalURL is what next and previous links start with, such as
	// "https://api.mem0.ai". Empty means the address that the request arrived
	// at: either way the links name the backend itself and lead a client around
	// any proxy, as the platform's do.
	ExternalURL string
	// Deferred leaves events PENDING until Step is called. Otherwise their
	// work is done before the request is answered, though the answer still
	// says PENDING.
	Deferred bool
	// MaxMemories bounds the store; at the limit the oldest memory makes room.
	// 0 means DefaultMaxMemories.
	MaxMemories int
	// MaxBody bounds a request body in bytes; a longer one is answered 413.
	// 0 means DefaultMaxBody.
	MaxBody int64
	// MaxRequests is how many requests Requests remembers. 0 means
	// DefaultMaxRequests.
	MaxRequests int
}

// Backend is a Mem0-style backend. It is safe for concurrent use.
type Backend struct {
	opt  Options
	keys map[[sha256.Size]byte]bool // value: administrator

	mu    sync.RWMutex // everything below
	store *store
	jobs  *jobs

	settings *settings
	exports  *exports
	profiles *profiles

	routes map[bool][]route // those of the hosted dialect are true's

	answers atomic.Uint32 // numbers the self-hosted dialect's X-Request-ID

	recordMu sync.Mutex
	record   window[Request]
}

// New checks the options and returns an empty backend. The error names the
// option that is wrong.
func New(opt Options) (*Backend, error) {
	if opt.MaxMemories < 0 || opt.MaxBody < 0 || opt.MaxRequests < 0 {
		return nil, errors.New("embedded: MaxMemories, MaxBody and MaxRequests must not be negative")
	}
	if opt.ExternalURL != "" {
		u, err := url.Parse(opt.ExternalURL)
		if err != nil || u.Scheme == "" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("embedded: ExternalURL %q is not a base URL", opt.ExternalURL)
		}
		opt.ExternalURL = strings.TrimSuffix(opt.ExternalURL, "/")
	}
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	if opt.NewID == nil {
		opt.NewID = newUUID
	}
	opt.MaxMemories = cmp.Or(opt.MaxMemories, DefaultMaxMemories)
	opt.MaxBody = cmp.Or(opt.MaxBody, DefaultMaxBody)
	opt.MaxRequests = cmp.Or(opt.MaxRequests, DefaultMaxRequests)

	b := &Backend{opt: opt, keys: make(map[[sha256.Size]byte]bool)}
	for _, k := range opt.Keys {
		if k == "" {
			return nil, errors.New("embedded: an empty string in Keys would accept everybody")
		}
		b.keys[sha256.Sum256([]byte(k))] = opt.AdminKey == ""
	}
	if opt.AdminKey != "" {
		b.keys[sha256.Sum256([]byte(opt.AdminKey))] = true
	}
	b.record = window[Request]{max: opt.MaxRequests, maxBytes: maxRequestBytes}
	b.store, b.jobs, b.settings, b.exports, b.profiles = new(store), new(jobs), new(settings), new(exports), new(profiles)
	b.Reset()
	b.routes = map[bool][]route{true: b.hostedRoutes(), false: b.selfHostedRoutes()}
	return b, nil
}

// Reset forgets memories, history, events and settings, but not the recorded
// requests.
func (b *Backend) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	*b.store = *newStore(b.opt.MaxMemories, b.opt.NewID) // in place: the routes have them
	*b.jobs = *newJobs(b.opt.Deferred)
	*b.settings, *b.profiles = *newSettings(), *newProfiles(b.store)
	*b.exports = exports{b.store, window[export]{max: maxExports, maxBytes: maxExports}}
}

// Step does the work of the oldest pending event and reports whether there was
// one. Without Options.Deferred there never is.
func (b *Backend) Step() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.jobs.step(b.now)
}

// Len returns the number of stored memories.
func (b *Backend) Len() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.store.all.len()
}

// now is the time as Mem0 writes it.
func (b *Backend) now() string { return stamp(b.opt.Clock()) }

// stamp writes microseconds unless there are none, as Python does.
func stamp(t time.Time) string {
	t = t.UTC()
	if t.Nanosecond() < int(time.Microsecond) {
		return t.Format("2006-01-02T15:04:05+00:00")
	}
	return t.Format("2006-01-02T15:04:05.000000+00:00")
}

// newUUID returns a random version 4 UUID.
func newUUID() string {
	var u [16]byte
	rand.Read(u[:]) // never fails: documented to crash the program instead
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	var s [36]byte
	hex.Encode(s[:], u[:4])
	s[8] = '-'
	hex.Encode(s[9:], u[4:6])
	s[13] = '-'
	hex.Encode(s[14:], u[6:8])
	s[18] = '-'
	hex.Encode(s[19:], u[8:10])
	s[23] = '-'
	hex.Encode(s[24:], u[10:])
	return string(s[:])
}

var _ http.Handler = (*Backend)(nil)
