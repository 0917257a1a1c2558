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
	"slices"
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
	opts  Options
	api   *endpoint.Endpoint
	cache cache.Cache[[sha256.Size]byte, []float32]

	// The circuit breaker: after maxFailures consecutive failures no call is made until a
	// time, and then one, whose result closes it or opens it again.
	mu       sync.Mutex
	failures int
	until    time.Time
}

// New returns a client. It makes no call.
func New(o Options) (*Client, error) {
	api, err := endpoint.NewModel(o.URL, o.Key, cmp.Or(o.Timeout, defaultTimeout))
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Client{opts: o, api: api, cache: cache.New[[sha256.Size]byte, []float32](kept)}, nil
}

// Embed returns one vector for each text, cached ones without a call, and requests
// duplicates once. It fails as a whole.
func (c *Client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	key := func(text string) [sha256.Size]byte { return sha256.Sum256([]byte(c.opts.Model + "\x00" + text)) }
	vectors := make(map[string][]float32, len(texts))
	var missing []string
	for _, t := range texts {
		if _, ok := vectors[t]; ok {
			continue
		}
		if vectors[t], _ = c.cache.Get(key(t)); vectors[t] == nil {
			missing = append(missing, t)
		}
	}
	for batch := range slices.Chunk(missing, batchSize) {
		got, err := c.call(ctx, batch)
		if err != nil {
			return nil, err
		}
		for i, t := range batch {
			vectors[t] = got[i]
			c.cache.Add(key(t), got[i])
		}
	}
	out := make([][]float32, len(texts))
	for i, t := range texts {
		out[i] = vectors[t]
	}
	return out, nil
}

// call requests one batch. The circuit breaker counts failures of the endpoint, not a
// caller that gave up.
func (c *Client) call(ctx context.Context, texts []string) ([][]float32, error) {
	c.mu.Lock()
	trial, before := c.failures >= maxFailures, c.until
	if trial && c.opts.Now().Before(before) {
		c.mu.Unlock()
		return nil, ErrOpen
	}
	if trial {
		c.until = never // while the trial is in flight
	}
	c.mu.Unlock()
	vectors, err := c.post(ctx, texts)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.failures = 0
	case ctx.Err() == nil:
		c.failures++
		c.until = c.opts.Now().Add(cooldown)
	case trial:
		c.until = before // for the next one
	}
	return vectors, err
}

const (
	maxFailures = 5
	cooldown    = 30 * time.Second
)

// never is later than the time of any call.
var never = time.Unix(1<<40, 0)

func (c *Client) post(ctx context.Context, texts []string) ([][]float32, error) {
	sent := make([]string, len(texts))
	for i, t := range texts {
		sent[i] = terms.Truncate(t, maxText)
	}
	raw, err := c.api.Post(ctx, "embeddings", struct {
		Model  string   `json:"model"`
		Input  []string `json:"input"`
		Format string   `json:"encoding_format"`
	}{c.opts.Model, sent, "float"}, maxBody)
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
