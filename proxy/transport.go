package proxy

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/memproxy/memproxy/frontend"
)

// Bounds of connections to an upstream.
const (
	// upstreamIdle closes idle connections. It is below uvicorn's own 5 s, so that no
	// request uses a connection that the upstream is closing.
	upstreamIdle = 4 * time.Second
	dialTimeout  = 5 * time.Second
)

// NewTransport returns a transport that changes nothing: no compression, redirects or
// proxies from the environment. It has a connection for every concurrent request, so
// that none waits; frontend.InFlight bounds their number. Conf is for https upstreams
// (roots, client certificate); nil is the system's.
func NewTransport(conf *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       conf,
		TLSHandshakeTimeout:   dialTimeout,
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

// target returns the upstream URL of a request: the same path in the same spelling,
// after the upstream's own prefix.
func target(upstream, in *url.URL, query string) *url.URL {
	return frontend.Join(upstream, in.Path, in.EscapedPath(), query, in.ForceQuery)
}
