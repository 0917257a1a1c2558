// Package seen remembers for an hour the texts that sessions were shown, which are
// possible sources of their writes, and the texts of callers themselves, which are not.
// It makes no requests.
package seen

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/trust"
	"github.com/memproxy/memproxy/internal/cache"
)

// Bounds of the memory. It is in process only, so that after a restart it raises no
// attestation.
const (
	maxReaders   = 1024      // sessions
	maxSeen      = 256       // memories of one session
	maxSeenBytes = 32 << 10  // of their texts, 32 MB in all
	keepSeen     = time.Hour // after the last read
)

// Readers has the texts that sessions were shown, and those that callers wrote. It is
// safe for concurrent use.
type Readers struct {
	mu    sync.Mutex
	kept  cache.Cache[Reader, *remembered]
	own   cache.Cache[Reader, *remembered] // what callers said, in any session
	clock func() time.Time
}

// Reader is one caller in one session. Session names are chosen by callers, so
// equal names of different callers are different sessions.
type Reader struct{ Tenant, Principal, Session string }

// remembered has the texts that a reader was shown, oldest first, or its own texts.
type remembered struct {
	seen  []trust.ShownText
	said  []string // in plain form
	full  bool     // more was said than is remembered or could be read
	bytes int
	until time.Time
}

// New returns empty Readers.
func New(clock func() time.Time) *Readers {
	return &Readers{kept: cache.New[Reader, *remembered](maxReaders), own: cache.New[Reader, *remembered](maxReaders), clock: clock}
}

// renew returns the entry of a reader in a cache, and keeps it for another keepSeen.
func (rs *Readers) renew(in cache.Cache[Reader, *remembered], who Reader) *remembered {
	now := rs.clock()
	s, ok := in.Get(who)
	if !ok || now.After(s.until) {
		s = &remembered{}
		in.Add(who, s)
	}
	s.until = now.Add(keepSeen)
	return s
}

// RecordShown records the texts that a Reader was shown.
func (rs *Readers) RecordShown(who Reader, memories []trust.ShownText) {
	if who.Session == "" || len(memories) == 0 {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s := rs.renew(rs.kept, who)
	for _, m := range memories {
		m.ID = strings.Clone(m.ID) // it may be a slice of an answer
		if len(m.Text) > maxSeenBytes {
			m.Text = "" // too long to be compared with what is written
		}
		s.seen, s.bytes = append(s.seen, m), s.bytes+len(m.Text)
		for len(s.seen) > maxSeen || s.bytes > maxSeenBytes {
			s.bytes -= len(s.seen[0].Text)
			s.seen = s.seen[1:]
		}
	}
}

// Of returns the texts that a Reader was shown. The list must not be changed.
func (rs *Readers) Of(who Reader) []trust.ShownText {
	if who.Session == "" {
		return nil
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s, ok := rs.kept.Get(who)
	if !ok || rs.clock().After(s.until) {
		return nil
	}
	return slices.Clip(s.seen) // without spare capacity: later appends do not overwrite it
}

// WithoutOwn returns texts as sources, without the sentences that the caller itself said. A
// text has its hash only if nothing was removed from it.
func (rs *Readers) WithoutOwn(who Reader, texts []string) (out []trust.ShownText) {
	rs.mu.Lock()
	own, ok := rs.own.Get(anySession(who))
	if !ok || own.full {
		rs.mu.Unlock()
		return nil // the caller's own texts are not all remembered
	}
	said := own.said // it is only ever appended to, so this part of it stays as it is
	rs.mu.Unlock()
	for _, text := range texts {
		plain := trust.Plain(text)
		s := trust.ShownText{Text: trust.Without(plain, said)}
		if s.Text == plain {
			s.SHA256 = memproxy.TextSHA256(text)
		}
		if s.Text != "" {
			out = append(out, s)
		}
	}
	return out
}

// anySession returns the key of a caller's own texts, which is the same in all sessions.
func anySession(who Reader) Reader {
	return Reader{Tenant: who.Tenant, Principal: memproxy.Account(who.Principal)}
}

// RecordOwn records a caller's own texts.
func (rs *Readers) RecordOwn(who Reader, texts []string) {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = trust.Plain(text)
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	s := rs.renew(rs.own, anySession(who))
	for _, plain := range all {
		if plain == "" || slices.Contains(s.said, plain) {
			continue
		}
		if s.bytes+len(plain) > maxSeenBytes || len(s.said) == maxSeen {
			s.full = true // from here on a tool's text may be the caller's own
			return
		}
		s.said, s.bytes = append(s.said, plain), s.bytes+len(plain)
	}
}

// SaidUnknown records that a text of the caller could not be read. From then on any text
// of a tool may be the caller's own.
func (rs *Readers) SaidUnknown(who Reader) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.renew(rs.own, anySession(who)).full = true
}
