package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
)

// Defaults of Options.
const (
	// DefaultMaxBody fits the largest batch that the hosted Mem0 API takes
	// (1,000 memories) at 1 KiB each.
	DefaultMaxBody = 1 << 20
	// DefaultMaxAnswer bounds an answer that must be read before it is passed on.
	DefaultMaxAnswer = 16 << 20
	// DefaultBodyTimeout bounds how long a client may take to send a body.
	DefaultBodyTimeout = 30 * time.Second
	// DefaultUpstreamTimeout is the longest that the Mem0 Python client waits.
	DefaultUpstreamTimeout = 300 * time.Second
	DefaultRunTimeout      = 30 * time.Minute
	// DefaultReconcile is how long a pause may wait where the configuration does not
	// say.
	DefaultReconcile = 30 * time.Second
)

// Options configure one backend's listener.
type Options struct {
	Gate *gate.Gate
	// Name and Adapter say which backend this is.
	Name    string
	Adapter gate.Adapter
	// Upstream is the backend's base URL; a path in it is a prefix.
	Upstream *url.URL
	// Transport sends to the upstream. Nil: NewTransport(TransportOptions{}).
	Transport http.RoundTripper
	// PassTransport sends requests that touch no memory and SideTransport the
	// proxy's own. They have connections of their own, so that none of the three
	// can use up another's. Nil: NewTransport(TransportOptions{}).
	PassTransport, SideTransport http.RoundTripper
	// InFlight bounds the bytes of bodies and answers that are held. Nil: not
	// bounded.
	InFlight *face.InFlight
	// Credential replaces the client's backend credential, if set.
	Credential *face.Credential
	// Passthrough are patterns "METHOD /path/*" of routes that the adapter
	// does not know and that touch no memory.
	Passthrough []string

	MaxBody     int64
	MaxAnswer   int64
	BodyTimeout time.Duration
	// UpstreamTimeout bounds how long the backend may take to answer, and to send
	// more of an answer that is passed on as it comes; such a stream may last for
	// longer. Letta, for one, sends a sign of life every 20 s.
	UpstreamTimeout time.Duration
	// RunTimeout is UpstreamTimeout for an agent's turn, with all its requests.
	// Default 30 min.
	RunTimeout time.Duration

	// Ungated says what becomes of runs that cannot be gated call by call.
	Ungated gate.Ungated
	// Tenant is the one whose memories the backend holds, or "".
	Tenant string
	// Journal is the directory of turns that are under way and of runs that are let
	// through and compensated, which Ungated needs for that. It will hold memories.
	Journal string
	// Reconcile is how long an agent may wait after its turn broke off until what
	// waits is declined. Zero: until its next turn.
	Reconcile time.Duration

	// Clock tells how old a remembered turn is, or a pause. Default time.Now.
	Clock func() time.Time

	// Steps is notified of points at which a crash must lose nothing. Nil: nobody.
	Steps memproxy.Stepper

	// After waits between questions to the backend. Default time.After.
	After func(time.Duration) <-chan time.Time

	Tracer     trace.Tracer
	Propagator propagation.TextMapPropagator
	Log        *slog.Logger
	// Observe is told the route id, kind and duration of every request. Nil: nobody.
	Observe func(ctx context.Context, route, kind, verdict string, status int, d time.Duration)
}

func (o *Options) complete() error {
	switch {
	case o.Gate == nil, o.Adapter == nil, o.Name == "":
		return errors.New("proxy: gate, adapter and name are required")
	case o.Upstream == nil || (o.Upstream.Scheme != "http" && o.Upstream.Scheme != "https") || o.Upstream.Host == "":
		return errors.New("proxy: upstream must be an http or https URL with a host")
	case o.Upstream.User != nil:
		return errors.New("proxy: upstream must not carry a credential; use credential instead")
	}
	switch o.Ungated {
	case gate.UngatedByProfile, gate.UngatedDeny:
	case gate.UngatedCompensate:
		if o.Journal == "" {
			return errors.New("proxy: compensation needs a journal")
		}
	default:
		return fmt.Errorf("proxy: ungated runs cannot be met with %q", o.Ungated)
	}
	if o.MaxBody <= 0 {
		o.MaxBody = DefaultMaxBody
	}
	if o.MaxAnswer <= 0 {
		o.MaxAnswer = DefaultMaxAnswer
	}
	if o.BodyTimeout <= 0 {
		o.BodyTimeout = DefaultBodyTimeout
	}
	if o.UpstreamTimeout <= 0 {
		o.UpstreamTimeout = DefaultUpstreamTimeout
	}
	if o.RunTimeout <= 0 {
		o.RunTimeout = DefaultRunTimeout
	}
	for _, t := range [...]*http.RoundTripper{&o.Transport, &o.PassTransport, &o.SideTransport} {
		if *t == nil {
			*t = NewTransport(TransportOptions{})
		}
		*t = face.Final(*t)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if o.Propagator == nil {
		o.Propagator = propagation.TraceContext{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(context.Context, string, string, string, int, time.Duration) {}
	}
	return nil
}
