package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/memproxy/memproxy/frontend"
)

// Limits of connections to an upstream.
const (
	// upstreamIdle is when idle connections are closed. It is below uvicorn's 5 s, so
	// that no request uses a connection that the upstream is closing.
	upstreamIdle = 4 * time.Second
	// DefaultConnectTimeout is the timeout of a connection's set-up, and of its TLS
	// handshake.
	DefaultConnectTimeout = 5 * time.Second
)

// NewTransport returns a transport that changes nothing: no compression, redirects or
// proxies from the environment. Each concurrent request has its own connection, so that
// none waits; frontend.InFlight limits their number. conf is for https upstreams (roots,
// client certificate); nil is the system's. connect is the timeout of a connection's
// set-up; 0 is DefaultConnectTimeout.
func NewTransport(conf *tls.Config, connect time.Duration) *http.Transport {
	connect = cmp.Or(connect, DefaultConnectTimeout)
	return &http.Transport{
		DialContext:           frontend.Dial((&net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second}).DialContext),
		TLSClientConfig:       conf,
		TLSHandshakeTimeout:   connect,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
		MaxIdleConns:          frontend.MaxRequests,
		MaxIdleConnsPerHost:   frontend.MaxRequests,
		IdleConnTimeout:       upstreamIdle,
		ExpectContinueTimeout: time.Second,
		WriteBufferSize:       8 << 10,
		ReadBufferSize:        8 << 10,
	}
}

func (p *Proxy) upstreamRequest(ctx context.Context, r *http.Request, query string, h http.Header) *http.Request {
	to := frontend.Join(p.opt.Upstream, r.URL.EscapedPath(), query, r.URL.ForceQuery)
	out := (&http.Request{Method: r.Method, URL: to, Header: h}).WithContext(ctx)
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		// net/http's transport retries requests with these headers if a connection
		// breaks. It looks for their canonical names only.
		if values, ok := out.Header[name]; ok {
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = values
		}
	}
	if _, ok := r.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // otherwise the transport adds one
	}
	return out
}
