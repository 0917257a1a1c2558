package assembly

import (
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/memproxy/memproxy/internal/cache"
	"github.com/memproxy/memproxy/screen/normal"
	"github.com/memproxy/memproxy/screen/terms"
)

// Key identifies the writes that are joined. Session is the run or session of the caller,
// or the scope that it writes to if it names none.
type Key struct {
	Tenant, Principal, Session string
}

type bounds struct {
	sessions int // the least recently used are evicted first
	texts    int // of each session
	bytes    int // of text of each session
	total    int // of text in all
}

const (
	ttl       = time.Hour // how long a write is remembered
	maxJoined = 6         // texts returned of each kind, so that no kind displaces another
	maxLength = 4096      // of one joined text in bytes
)

const maxRead = 128 // bounds a generation of cached readings, each of at most maxText bytes

// Store remembers the recent writes of sessions. It is safe for concurrent use.
type Store struct {
	bounds bounds
	// A cache of readings: a write is read when it is judged, and again when it went
	// through.
	read *cache.Generations[string, *reading]

	mu       sync.Mutex
	sessions simplelru.LRUCache[Key, *session] // in order of the last write, and so of age
	bytes    int
}

// session has the recent pieces of one session, oldest first. A piece is immutable once
// it is in a session, so that readers may keep the slice.
type session struct {
	pieces []*piece
	bytes  int
	last   time.Time
}

// New returns an empty store.
func New() *Store {
	return within(bounds{sessions: 4096, texts: 32, bytes: 16 << 10, total: 16 << 20})
}

// within returns an empty store with bounds, which must be positive.
func within(b bounds) *Store {
	s := &Store{bounds: b, read: cache.NewGenerations[string, *reading](maxRead)}
	s.sessions, _ = simplelru.NewLRU(b.sessions, func(_ Key, e *session) { s.bytes -= e.bytes })
	return s
}

// Assemble returns the texts that the texts of write id form with each other and with the
// earlier writes of each key's session. It changes nothing: a refused write leaves no trace.
func (s *Store) Assemble(id string, texts []string, now time.Time, keys ...Key) (out []JoinedText) {
	fresh := s.pieces(id, texts, now)
	var before []*piece
	for _, key := range keys {
		s.mu.Lock()
		all := append(s.tail(key, id, now), fresh...)
		s.mu.Unlock()
		if len(all) < 2 || slices.Equal(all, before) { // the session has written only this memory
			continue
		}
		before = all
		j := joiner{id: id, all: all}
		j.fragments()
		j.parts()
		j.encoded()
		j.variables()
		j.triggers()
		j.credentials()
		for _, t := range j.out {
			if !slices.ContainsFunc(out, t.same) {
				out = append(out, t)
			}
		}
	}
	return out
}

// Commit remembers a write that went through under each key. A second commit of an id
// replaces the first.
func (s *Store) Commit(id string, texts []string, now time.Time, keys ...Key) {
	fresh := s.pieces(id, texts, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		s.replace(key, bound(append(s.tail(key, id, now), fresh...), s.bounds), now)
	}
	for {
		_, oldest, ok := s.sessions.GetOldest()
		if !ok || s.bytes <= s.bounds.total && now.Sub(oldest.last) < ttl {
			return
		}
		s.sessions.RemoveOldest()
	}
}

// replace sets a session's pieces. The lock must be held.
func (s *Store) replace(key Key, pieces []*piece, last time.Time) {
	if len(pieces) == 0 {
		s.sessions.Remove(key) // the eviction callback subtracts its bytes
		return
	}
	e, ok := s.sessions.Get(key)
	if !ok {
		e = &session{}
		s.sessions.Add(key, e)
	}
	s.bytes -= e.bytes
	e.pieces, e.bytes, e.last = pieces, 0, last
	for _, p := range pieces {
		e.bytes += p.size()
	}
	s.bytes += e.bytes
}

// tail returns the session's unexpired pieces, except those of write id. The lock must be
// held.
func (s *Store) tail(key Key, id string, now time.Time) []*piece {
	e, ok := s.sessions.Peek(key)
	if !ok {
		return nil
	}
	out, since := make([]*piece, 0, len(e.pieces)+4), now.Add(-ttl)
	for _, p := range e.pieces {
		if p.at.After(since) && p.write != id {
			out = append(out, p)
		}
	}
	return out
}

