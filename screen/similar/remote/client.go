package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	lru "github.com/hashicorp/golang-lru/v2"
)

// ErrOpen is returned without a call while the endpoint is left alone.
var ErrOpen = errors.New("remote: the endpoint failed repeatedly and is left alone for now")

// Options set up a Client. Zero fields take the defaults.
type Options struct {
	// URL is the address of the API, without "/embeddings":
	// "https://api.example.com/v1".
	URL   string
	Model string
	// Key is sent as a bearer token when it is not empty.
	Key string

	Timeout  time.Duration     // of one call, with its answer; default 5 s
	Batch    int               // texts of one call; default 64
	MaxText  int               // bytes of a text that are sent; default 8 KiB
	MaxBody  int64             // bytes of an answer; default 16 MiB
	Cache    int               // vectors kept; default 4096
	Failures int               // in a row until the endpoint is left alone; default 5
	Cooldown time.Duration     // for how long; default 30 s
	Now      func() time.Time  // default time.Now
	Via      http.RoundTripper // default a transport of its own
}

// The defaults of Options.
const (
	defaultTimeout  = 5 * time.Second
	defaultBatch    = 64
	defaultMaxText  = 8 << 10
	defaultMaxBody  = 16 << 20
	defaultCache    = 4096
	defaultFailures = 5
	defaultCooldown = 30 * time.Second

	maxDim = 8192
)

// Client embeds over HTTP. It is safe for concurrent use.
type Client struct {
	opts    Options
	url     string
	http    *http.Client
	cache   *lru.Cache[[sha256.Size]byte, []float32]
	breaker breaker
}

// New returns a client. It makes no call.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("remote: the URL is not an http address without credentials")
	}
	if o.Model == "" {
		return nil, errors.New("remote: no model")
	}
	if o.Timeout < 0 || o.Batch < 0 || o.MaxText < 0 || o.MaxBody < 0 || o.Cache < 0 || o.Failures < 0 || o.Cooldown < 0 {
		return nil, errors.New("remote: a bound is negative")
	}
	o.Timeout = or(o.Timeout, defaultTimeout)
	o.Batch = or(o.Batch, defaultBatch)
	o.MaxText = or(o.MaxText, defaultMaxText)
	o.MaxBody = or(o.MaxBody, defaultMaxBody)
	o.Cache = or(o.Cache, defaultCache)
	o.Failures = or(o.Failures, defaultFailures)
	o.Cooldown = or(o.Cooldown, defaultCooldown)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Via == nil {
		o.Via = &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true}
	}
	cache, err := lru.New[[sha256.Size]byte, []float32](o.Cache)
	if err != nil {
		return nil, err
	}
	return &Client{
		opts: o,
		url:  strings.TrimRight(o.URL, "/") + "/embeddings",
		http: &http.Client{
			Transport:     o.Via,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		cache:   cache,
		breaker: breaker{limit: o.Failures, cooldown: o.Cooldown},
	}, nil
}

func or[T int | int64 | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// Embed returns one vector for each text. Those that were embedded lately come
// from the cache. It fails as a whole.
func (c *Client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	missing := map[[sha256.Size]byte][]int{} // by content, so that twins are asked for once
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
		n := min(len(order), c.opts.Batch)
		batch := make([]string, n)
		for i, key := range order[:n] {
			batch[i] = clip(texts[missing[key][0]], c.opts.MaxText)
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

// clip cuts a text before a character that would go over the limit.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// call asks for one batch. The breaker counts what the endpoint did wrong,
// not a caller that gave up.
func (c *Client) call(ctx context.Context, texts []string) ([][]float32, error) {
	if !c.breaker.allow(c.opts.Now()) {
		return nil, ErrOpen
	}
	vectors, err := c.post(ctx, texts)
	if err != nil && ctx.Err() != nil {
		c.breaker.forget()
		return nil, err
	}
	c.breaker.note(err == nil, c.opts.Now())
	return vectors, err
}

func (c *Client) post(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	body, err := json.Marshal(struct {
		Model  string   `json:"model"`
		Input  []string `json:"input"`
		Format string   `json:"encoding_format"`
	}{c.opts.Model, texts, "float"})
	if err != nil {
		return nil, errors.New("remote: the request cannot be encoded")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("remote: the request cannot be made")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if c.opts.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("remote: %w", unwrap(err))
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, c.opts.MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("remote: reading the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("remote: the endpoint answered %d", resp.StatusCode)
	}
	if int64(len(raw)) > c.opts.MaxBody {
		return nil, fmt.Errorf("remote: the answer is over %d bytes", c.opts.MaxBody)
	}
	return parse(raw, len(texts))
}

// unwrap takes the address off a transport error.
func unwrap(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// parse reads an answer with want vectors, each index once.
func parse(raw []byte, want int) ([][]float32, error) {
	var answer struct {
		Data []struct {
			Index     *int      `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, errors.New("remote: the answer is not the JSON that was asked for")
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
			return nil, errors.New("remote: an index comes twice or is out of range")
		}
		if len(d.Embedding) == 0 || len(d.Embedding) > maxDim || len(d.Embedding) != len(answer.Data[0].Embedding) {
			return nil, fmt.Errorf("remote: a vector of %d dimensions", len(d.Embedding))
		}
		for _, f := range d.Embedding {
			if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
				return nil, errors.New("remote: a number is not finite")
			}
		}
		out[at] = d.Embedding
	}
	return out, nil
}
