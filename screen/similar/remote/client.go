// Package remote embeds texts over an OpenAI-compatible endpoint.
//
// Besides the invariants of package endpoint: an answer without exactly one finite vector
// for each text is an error, and an endpoint that keeps failing is not called for a while
// (circuit breaker, [ErrOpen]).
package remote

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/memproxy/memproxy/internal/cache"
	"github.com/memproxy/memproxy/screen/endpoint"
	"github.com/memproxy/memproxy/screen/terms"
)

// ErrOpen is returned without a call while the circuit breaker is open.
var ErrOpen = errors.New("remote: the endpoint failed repeatedly; requests are suspended")

// Options set up a Client.
type Options struct {
	// URL is the address of the API, without "/embeddings":
	// "https://api.example.com/v1".
	URL   string
	Model string
	// Key is sent as a bearer token when it is not empty.
	Key string

	Timeout time.Duration    // of one call including its answer; default 5 s
	Now     func() time.Time // default time.Now
}

const (
	defaultTimeout = 5 * time.Second
	batchSize      = 64       // texts of one call
	maxText        = 8 << 10  // bytes of a text that are sent
	maxBody        = 16 << 20 // bytes of an answer
	kept           = 4096     // cached vectors
	maxDim         = 8192
)

// Client embeds over HTTP. It is safe for concurrent use.
type Client struct {
	opts    Options
	api     *endpoint.Endpoint
	cache   cache.Cache[[sha256.Size]byte, []float32]
	breaker breaker
}

// New returns a client. It makes no call.
func New(o Options) (*Client, error) {
	if o.Model == "" {
		return nil, errors.New("remote: no model")
	}
	api, err := endpoint.NewModel(o.URL, o.Key, cmp.Or(o.Timeout, defaultTimeout))
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Client{opts: o, api: api, cache: cache.New[[sha256.Size]byte, []float32](kept)}, nil
}

// Embed returns one vector for each text, cached ones without a call. It fails as a
// whole.
func (c *Client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	missing := map[[sha256.Size]byte][]int{} // by content, so that duplicates are requested once
	var order [][sha256.Size]byte
	for i, t := range texts {
		key := sha256.Sum256([]byte(c.opts.Model + "\x00" + t))
		if v, ok := c.cache.Get(key); ok {
			out[i] = v
			continue
		}
		if _, ok := missing[key]; !ok {
			order = append(order, key)
		}
		missing[key] = append(missing[key], i)
	}
	for len(order) > 0 {
		n := min(len(order), batchSize)
		batch := make([]string, n)
		for i, key := range order[:n] {
			batch[i] = terms.Truncate(texts[missing[key][0]], maxText)
		}
		vectors, err := c.call(ctx, batch)
		if err != nil {
			return nil, err
		}
		for i, key := range order[:n] {
			c.cache.Add(key, vectors[i])
			for _, at := range missing[key] {
				out[at] = vectors[i]
			}
		}
		order = order[n:]
	}
	return out, nil
}

// call requests one batch. The circuit breaker counts failures of the endpoint, not a
// caller that gave up.
func (c *Client) call(ctx context.Context, texts []string) ([][]float32, error) {
	if !c.breaker.allow(c.opts.Now()) {
		return nil, ErrOpen
	}
	vectors, err := c.post(ctx, texts)
	c.breaker.note(err, err != nil && ctx.Err() != nil, c.opts.Now())
	return vectors, err
}

func (c *Client) post(ctx context.Context, texts []string) ([][]float32, error) {
	raw, err := c.api.Post(ctx, "embeddings", struct {
		Model  string   `json:"model"`
		Input  []string `json:"input"`
		Format string   `json:"encoding_format"`
	}{c.opts.Model, texts, "float"}, maxBody)
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	return parse(raw, len(texts))
}

func parse(raw []byte, want int) ([][]float32, error) {
	var answer struct {
		Data []struct {
			Index     *int      `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, errors.New("remote: the response is not an embeddings response")
	}
	if len(answer.Data) != want {
		return nil, fmt.Errorf("remote: %d vectors for %d texts", len(answer.Data), want)
	}
	out := make([][]float32, want)
	for i, d := range answer.Data {
		at := i
		if d.Index != nil {
			at = *d.Index
		}
		if at < 0 || at >= want || out[at] != nil {
			return nil, errors.New("remote: an index is repeated or out of range")
		}
		if len(d.Embedding) == 0 || len(d.Embedding) > maxDim || len(d.Embedding) != len(answer.Data[0].Embedding) {
			return nil, fmt.Errorf("remote: a vector of %d dimensions", len(d.Embedding))
		}
		out[at] = d.Embedding
	}
	return out, nil
}

const (
	maxFailures = 5 // consecutive failures that open the breaker
	cooldown    = 30 * time.Second
)

// breaker is a circuit breaker. After maxFailures consecutive failures it rejects calls
// for the cooldown, then allows one, whose result closes it or opens it again.
type breaker struct {
	mu       sync.Mutex
	failures int
	until    time.Time // calls are rejected before this time
}

func (b *breaker) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < maxFailures {
		return true
	}
	if now.Before(b.until) {
		return false
	}
	b.until = never // rejects others while the trial call is in flight
	return true
}

// never is later than the time of any call.
var never = time.Unix(1<<40, 0)

// note records the result of a call. gone means that the caller cancelled it, which says
// nothing about the endpoint.
func (b *breaker) note(err error, gone bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case gone:
		if b.until == never {
			b.until = now
		}
	case err == nil:
		b.failures = 0
	default:
		if b.failures++; b.failures >= maxFailures {
			b.until = now.Add(cooldown)
		}
	}
}