// bound drops the oldest pieces until the rest is within the session's bounds.
func bound(pieces []*piece, b bounds) []*piece {
	bytes, from := 0, len(pieces)
	for from > 0 && len(pieces)-from < b.texts {
		if bytes += pieces[from-1].size(); bytes > b.bytes {
			break
		}
		from--
	}
	return pieces[from:]
}

// maxText bounds what is kept of one text, in bytes. Of a longer text the head and the
// tail are kept: the head can continue a sentence, and the tail can leave one unfinished.
const maxText = 2048

const overhead = 256 // the approximate memory of a piece besides its text, in bytes

type span struct{ from, to int }

func (s span) len() int { return s.to - s.from }

// piece is one text of a write, or the head or tail of a long one, with the features that
// joining needs computed once.
type piece struct {
	write  string
	index  int // of the text in its write
	offset int // of body in that text
	body   string
	at     time.Time
	*reading
}

// reading has the features of a text by itself. It is immutable.
type reading struct {
	frags []span // incomplete sentences
	edges edges
	part  part
	run   span // the longest encoded run
	// begins is set if an encoded text may begin with run. decoded is the text that run
	// decodes to by itself, or "".
	begins  bool
	decoded string
	defs    []def
	uses    []use
	cond    span // a condition without its consequence
	action  span // a sentence that begins with an imperative
	opaque  []span
	cue     cue
}

func (p *piece) size() int { return len(p.body) + len(p.write) + overhead }

// maxFresh bounds the pieces of one write that are joined, the last ones.
const maxFresh = 256

// pieces splits the texts of a write. What has no text takes no place.
func (s *Store) pieces(id string, texts []string, now time.Time) []*piece {
	var out []*piece // the last one first
	for i, t := range slices.Backward(texts) {
		if len(out) >= maxFresh {
			break
		}
		if strings.TrimSpace(t) == "" {
			continue
		}
		if len(t) <= maxText {
			out = append(out, s.newPiece(id, i, 0, t, now))
			continue
		}
		head, tail := len(terms.Truncate(t, maxText/2)), len(t)-maxText/2
		for tail < len(t) && !utf8.RuneStart(t[tail]) {
			tail++
		}
		first, last := s.newPiece(id, i, 0, t[:head], now), s.newPiece(id, i, tail, t[tail:], now)
		// The cut between head and tail is ours and no sign of an unfinished sentence.
		begin, end := *first.reading, *last.reading
		if n := len(begin.frags); n > 0 && begin.frags[n-1].to >= len(strings.TrimSpace(first.body)) {
			begin.frags = begin.frags[:n-1]
		}
		begin.edges.open, begin.edges.hangs = span{}, false
		if len(end.frags) > 0 && end.frags[0].from <= 1 {
			end.frags = end.frags[1:]
		}
		end.edges.head, end.edges.continues = span{}, false
		first.reading, last.reading = &begin, &end
		out = append(out, last, first)
	}
	slices.Reverse(out)
	return out
}

func (s *Store) newPiece(id string, index, offset int, body string, now time.Time) *piece {
	p := &piece{write: id, index: index, offset: offset, body: body, at: now}
	var known bool
	if p.reading, known = s.read.Get(body); !known {
		p.reading = read(body)
		s.read.Add(body, p.reading)
	}
	return p
}

// readers pools buffers of words.
var readers = sync.Pool{New: func() any { return new([]word) }}

func read(body string) *reading {
	kept := readers.Get().(*[]word)
	defer readers.Put(kept)
	words, all := split((*kept)[:0], body), sentences(body)
	*kept = words
	r := &reading{
		part: findPart(body), run: longestRun(body), defs: definitions(body, words),
		uses: uses(body, words), cond: condition(body, words, all), action: action(body, words, all),
	}
	r.frags, r.edges = fragments(body, words, all)
	r.opaque, r.cue = opaque(body, words)
	if run := body[r.run.from:r.run.to]; run != "" {
		r.begins, r.decoded = normal.Begins(run), normal.Decoded(run)
	}
	return r
}
