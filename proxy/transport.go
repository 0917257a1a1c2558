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

// Bounds of connections to an upstream.
const (
	// upstreamIdle closes idle connections. It is below uvicorn's own 5 s, so that no
	// request uses a connection that the upstream is closing.
	upstreamIdle = 4 * time.Second
	// DefaultConnectTimeout bounds a connection's set-up, and that of its TLS.
	DefaultConnectTimeout = 5 * time.Second
)

// NewTransport returns a transport that changes nothing: no compression, redirects or
// proxies from the environment. It has a connection for every concurrent request, so
// that none waits; frontend.InFlight bounds their number. Conf is for https upstreams
// (roots, client certificate); nil is the system's. Connect bounds a connection's set-up;
// 0 is DefaultConnectTimeout.
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

// onward returns a request to the backend with these headers, without its body.
func (p *Proxy) onward(ctx context.Context, r *http.Request, query string, h http.Header) *http.Request {
	to := frontend.Join(p.opt.Upstream, r.URL.Path, r.URL.EscapedPath(), query, r.URL.ForceQuery)
	out := (&http.Request{Method: r.Method, URL: to, Header: h}).WithContext(ctx)
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		// The transport would send such a request again if its connection breaks. It
		// looks for the name in canonical form only.
		if values, ok := out.Header[name]; ok {
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = values
		}
	}
	if _, ok := r.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // or the transport adds one
	}
	return out
}
