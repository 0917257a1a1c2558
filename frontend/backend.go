package frontend

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/memproxy/memproxy/gate"
)

// Defaults of Backend.
const (
	// DefaultMaxBody has room for the largest batch that the hosted Mem0 API accepts
	// (1,000 memories) at 1 KiB each.
	DefaultMaxBody = 1 << 20
	// DefaultMaxAnswer limits an answer that must be read before it is returned.
	DefaultMaxAnswer = 16 << 20
)

// Backend is one memory service, for both listeners.
type Backend struct {
	// Backend is the gate's view. Its Fetch is the Side that sends memproxy's own requests;
	// if it is nil, nothing can be fetched.
	gate.Backend
	// Upstream is the base URL; a path in it is a prefix.
	Upstream *url.URL
	// Credential replaces the client's backend credential, if set.
	Credential *Credential
	// Passthrough are patterns "METHOD /path/*" of routes that the adapter does not know
	// and that access no memory.
	Passthrough []string
	// MaxBody limits a request's body, and MaxAnswer an answer that is read as a whole,
	// in bytes. Envoy's own buffers must be at least as large.
	MaxBody, MaxAnswer int64
	// InFlight limits the bytes of bodies and answers in memory. If it is nil, there is
	// no limit.
	InFlight *InFlight
	// Observe is called with the kind, verdict, status and duration of every request, if
	// it is not nil.
	Observe func(ctx context.Context, kind, verdict string, status int, d time.Duration)

	patterns Patterns // compiled from Passthrough
}

// Complete sets the defaults, and ReplacesCredential.
func (b *Backend) Complete() (err error) {
	if b.Adapter == nil || b.Name == "" {
		return errors.New("frontend: a backend requires a name and an adapter")
	}
	b.ReplacesCredential = b.Credential != nil
	b.MaxBody = cmp.Or(max(b.MaxBody, 0), DefaultMaxBody)
	b.MaxAnswer = cmp.Or(max(b.MaxAnswer, 0), DefaultMaxAnswer)
	if b.Observe == nil {
		b.Observe = func(context.Context, string, string, int, time.Duration) {}
	}
	b.patterns, err = ParsePatterns(b.Passthrough)
	return err
}

// Classify determines how a request to the backend is handled.
func (b *Backend) Classify(h Head) Class { return Classify(b.Adapter, b.patterns, h) }

// AdmittedHeaders returns the headers with which an admitted request is forwarded,
// without those that name what the caller may not see. In shadow mode an unidentified
// caller keeps its own credential, as it would without memproxy: it may be the backend's,
// and the backend rejects every other.
func (b *Backend) AdmittedHeaders(h http.Header, a *gate.Admission) http.Header {
	if a.Principal.ID == "" && a.Shadow() {
		return forwarded(h, a.Inspect)
	}
	out := b.RequestHeaders(h, a.Inspect, a.Principal.ID != "")
	maps.DeleteFunc(out, func(_ string, values []string) bool { return slices.ContainsFunc(values, a.ContainsHiddenID) })
	return out
}

// RequestHeaders returns the headers with which a request is forwarded, with the
// backend's credential if the caller is known. plain requests an answer without
// compression.
func (b *Backend) RequestHeaders(h http.Header, plain, known bool) http.Header {
	out := forwarded(h, plain)
	if known {
		b.Credential.Present(out)
	} else {
		b.Credential.Strip(out)
	}
	return out
}

func forwarded(h http.Header, plain bool) http.Header {
	out := make(http.Header, len(h)+2)
	CopyRequestHeaders(out, h)
	if plain {
		out["Accept-Encoding"] = []string{"identity"}
	}
	return out
}

// Runtime is a listener's clock, tracer and log.
type Runtime struct {
	// Clock measures durations and ages. The default is time.Now.
	Clock      func() time.Time
	Tracer     trace.Tracer
	Propagator propagation.TextMapPropagator
	Log        *slog.Logger
}

// Complete sets the defaults.
func (r *Runtime) Complete() {
	if r.Clock == nil {
		r.Clock = time.Now
	}
	r.Tracer = cmp.Or[trace.Tracer](r.Tracer, noop.Tracer{})
	r.Propagator = cmp.Or[propagation.TextMapPropagator](r.Propagator, propagation.TraceContext{})
	r.Log = cmp.Or(r.Log, slog.New(slog.DiscardHandler))
}
