package proxy

import (
	"context"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/telemetry/signal"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Proxy is the handler of one backend's listener. It is safe for concurrent
// use.
type Proxy struct {
	opt      Options
	patterns []pattern
	pass     *httputil.ReverseProxy
	backend  gate.Backend
	turns    turns
	chains   chains
	follows  chan struct{} // slots for writes that are looked after

	// What goes on beside the requests, and after them.
	life      context.Context
	end       context.CancelFunc
	after     sync.WaitGroup
	journal   journal
	unsettled unsettled
	over      *lru.Cache[string, struct{}] // runs whose pause is over
}

// New returns the handler.
func New(opt Options) (*Proxy, error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	over, err := lru.New[string, struct{}](maxAnswered)
	if err != nil {
		return nil, err
	}
	p := &Proxy{opt: opt, chains: chains{clock: opt.Clock}, journal: journal{opt.Journal}, over: over, follows: make(chan struct{}, followMost)}
	p.life, p.end = context.WithCancel(context.Background())
	for _, s := range opt.Passthrough {
		pt, err := parsePattern(s)
		if err != nil {
			return nil, err
		}
		p.patterns = append(p.patterns, pt)
	}
	p.pass = p.newPass()
	p.backend = gate.Backend{Name: opt.Name, Adapter: opt.Adapter, Fetch: fetcher{p}, Ungated: opt.Ungated}
	return p, nil
}

// ServeHTTP takes one request through the gate, or past it where it touches
// no memory.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	req := describe(r)
	route, known := p.opt.Adapter.Route(req)
	name := route.ID
	if !known {
		name, route = "unknown", memproxy.Route{Kind: memproxy.Other}
	}
	ctx := p.opt.Propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := p.opt.Tracer.Start(ctx, signal.SpanServer+name, trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	r = r.WithContext(ctx)
	sw := &statusWriter{ResponseWriter: w}
	flaw := overridden(r.Header)
	verdict := "pass"
	attrs := make([]attribute.KeyValue, 0, 24)
	switch {
	case flaw == nil && preflight(r):
		name = "preflight"
		p.passOn(sw, r, false)
	case flaw == nil && known && route.Pass:
		p.passOn(sw, r, route.Lend)
	case flaw == nil && !known && p.passthrough(r.Method, req.EscapedPath):
		name = "passthrough"
		p.passOn(sw, r, false)
	default:
		a := p.gated(sw, r, req, route, known, flaw)
		verdict, attrs = a.Decision.Verdict.String(), a.Attributes(attrs)
	}
	if span.IsRecording() {
		span.SetAttributes(append(attrs,
			attribute.String(signal.AttrHTTPMethod, r.Method),
			attribute.String(signal.AttrHTTPRoute, name),
			attribute.Int(signal.AttrHTTPStatus, sw.status()),
		)...)
		if sw.status() >= 500 {
			span.SetStatus(codes.Error, "")
		}
	}
	p.opt.Observe(r.Context(), name, string(route.Kind), verdict, sw.status(), time.Since(start))
}

// preflight reports whether a browser asks what it may send (the Fetch
// standard's CORS preflight). It carries no credential and no content.
func preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// overridden refuses headers by which some frameworks take a request for one
// of another method: it would be ruled on as what it is not.
func overridden(h http.Header) *memproxy.Malformed {
	for _, name := range [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		if len(h[name]) > 0 {
			return &memproxy.Malformed{Code: memproxy.RouteUnknown, Status: http.StatusBadRequest, Detail: "a header that overrides the method is not accepted"}
		}
	}
	return nil
}

// describe puts a request in the adapter's terms.
func describe(r *http.Request) memproxy.Request {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	// A TLS-terminating hop in front of the sidecar says so here; it only
	// shapes links in answers, so believing it gives nothing away.
	if f := r.Header.Get("X-Forwarded-Proto"); f == "http" || f == "https" {
		scheme = f
	}
	return memproxy.Request{
		Method: r.Method, Path: r.URL.Path, EscapedPath: r.URL.EscapedPath(), Query: r.URL.RawQuery,
		Header: memproxy.Header(r.Header), Base: scheme + "://" + r.Host,
	}
}

func (p *Proxy) passthrough(method, escapedPath string) bool {
	if !plain(escapedPath) {
		return false
	}
	for _, pt := range p.patterns {
		if pt.matches(method, escapedPath) {
			return true
		}
	}
	return false
}

// credentials are what the caller presents outside the payload.
func credentials(r *http.Request) memproxy.Credentials {
	c := memproxy.Credentials{Header: memproxy.Header(r.Header)}
	// VerifiedChains is set only when the handshake verified the certificate
	// against the configured roots; PeerCertificates alone proves nothing.
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && len(r.TLS.PeerCertificates) > 0 {
		for _, u := range r.TLS.PeerCertificates[0].URIs {
			c.PeerURIs = append(c.PeerURIs, u.String())
		}
	}
	return c
}

// statusWriter remembers the status that was sent.
type statusWriter struct {
	http.ResponseWriter
	code int
}

func (w *statusWriter) WriteHeader(code int) {
	if w.code == 0 && code >= 200 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) status() int {
	if w.code == 0 {
		return http.StatusOK
	}
	return w.code
}

// decisionHeader words a decision for the answer's header.
func decisionHeader(d *memproxy.Decision) string {
	var b strings.Builder
	b.Grow(64)
	b.WriteString(d.Verdict.String())
	b.WriteString("; id=")
	b.WriteString(d.ID)
	if d.Would != d.Verdict {
		b.WriteString("; would=")
		b.WriteString(d.Would.String())
	}
	return b.String()
}
