package identity

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"
)

// calm is a transport that asks an issuer for one URL at most once in
// quietTime and answers from memory in between. An unknown key id makes the
// verifier fetch the keys again; without this, tokens with made-up key ids
// would be a way to make the proxy flood the issuer.
type calm struct {
	base  http.RoundTripper
	clock func() time.Time
	mu    sync.Mutex
	last  map[string]visit
}

type visit struct {
	at     time.Time
	status int
	header http.Header
	body   []byte
}

// maxDocument bounds discovery documents and key sets.
const maxDocument = 1 << 20

// RoundTrip implements http.RoundTripper.
func (c *calm) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return c.base.RoundTrip(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := r.URL.String()
	if v, ok := c.last[key]; ok && c.clock().Sub(v.at) < quietTime {
		return v.response(r), nil
	}
	resp, err := c.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return nil, err
	}
	v := visit{c.clock(), resp.StatusCode, resp.Header, body}
	if resp.StatusCode == http.StatusOK {
		c.last[key] = v
	}
	return v.response(r), nil
}

func (v visit) response(r *http.Request) *http.Response {
	return &http.Response{
		StatusCode: v.status, Status: http.StatusText(v.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: v.header.Clone(), Body: io.NopCloser(bytes.NewReader(v.body)), ContentLength: int64(len(v.body)), Request: r,
	}
}
