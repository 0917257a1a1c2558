package proxy

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/agentrun"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// Proxy is the handler of one backend's listener. It is safe for concurrent
// use.
type Proxy struct {
	opt      Options
	backend  gate.Backend
	side     *frontend.Side
	follower *frontend.Follower
	runs     *agentrun.Runs
	severed  context.Context // ends when a stop aborts the requests in flight, see AbortAll
	cut      context.CancelFunc
}

// New returns the handler.
func New(opt Options) (*Proxy, error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	p := &Proxy{opt: opt}
	p.severed, p.cut = context.WithCancel(context.Background())
	p.side = frontend.NewSide(&p.opt.Backend, opt.SideTransport, opt.InFlight.Side(), opt.Propagator)
	p.follower = frontend.NewFollower(opt.Gate, p.side, opt.Name, opt.Runtime)
	p.opt.Fetch = p.side
	p.backend = p.opt.Backend.Backend
	p.runs = agentrun.New(agentrun.Options{
		Gate: opt.Gate, Backend: p.opt.Backend, Side: p.side, RunTimeout: opt.RunTimeout,
		Dir: opt.Journal, PauseLimit: opt.Reconcile, Runtime: opt.Runtime, Steps: opt.Steps,
	})
	return p, nil
}

// Runs returns the runs of the backend's agents. Runs of an earlier process are settled
// by Resettle, before requests are served, and by Once.
func (p *Proxy) Runs() *agentrun.Runs { return p.runs }

// Backend returns the backend, for another listener of the process.
func (p *Proxy) Backend() frontend.Backend { return p.opt.Backend }

// BackendClient returns the sender of memproxy's own requests to the backend; nil if p is
// nil.
func (p *Proxy) BackendClient() *BackendClient { return (*BackendClient)(p) }

// Close ends the background work. No request may be in progress.
func (p *Proxy) Close(ctx context.Context) error {
	err := errors.Join(p.follower.Close(ctx), p.runs.Close(ctx))
	for _, t := range [...]http.RoundTripper{p.opt.Transport, p.opt.PassTransport, p.opt.SideTransport} {
		(&http.Client{Transport: t}).CloseIdleConnections()
	}
	return err
}

// ServeHTTP passes one request through the gate, with or without its body. Only CORS
// preflights and public routes are not ruled on.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	req := describe(r)
	creds, renew := credentials(r, p.opt.Clock())
	creds.Session = frontend.Session(req.Header)
	class := p.opt.Classify(frontend.Head{Request: req, Sent: creds.Header, Body: r.ContentLength != 0})
	if to := class.Route.Respelled; to != "" {
		req.EscapedPath = to
		r.URL = frontend.Join(&url.URL{}, to, r.URL.RawQuery, r.URL.ForceQuery)
	}
	ctx := p.opt.Propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := p.opt.Tracer.Start(ctx, signal.SpanServer+class.Name, trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	r = r.WithContext(ctx)
	r.Header = http.Header(req.Header)
	aw, r := paced(w, r, DefaultBodyTimeout, frontend.DefaultWriteTimeout)
	defer aw.end()
	if renew {
		aw.Header()["Connection"] = []string{"close"}
	}
	aw.hungUp = func() bool { return r.Context().Err() != nil && p.severed.Err() == nil }
	aw.Header()["Content-Type"] = nil // otherwise net/http would guess a type from the body
	aw.lease = p.opt.InFlight.Lease(creds.Peer)
	defer aw.lease.Release()
	e := &frontend.Entry{Gate: p.opt.Gate, Log: p.opt.Log, Lease: aw.lease, Class: class, Call: gate.Call{Backend: p.backend, Credentials: creds, Request: req}}
	var a *gate.Admission
	switch {
	case class.Ruled():
		a = p.serveRuled(aw, r, e)
	case aw.lease.Enter(ctx, "", "") != nil:
		aw.reply(frontend.NoRoom(p.opt.Adapter, req))
	case class.Handling == frontend.Preflight:
		public{p}.preflight(aw, r)
	default:
		public{p}.open(aw, r, class.Route, creds)
	}
	status := cmp.Or(aw.code, http.StatusOK)
	verdict := e.End(span, a, r.Method, status)
	p.opt.Observe(r.Context(), string(class.Route.Kind), verdict, status, time.Since(start))
	if aw.torn {
		panic(http.ErrAbortHandler) // closes the connection
	}
}

func describe(r *http.Request) memproxy.Request {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	// A TLS-terminating proxy in front of the sidecar sets this header. It only affects
	// links in answers, so a forged value has no effect on security.
	if f := r.Header.Get("X-Forwarded-Proto"); f == "http" || f == "https" {
		scheme = f
	}
	host := r.Host
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && host == "" { // HTTP/1.0
		host = addr.String()
	}
	return memproxy.Request{
		Method: r.Method, EscapedPath: r.URL.EscapedPath(), Query: r.URL.RawQuery,
		Header: memproxy.Header(frontend.Forwardable(r.Header)), Base: scheme + "://" + host,
	}
}

// credentials returns what the caller presents outside of the payload. renew reports that
// the client must open a new connection, because its certificate could expire while this
// one is idle.
func credentials(r *http.Request, now time.Time) (c memproxy.Credentials, renew bool) {
	c = memproxy.Credentials{Header: memproxy.Header(frontend.IdentityHeaders(r.Header)), Peer: frontend.Peer(r.RemoteAddr), Host: r.Host}
	// VerifiedChains is set only when the handshake verified the certificate
	// against the configured roots; PeerCertificates alone proves nothing.
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.PeerCertificates) == 0 {
		return c, false
	}
	for _, u := range r.TLS.PeerCertificates[0].URIs {
		c.PeerURIs = append(c.PeerURIs, u.String())
	}
	end := expiry(r.TLS.VerifiedChains)
	c.PeerExpired = now.After(end)
	return c, now.Add(idleTimeout).After(end)
}

// expiry returns when the last of the chains expires. A chain expires with the first of its
// certificates.
func expiry(chains [][]*x509.Certificate) (end time.Time) {
	for _, chain := range chains {
		first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
		if first.NotAfter.After(end) {
			end = first.NotAfter
		}
	}
	return end
}
