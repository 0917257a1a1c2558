package proxy

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/memproxy/memproxy/face"
)

// TransportOptions configure the connections to an upstream.
type TransportOptions struct {
	// TLS is for https upstreams: roots, client certificate. Nil: the system's.
	TLS *tls.Config
	// IdleTimeout closes idle connections. It should be shorter than the
	// upstream's own, or a request can meet a closing one. Default 4 s, below
	// uvicorn's 5 s.
	IdleTimeout time.Duration
	// DialTimeout bounds connecting. Default 5 s.
	DialTimeout time.Duration
}

// NewTransport returns a transport that changes nothing: no compression of its own,
// no redirects followed, no proxy from the environment. It has a connection for
// every request under way, so that none waits for one: face.InFlight bounds their
// number.
func NewTransport(o TransportOptions) *http.Transport {
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 4 * time.Second
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = 5 * time.Second
	}
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: o.DialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       o.TLS,
		TLSHandshakeTimeout:   o.DialTimeout,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
		MaxIdleConns:          face.MaxRequests,
		MaxIdleConnsPerHost:   face.MaxRequests,
		IdleConnTimeout:       o.IdleTimeout,
		ExpectContinueTimeout: time.Second,
		WriteBufferSize:       8 << 10,
		ReadBufferSize:        8 << 10,
	}
}

// target is the upstream URL of a request: the same path, spelled the same
// way, behind the upstream's own prefix.
func target(upstream, in *url.URL, query string) *url.URL {
	return face.Join(upstream, in.Path, in.EscapedPath(), query, in.ForceQuery)
}

// relocate leads a redirect to the upstream back through the proxy.
func relocate(resp *http.Response, upstream *url.URL) {
	if to, ok := face.Relocated(resp.Header.Get("Location"), upstream); ok {
		resp.Header.Set("Location", to)
	}
}
