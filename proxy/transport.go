package proxy

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/memproxy/memproxy/face"
)

// The bounds of connections to an upstream.
const (
	// upstreamIdle closes idle ones. It is below uvicorn's own 5 s, or a request could
	// meet a connection that the upstream closes.
	upstreamIdle = 4 * time.Second
	dialTimeout  = 5 * time.Second
)

// NewTransport returns a transport that changes nothing: no compression of its own,
// no redirects followed, no proxy from the environment. It has a connection for
// every request under way, so that none waits for one: face.InFlight bounds their
// number. Conf is for https upstreams: roots, client certificate. Nil: the system's.
func NewTransport(conf *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       conf,
		TLSHandshakeTimeout:   dialTimeout,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
		MaxIdleConns:          face.MaxRequests,
		MaxIdleConnsPerHost:   face.MaxRequests,
		IdleConnTimeout:       upstreamIdle,
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
