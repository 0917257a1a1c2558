package contract

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
)

// Tap stands between memproxy and a real server, and remembers what arrived for
// each case: requests of one case carry one trace id, memproxy's own included.
// It is safe for concurrent use.
type Tap struct {
	forward *httputil.ReverseProxy

	mu  sync.Mutex
	got map[string][]Arrival
}

// Arrival is one request that reached the server.
type Arrival struct {
	Method, URI, Body string
}

// maxTapped is how much of a body is remembered, in bytes.
const maxTapped = 64 << 10

// NewTap returns a tap in front of a server's base URL.
func NewTap(server string) (*Tap, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 32
	transport.DisableCompression = true
	return &Tap{
		forward: &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(u)
			r.Out.Host = r.In.Host
		}},
		got: map[string][]Arrival{},
	}, nil
}

// ServeHTTP implements http.Handler.
func (t *Tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, rest, _ := strings.Cut(r.Header.Get("Traceparent"), "-")
	trace, _, _ := strings.Cut(rest, "-")
	body, err := io.ReadAll(io.LimitReader(r.Body, maxTapped))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	t.mu.Lock()
	t.got[trace] = append(t.got[trace], Arrival{r.Method, r.URL.RequestURI(), string(body)})
	t.mu.Unlock()
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
	t.forward.ServeHTTP(w, r)
}

// Take returns what arrived under a trace id since it was last asked.
func (t *Tap) Take(trace string) []Arrival {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.got[trace]
	delete(t.got, trace)
	return out
}

// Changes reports whether a request may change what the server has of anybody.
func (a *Arrival) Changes() bool {
	if a.Method == http.MethodGet || a.Method == http.MethodHead {
		return false
	}
	path, _, _ := strings.Cut(a.URI, "?")
	segments := strings.Split(strings.Trim(path, "/"), "/")
	return !reads(segments) && !static(segments)
}
