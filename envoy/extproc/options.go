package extproc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
)

// Defaults of Options. They are the HTTP face's.
const (
	DefaultMaxBody   = 1 << 20
	DefaultMaxAnswer = 16 << 20
	// DefaultExchanges is what a listener of the HTTP face has connections.
	DefaultExchanges = face.DefaultConnections
)

// Backend is one memory service that Envoy routes to.
type Backend struct {
	// Name is what Envoy's configuration calls it, in BackendKey.
	Name    string
	Adapter gate.Adapter
	// Upstream is where the processor itself asks the backend whose memories
	// are. Envoy's own clusters say where requests go.
	Upstream *url.URL
	// Fetch makes those requests; nil: nothing can be asked, unknown owners
	// stay unknown. See face.NewSide.
	Fetch gate.Fetcher
	// Credential replaces the client's backend credential, if set.
	Credential *face.Credential
	// Passthrough are patterns "METHOD /path/*" of routes that the adapter
	// does not know and that touch no memory.
	Passthrough []string
	// MaxBody bounds a request's body and MaxAnswer an answer that must be
	// read, in bytes. Envoy's own buffers must be at least as large.
	MaxBody   int64
	MaxAnswer int64
	// InFlight bounds the bytes of bodies and answers that are held. Nil: not
	// bounded.
	InFlight *face.InFlight
	// Ungated is what becomes of runs that cannot be gated. To rule on them
	// afterwards takes the HTTP face; here that is a refusal.
	Ungated gate.Ungated
	// Tenant is the one whose memories the backend holds, or "".
	Tenant string
	// Observe is told the route id, kind and duration of every request. Nil: nobody.
	Observe func(ctx context.Context, route, kind, verdict string, status int, d time.Duration)

	patterns face.Patterns
	follower *face.Follower
	gate     gate.Backend
}

// Options configure a Processor.
type Options struct {
	Gate *gate.Gate
	// Backends are the services. With only one, Envoy need not name it.
	Backends []Backend
	// UnfilteredReads lets Authorize admit reads, of which it cannot filter
	// the answers. Without it they are refused there.
	UnfilteredReads bool

	// Exchanges bounds the requests that are under way at once. Default
	// DefaultExchanges.
	Exchanges int

	// Clock measures durations. Default time.Now.
	Clock func() time.Time
	// After waits between questions about what became of a write. Default
	// time.After.
	After      func(time.Duration) <-chan time.Time
	Tracer     trace.Tracer
	Propagator propagation.TextMapPropagator
	Log        *slog.Logger
}

func (o *Options) complete() error {
	if o.Gate == nil || len(o.Backends) == 0 {
		return errors.New("extproc: a gate and a backend are required")
	}
	if o.Exchanges <= 0 {
		o.Exchanges = DefaultExchanges
	}
	if o.Clock == nil {
		o.Clock = time.Now
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
	return nil
}

func (b *Backend) complete() error {
	if b.Name == "" || b.Adapter == nil {
		return errors.New("extproc: a backend needs a name and an adapter")
	}
	if b.MaxBody <= 0 {
		b.MaxBody = DefaultMaxBody
	}
	if b.MaxAnswer <= 0 {
		b.MaxAnswer = DefaultMaxAnswer
	}
	if b.Observe == nil {
		b.Observe = func(context.Context, string, string, string, int, time.Duration) {}
	}
	var err error
	if b.patterns, err = face.ParsePatterns(b.Passthrough); err != nil {
		return fmt.Errorf("extproc: %w", err)
	}
	if b.Ungated == gate.UngatedCompensate {
		b.Ungated = gate.UngatedDeny
	}
	b.gate = gate.Backend{Name: b.Name, Adapter: b.Adapter, Fetch: b.Fetch, Ungated: b.Ungated, Tenant: b.Tenant}
	return nil
}
