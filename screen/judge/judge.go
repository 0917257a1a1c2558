package judge

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cache"
	"github.com/memproxy/memproxy/screen/endpoint"
)

// Opinion is the model's opinion of a text. An answer in any other form than the requested
// one is Suspicious.
type Opinion string

// The words. None means that the model was not asked.
const (
	NotAsked   Opinion = ""
	Safe       Opinion = "SAFE"
	Suspicious Opinion = "SUSPICIOUS"
	Dangerous  Opinion = "DANGEROUS"
)

// The errors that mean that there is no opinion. Others are the endpoint's.
var (
	ErrBudget  = errors.New("judge: the call budget of this minute, or the caller's half of it, is exhausted")
	ErrBusy    = errors.New("judge: too many concurrent calls, in total or for the caller")
	ErrTooLong = errors.New("judge: the text exceeds the length limit")
)

// Options set up a Judge. All but Key are required.
type Options struct {
	// URL is the address of the API, without "/chat/completions".
	URL   string
	Model string
	// Key is sent as a bearer token when it is not empty.
	Key       string
	Timeout   time.Duration // of one call including its answer
	PerMinute int           // calls
	Now       func() time.Time
}

// The bounds of a Judge.
const (
	low, high memproxy.PerMille = 350, 650 // the borderline, both included

	inFlight   = 4        // calls at once
	maxText    = 8 << 10  // bytes
	maxBody    = 64 << 10 // bytes of an answer
	kept       = 4096     // cached opinions
	markerSize = 16       // characters of five random bits of a marker or canary
)

// Judge asks a model. It is safe for concurrent use.
type Judge struct {
	opts   Options
	api    *endpoint.Endpoint
	cache  cache.Cache[[sha256.Size]byte, Opinion]
	budget budget
}

// New returns a judge. It makes no call.
func New(o Options) (*Judge, error) {
	api, err := endpoint.NewModel(o.URL, o.Key, o.Timeout)
	if err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	return &Judge{
		opts: o, api: api, cache: cache.New[[sha256.Size]byte, Opinion](kept),
		budget: budget{perMinute: o.PerMinute, spent: map[string]int{}, out: map[string]int{}},
	}, nil
}

// Ask returns the model's opinion of a text with a deterministic score, or NotAsked if the
// score is not on the borderline. asker identifies the caller whose text it is: one asker
// gets at most half of the calls. With an error there is no opinion.
func (j *Judge) Ask(ctx context.Context, asker, text string, score memproxy.PerMille) (Opinion, error) {
	if score < low || score > high {
		return NotAsked, nil
	}
	if len(text) > maxText {
		return NotAsked, ErrTooLong
	}
	key := sha256.Sum256([]byte(j.opts.Model + "\x00" + text))
	if w, ok := j.cache.Get(key); ok {
		return w, nil
	}
	if err := j.budget.reserve(asker, j.opts.Now()); err != nil {
		return NotAsked, err
	}
	defer j.budget.release(asker)
	nonce, canary := rand.Text()[:markerSize], rand.Text()[:markerSize]
	reply, err := j.post(ctx, prompt(canary), question(nonce, text))
	if err != nil {
		return NotAsked, err
	}
	// Every answer is cached: a caller who retries until the model changes its mind gets
	// the first answer.
	w := read(reply, nonce, canary)
	j.cache.Add(key, w)
	return w, nil
}

// budget is the budget: calls per clock minute, and concurrent calls. One asker gets at
// most half of either, so that a caller that floods the judge does not use up the calls
// for others' texts.
type budget struct {
	perMinute int

	mu         sync.Mutex
	minute     int64
	spent, out map[string]int // calls in this minute and in flight, by asker; everyone has all of them
}

const everyone = "" // no asker has this name

// reserve reserves a call, or fails at once. It never waits: a request without an opinion
// is better than one that is delayed by the judge.
func (p *budget) reserve(asker string, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := now.Unix() / 60; m != p.minute {
		p.minute = m
		clear(p.spent)
	}
	switch {
	case p.out[everyone] >= inFlight || p.out[asker] >= half(inFlight):
		return ErrBusy
	case p.spent[everyone] >= p.perMinute || p.spent[asker] >= half(p.perMinute):
		return ErrBudget
	}
	for _, who := range [...]string{everyone, asker} {
		p.spent[who]++
		p.out[who]++
	}
	return nil
}

// release ends a call. The call stays counted for its minute.
func (p *budget) release(asker string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, who := range [...]string{everyone, asker} {
		if p.out[who]--; p.out[who] == 0 {
			delete(p.out, who)
		}
	}
}

// half returns one asker's share, at least 1.
func half(n int) int { return max(1, n/2) }
