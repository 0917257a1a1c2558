package judge

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cache"
	"github.com/memproxy/memproxy/screen/endpoint"
)

// Word is what the model says of a text. An answer that is not of the form that was
// asked for is Suspicious.
type Word string

// The words. None is that of a text that was not asked about.
const (
	None       Word = ""
	Safe       Word = "SAFE"
	Suspicious Word = "SUSPICIOUS"
	Dangerous  Word = "DANGEROUS"
)

// Severity is the severity of a finding that the word makes: "" for none.
func (w Word) Severity() string {
	switch w {
	case Suspicious:
		return "medium"
	case Dangerous:
		return "high"
	}
	return ""
}

// The errors that say why there is no opinion. Others are the endpoint's.
var (
	ErrBudget  = errors.New("judge: the calls of this minute, or the asker's half of them, are used up")
	ErrBusy    = errors.New("judge: too many calls are under way, in all or for the asker")
	ErrTooLong = errors.New("judge: the text is too long to be judged whole")
)

// Options set up a Judge. Zero fields take the defaults.
type Options struct {
	// URL is the address of the API, without "/chat/completions".
	URL   string
	Model string
	// Key is sent as a bearer token when it is not empty.
	Key       string
	Timeout   time.Duration    // of one call, with its answer; default 5 s
	PerMinute int              // calls; default 60
	Now       func() time.Time // default time.Now
	Random    io.Reader        // default crypto/rand; read from one call at a time
}

// The defaults of Options, and the bounds of a Judge.
const (
	defaultTimeout   = 5 * time.Second
	defaultPerMinute = 60

	low, high memproxy.PerMille = 350, 650 // the borderline, both included

	inFlight = 4        // calls at once
	maxText  = 8 << 10  // bytes
	maxBody  = 64 << 10 // bytes of an answer
	kept     = 4096     // opinions
)

// Judge asks a model. It is safe for concurrent use.
type Judge struct {
	opts  Options
	api   *endpoint.Endpoint
	cache cache.Cache[[sha256.Size]byte, Word]
	purse purse
}

// New checks the options. It makes no call.
func New(o Options) (*Judge, error) {
	if o.Model == "" {
		return nil, errors.New("judge: no model")
	}
	if o.Timeout < 0 || o.PerMinute < 0 {
		return nil, errors.New("judge: a bound is negative")
	}
	api, err := endpoint.New(o.URL, "chat/completions", o.Key, cmp.Or(o.Timeout, defaultTimeout))
	if err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	return &Judge{opts: o, api: api, cache: cache.New[[sha256.Size]byte, Word](kept), purse: purse{perMinute: cmp.Or(o.PerMinute, defaultPerMinute)}}, nil
}

// Ask returns the model's opinion of a text with this deterministic score, or None
// when the score is not on the borderline. Asker is whose text it is: one asker has
// at most half of the calls. With an error there is no opinion.
func (j *Judge) Ask(ctx context.Context, asker, text string, score memproxy.PerMille) (Word, error) {
	if score < low || score > high {
		return None, nil
	}
	if len(text) > maxText {
		return None, ErrTooLong
	}
	key := sha256.Sum256([]byte(j.opts.Model + "\x00" + text))
	if w, ok := j.cache.Get(key); ok {
		return w, nil
	}
	if err := j.purse.take(asker, j.opts.Now()); err != nil {
		return None, err
	}
	defer j.purse.giveBack(asker)
	nonce, canary, err := j.draw()
	if err != nil {
		return None, err
	}
	reply, err := j.post(ctx, prompt(canary), question(nonce, text))
	if err != nil {
		return None, err
	}
	// Every answer is kept: who tries again until the model says something else
	// gets the first one.
	w := read(reply, nonce, canary)
	j.cache.Add(key, w)
	return w, nil
}

// draw returns a fresh marker and a fresh canary.
func (j *Judge) draw() (nonce, canary string, err error) {
	j.purse.mu.Lock() // an injected source need not be safe for concurrent use
	defer j.purse.mu.Unlock()
	var b [16]byte
	if _, err := io.ReadFull(j.opts.Random, b[:]); err != nil {
		return "", "", errors.New("judge: no randomness")
	}
	return hex.EncodeToString(b[:8]), hex.EncodeToString(b[8:]), nil
}

// purse holds the budget: calls of one minute of the clock, and calls at once.
// No asker has more than half of either, so that the others' texts are asked
// about while one writes all that it can.
type purse struct {
	perMinute int

	mu         sync.Mutex
	minute     int64
	spent, out int
	of         map[string]*share // by asker; of this minute, or under way
}

// share is what one asker spent this minute, and has under way.
type share struct{ spent, out int }

// take pays for a call. Nobody waits: a request that is held up for the
// judge's sake is worse than one without its opinion.
func (p *purse) take(asker string, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := now.Unix() / 60; m != p.minute || p.of == nil {
		kept := map[string]*share{}
		for who, s := range p.of {
			if s.spent = 0; s.out > 0 {
				kept[who] = s
			}
		}
		p.minute, p.spent, p.of = m, 0, kept
	}
	own := p.of[asker]
	if own == nil {
		own = &share{}
	}
	if p.out >= inFlight || own.out >= half(inFlight) {
		return ErrBusy
	}
	if p.spent >= p.perMinute || own.spent >= half(p.perMinute) {
		return ErrBudget
	}
	p.of[asker] = own
	p.spent++
	p.out++
	own.spent++
	own.out++
	return nil
}

// giveBack ends a call; what it cost is spent.
func (p *purse) giveBack(asker string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out--
	p.of[asker].out--
}

// half is one asker's share; one call is never too much.
func half(n int) int { return max(1, n/2) }
