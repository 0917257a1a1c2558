package assembly

import (
	"errors"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Key says whose writes belong together. Session is the run or session that
// the caller is in, or the scope that it writes to when it names none.
type Key struct {
	Tenant, Principal, Session string
}

// Options bound the store. Zero fields take the defaults.
type Options struct {
	Sessions int           // kept at most; default 4096, least recently used go first
	Writes   int           // kept of each session; default 32
	Bytes    int           // of text kept of each session; default 16 KiB
	Total    int           // of text kept in all; default 16 MiB
	TTL      time.Duration // how long a write is remembered; default 1 hour
	Joined   int           // texts answered at most; default 8
	Length   int           // of one joined text in bytes; default 4096
}

// The defaults of Options.
const (
	defaultSessions = 4096
	defaultWrites   = 32
	defaultBytes    = 16 << 10
	defaultTotal    = 16 << 20
	defaultTTL      = time.Hour
	defaultJoined   = 8
	defaultLength   = 4096
)

// maxRead is how many texts' readings are kept, of at most maxText bytes each.
const maxRead = 256

// Store remembers the tails of sessions. It is safe for concurrent use.
type Store struct {
	opts Options
	// What was read lately: a write is looked at when it is judged, and again
	// when it went through.
	read *lru.Cache[string, reading]

	mu       sync.Mutex
	sessions *simplelru.LRU[Key, *session] // by last write, which is also by age
	bytes    int
}

// session is the tail of one session, oldest first. Its pieces are never
// changed once they are in it, so that a reader may keep the slice.
type session struct {
	pieces []*piece
	bytes  int
	last   time.Time
}

// New returns an empty store. A negative bound is an error.
func New(o Options) (*Store, error) {
	for _, n := range []*struct {
		v   *int
		def int
	}{{&o.Sessions, defaultSessions}, {&o.Writes, defaultWrites}, {&o.Bytes, defaultBytes}, {&o.Total, defaultTotal}, {&o.Joined, defaultJoined}, {&o.Length, defaultLength}} {
		if *n.v < 0 {
			return nil, errors.New("assembly: a bound is negative")
		}
		if *n.v == 0 {
			*n.v = n.def
		}
	}
	if o.TTL < 0 {
		return nil, errors.New("assembly: the TTL is negative")
	}
	if o.TTL == 0 {
		o.TTL = defaultTTL
	}
	read, err := lru.New[string, reading](maxRead)
	if err != nil {
		return nil, err
	}
	s := &Store{opts: o, read: read}
	sessions, err := simplelru.NewLRU(o.Sessions, func(_ Key, e *session) { s.bytes -= e.bytes })
	if err != nil {
		return nil, err
	}
	s.sessions = sessions
	return s, nil
}

// Assemble returns what the texts of write id would assemble with the
// session's earlier writes and with each other. It changes nothing: a write
// that is refused leaves no trace.
func (s *Store) Assemble(key Key, id string, texts []string, now time.Time) []Joined {
	fresh := s.pieces(id, texts, now)
	all := append(s.tail(key, id, now), fresh...)
	if len(all) < 2 {
		return nil
	}
	j := joiner{id: id, all: all, max: s.opts.Joined, length: s.opts.Length}
	j.fragments()
	j.parts()
	j.encoded()
	j.variables()
	j.triggers()
	j.credentials()
	return j.out
}

// Commit remembers a write that went through. A second commit of an id
// replaces the first.
func (s *Store) Commit(key Key, id string, texts []string, now time.Time) {
	fresh := s.pieces(id, texts, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.sessions.Peek(key)
	if !ok {
		e = &session{}
	}
	kept := make([]*piece, 0, len(e.pieces)+len(fresh))
	for _, p := range e.pieces {
		if p.write != id && now.Sub(p.at) < s.opts.TTL {
			kept = append(kept, p)
		}
	}
	s.replace(key, bound(append(kept, fresh...), s.opts), now)
	for {
		_, oldest, ok := s.sessions.GetOldest()
		if !ok || s.bytes <= s.opts.Total && now.Sub(oldest.last) < s.opts.TTL {
			return
		}
		s.sessions.RemoveOldest()
	}
}

// Forget drops the named writes of a session, or all of it when none is
// named: what was deleted is not held against its author.
func (s *Store) Forget(key Key, ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.sessions.Peek(key)
	if !ok {
		return
	}
	if len(ids) == 0 {
		s.sessions.Remove(key)
		return
	}
	gone := make(map[string]bool, len(ids))
	for _, id := range ids {
		gone[id] = true
	}
	var kept []*piece
	for _, p := range e.pieces {
		if !gone[p.write] {
			kept = append(kept, p)
		}
	}
	s.replace(key, kept, e.last)
}

// replace puts a session's new tail in place. The lock is held.
func (s *Store) replace(key Key, pieces []*piece, last time.Time) {
	s.sessions.Remove(key) // gives its bytes back
	if len(pieces) == 0 {
		return
	}
	e := &session{pieces: pieces, last: last}
	for _, p := range pieces {
		e.bytes += p.size()
	}
	s.bytes += e.bytes
	s.sessions.Add(key, e)
}

// tail returns the session's pieces that are still remembered, but for those
// of write id itself.
func (s *Store) tail(key Key, id string, now time.Time) []*piece {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.sessions.Peek(key)
	if !ok {
		return nil
	}
	out := make([]*piece, 0, len(e.pieces)+4)
	for _, p := range e.pieces {
		if p.write != id && now.Sub(p.at) < s.opts.TTL {
			out = append(out, p)
		}
	}
	return out
}

// bound drops the oldest pieces until the session's bounds hold.
func bound(pieces []*piece, o Options) []*piece {
	bytes, from := 0, len(pieces)
	for from > 0 && len(pieces)-from < o.Writes {
		if bytes += pieces[from-1].size(); bytes > o.Bytes {
			break
		}
		from--
	}
	return pieces[from:]
}

// Stats says how full the store is: sessions and bytes of text.
func (s *Store) Stats() (sessions, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions.Len(), s.bytes
}
