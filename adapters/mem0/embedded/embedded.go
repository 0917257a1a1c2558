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
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

const (
	// DefaultMaxMemories keeps a search, which looks at every memory of its
	// scope, well under a millisecond.
	DefaultMaxMemories = 10_000

	// maxBody is enough for a small base64 image in a message; a longer body is
	// answered 413.
	maxBody = 4 << 20
	// What is kept next to the memories.
	maxRequests   = 256
	maxEvents     = 4096
	maxEventBytes = 32 << 20
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
	// Deferred leaves events PENDING until Step is called. Otherwise their
	// work is done before the request is answered, though the answer still
	// says PENDING.
	Deferred bool
	// MaxMemories bounds the store; at the limit the oldest memory makes room.
	// 0 means DefaultMaxMemories.
	MaxMemories int
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

	askedMu sync.Mutex
	asked   window[asked]
}

// New checks the options and returns an empty backend. The error names the
// option that is wrong.
func New(opt Options) (*Backend, error) {
	if opt.MaxMemories < 0 {
		return nil, errors.New("embedded: MaxMemories must not be negative")
	}
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	if opt.NewID == nil {
		opt.NewID = uuid.NewString
	}
	opt.MaxMemories = cmp.Or(opt.MaxMemories, DefaultMaxMemories)

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
	b.asked = newest[asked](maxRequests)
	b.store, b.jobs, b.settings = newStore(opt.MaxMemories, opt.NewID), newJobs(opt.Deferred), newSettings()
	b.exports, b.profiles = &exports{b.store, newest[export](maxExports)}, newProfiles(b.store)
	b.routes = map[bool][]route{true: b.hostedRoutes(), false: b.selfHostedRoutes()}
	return b, nil
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
	return len(b.store.all.slots)
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

var _ http.Handler = (*Backend)(nil)
