package baseline

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/memproxy/memproxy"
)

// Key identifies a profile. User is the user that the memory is about, or the principal
// if the write names none.
type Key struct {
	Tenant string `json:"tenant"`
	User   string `json:"user"`
}

// The rules of the findings.
const (
	RuleDomain       = "baseline.new_domain"   // low: a domain that is not in the profile
	RuleTopic        = "baseline.topic"        // low: words unlike the profile's
	RuleInstructions = "baseline.instructions" // medium: instructions where there were none
	RuleRate         = "baseline.rate"         // low; medium from twice the bound
)

// Options set up a Store.
type Options struct {
	Users int // bounds the profiles, at least 1; the least recently used are evicted first
	// A profile gives findings after LearnWrites texts, or at an age of
	// seven days with at least five texts.
	LearnWrites int
}

const (
	learnFor = 7 * 24 * time.Hour
	fewest   = 5

	maxText           = 16 << 10 // bytes of a text that are read
	maxDomainFindings = 4        // bounds the new domains that one text reports
)

// Store holds profiles. It is safe for concurrent use.
type Store struct {
	opts Options

	mu       sync.Mutex
	profiles simplelru.LRUCache[Key, *profile]
}

// New returns an empty store.
func New(o Options) *Store {
	profiles, _ := simplelru.NewLRU[Key, *profile](o.Users, nil) // fails for less than one
	return &Store{opts: o, profiles: profiles}
}

// Check compares the texts of a write with the profile and returns the deviations; Item
// is the index of the text. There are none while the profile is being learnt. Check
// changes nothing.
func (s *Store) Check(key Key, texts []string, now time.Time) []memproxy.Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.profiles.Peek(key)
	if !ok || !p.learnt(s.opts, now) {
		return nil
	}
	var out []memproxy.Finding
	for i, t := range texts {
		out = append(out, p.compare(i, t)...)
	}
	if f, ok := p.rate(len(texts), now); ok && len(texts) > 0 {
		f.End = len(texts[0])
		out = append(out, f)
	}
	return out
}

// Learn adds the texts of a write that went through to the profile.
func (s *Store) Learn(key Key, texts []string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.profiles.Get(key)
	if !ok {
		p = &profile{First: now}
		s.profiles.Add(key, p)
	}
	for _, t := range texts {
		p.learn(t, now)
	}
}
