package telemetry

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/memproxy/memproxy/telemetry/signal"
)

const (
	// maxRecent is the number of requests that are kept.
	maxRecent = 256
	// maxSteps limits the spans kept per request; a write usually has usualSteps.
	maxSteps   = 64
	usualSteps = 20
)

// recent keeps the last requests with their steps, for an installation without a
// collector. It is the tracer that records them and the HTTP handler that serves them. The
// SDK's spans, with everything that an exporter needs, would cost several times as much.
type recent struct {
	embedded.Tracer
	root    sdktrace.Sampler // the sampling decision for traces that begin here
	allowed allowList

	mu   sync.Mutex
	done []recentRequest // a ring buffer
	next int
}

// recentRequest is one server span.
type recentRequest struct {
	Trace      trace.TraceID  `json:"trace_id"`
	Span       trace.SpanID   `json:"span_id"`
	Name       string         `json:"name"`
	Start      time.Time      `json:"start"`
	Micros     int64          `json:"duration_us"`
	Failed     bool           `json:"failed,omitempty"`
	Attributes map[string]any `json:"attributes"`
	Steps      []recentStep   `json:"steps"`

	attrs []attribute.KeyValue // source of Attributes
}

type recentStep struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset_us"` // from the start of the request
	Micros int64  `json:"duration_us"`
	Failed bool   `json:"failed,omitempty"`
}

// recentSpan is a running request, or a span that is not kept because it is not sampled
// or not part of a request.
type recentSpan struct {
	noop.Span
	of   *recent
	sc   trace.SpanContext
	kept bool

	mu    sync.Mutex
	ended bool
	req   recentRequest
}

// stepSpan is a running step of a request. It is not put into the context, because
// steps have no ids: what is started within a step belongs to the request.
type stepSpan struct {
	noop.Span
	of    *recentSpan
	start time.Time
	ended bool // guarded by the request's lock, as is step
	step  recentStep
}

func (r *recent) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	psc := parent.SpanContext()
	c := trace.NewSpanStartConfig(opts...)
	server := c.SpanKind() == trace.SpanKindServer
	switch above, ok := parent.(*recentSpan); {
	case !ok, server && psc.IsSampled():
	case above.kept:
		return ctx, &stepSpan{of: above, start: time.Now(), step: recentStep{Name: name}}
	default:
		return ctx, above // the parent represents spans below it that are not kept either
	}
	s := &recentSpan{of: r, req: recentRequest{Name: name, Start: time.Now()}}
	id := trace.SpanID(random())
	if psc.IsValid() {
		s.sc = psc.WithSpanID(id).WithRemote(false)
	} else {
		s.sc = r.begin(ctx, name, id)
	}
	if s.kept = server && s.sc.IsSampled(); s.kept {
		s.req.Steps = make([]recentStep, 0, usualSteps) // not nil, which would encode as null
	}
	return trace.ContextWithSpan(ctx, s), s
}

func (r *recent) begin(ctx context.Context, name string, id trace.SpanID) trace.SpanContext {
	c := trace.SpanContextConfig{SpanID: id}
	high, low := random(), random()
	copy(c.TraceID[:8], high[:])
	copy(c.TraceID[8:], low[:])
	if r.root.ShouldSample(sdktrace.SamplingParameters{ParentContext: ctx, TraceID: c.TraceID, Name: name}).Decision == sdktrace.RecordAndSample {
		c.TraceFlags = trace.FlagsSampled
	}
	return trace.NewSpanContext(c)
}

// random returns half an id. It is never zero, which would be invalid.
func random() (b [8]byte) {
	binary.NativeEndian.PutUint64(b[:], max(1, rand.Uint64()))
	return b
}

func (s *recentSpan) SpanContext() trace.SpanContext { return s.sc }

// IsRecording implements trace.Span. It is false for a step: only name and time are kept.
func (s *recentSpan) IsRecording() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept && !s.ended
}

// SetStatus implements trace.Span. It drops the description, which could quote content.
func (s *recentSpan) SetStatus(code codes.Code, _ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.req.Failed = s.req.Failed || code == codes.Error
}

func (s *recentSpan) SetAttributes(list ...attribute.KeyValue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.kept || s.ended {
		return
	}
	s.req.attrs = slices.Grow(s.req.attrs, len(list))
	for _, kv := range s.of.allowed.attributes(list) {
		if len(s.req.attrs) < maxAttributes {
			s.req.attrs = append(s.req.attrs, attribute.KeyValue{Key: kv.Key, Value: short(kv.Value)})
		}
	}
}

func short(v attribute.Value) attribute.Value {
	switch v.Type() {
	case attribute.STRING:
		return attribute.StringValue(cut(v.AsString()))
	case attribute.STRINGSLICE:
		list := v.AsStringSlice()
		for i := range list {
			list[i] = cut(list[i])
		}
		return attribute.StringSliceValue(list)
	}
	return v
}

func cut(s string) string {
	if len(s) <= maxAttribute {
		return s
	}
	return strings.ToValidUTF8(s[:maxAttribute], "")
}

func (s *recentSpan) End(...trace.SpanEndOption) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.kept || s.ended {
		return
	}
	s.ended = true
	s.req.Trace, s.req.Span = s.sc.TraceID(), s.sc.SpanID()
	s.req.Micros = time.Since(s.req.Start).Microseconds()
	s.of.keep(s.req)
}

func (s *stepSpan) SpanContext() trace.SpanContext { return s.of.sc }

func (s *stepSpan) SetStatus(code codes.Code, _ string) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.step.Failed = s.step.Failed || code == codes.Error
}

// End implements trace.Span. A step that ends after its request is dropped.
func (s *stepSpan) End(...trace.SpanEndOption) {
	took := time.Since(s.start).Microseconds()
	r := s.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.ended || r.ended || len(r.req.Steps) >= maxSteps {
		return
	}
	s.ended = true
	s.step.Offset, s.step.Micros = s.start.Sub(r.req.Start).Microseconds(), took
	r.req.Steps = append(r.req.Steps, s.step)
}

func (r *recent) keep(req recentRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.done) < maxRecent {
		r.done = append(r.done, req)
		return
	}
	r.done[r.next] = req
	r.next = (r.next + 1) % len(r.done)
}

func (r *recent) list(decision string) []recentRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]recentRequest, 0, len(r.done))
	for i := range r.done {
		req := r.done[(r.next+len(r.done)-1-i)%len(r.done)]
		req.Attributes = make(map[string]any, len(req.attrs))
		for _, kv := range req.attrs {
			req.Attributes[string(kv.Key)] = kv.Value.AsInterface()
		}
		if decision == "" || req.Attributes[signal.AttrDecision] == decision {
			out = append(out, req)
		}
	}
	return out
}

// ServeHTTP serves the recent requests as JSON, newest first; "?decision=ID" selects one.
func (r *recent) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(r.list(q.URL.Query().Get("decision"))) // the reader may have disconnected
}
