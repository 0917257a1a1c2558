package telemetry

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/memproxy/memproxy/telemetry/signal"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// maxOpen bounds the traces of which spans wait for their server span.
	maxOpen = 4096
	// maxSteps bounds the spans that are kept of one trace.
	maxSteps = 64
)

// recent keeps the last requests, each with its steps, for an installation
// without a collector. It is a span processor and the handler that serves them.
type recent struct {
	fence fence

	mu   sync.Mutex
	done []recentRequest // a ring
	next int
	open map[trace.TraceID][]recentStep // steps whose request has not ended
}

// recentRequest is one server span.
type recentRequest struct {
	Trace      string         `json:"trace_id"`
	Span       string         `json:"span_id"`
	Name       string         `json:"name"`
	Start      time.Time      `json:"start"`
	Micros     int64          `json:"duration_us"`
	Failed     bool           `json:"failed,omitempty"`
	Attributes map[string]any `json:"attributes"`
	Steps      []recentStep   `json:"steps"`
}

// recentStep is a span below one.
type recentStep struct {
	Name   string `json:"name"`
	Offset int64  `json:"offset_us"` // from the start of the request
	Micros int64  `json:"duration_us"`
	Failed bool   `json:"failed,omitempty"`

	start        time.Time
	span, parent trace.SpanID
}

func newRecent(size int, f fence) *recent {
	return &recent{fence: f, done: make([]recentRequest, 0, size), open: map[trace.TraceID][]recentStep{}}
}

// OnStart implements sdktrace.SpanProcessor.
func (*recent) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements sdktrace.SpanProcessor.
func (r *recent) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanKind() == trace.SpanKindServer {
		r.close(s)
		return
	}
	sc := s.SpanContext()
	step := recentStep{
		Name: s.Name(), Micros: s.EndTime().Sub(s.StartTime()).Microseconds(), Failed: s.Status().Code == codes.Error,
		start: s.StartTime(), span: sc.SpanID(), parent: s.Parent().SpanID(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := r.open[sc.TraceID()]
	if len(steps) >= maxSteps {
		return
	}
	if steps == nil && len(r.open) >= maxOpen {
		clear(r.open) // spans without a request; nothing that is looked for
	}
	r.open[sc.TraceID()] = append(steps, step)
}

func (r *recent) close(s sdktrace.ReadOnlySpan) {
	sc := s.SpanContext()
	attrs := r.fence.attributes(s.Attributes())
	req := recentRequest{
		Trace: sc.TraceID().String(), Span: sc.SpanID().String(), Name: s.Name(), Start: s.StartTime(),
		Micros: s.EndTime().Sub(s.StartTime()).Microseconds(), Failed: s.Status().Code == codes.Error,
		Attributes: make(map[string]any, len(attrs)), Steps: []recentStep{},
	}
	for _, kv := range attrs {
		req.Attributes[string(kv.Key)] = kv.Value.AsInterface()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := r.open[sc.TraceID()]
	mine := below(sc.SpanID(), steps)
	var others []recentStep
	for _, step := range steps {
		if !mine[step.span] {
			others = append(others, step)
			continue
		}
		step.Offset = step.start.Sub(req.Start).Microseconds()
		req.Steps = append(req.Steps, step)
	}
	if len(others) > 0 {
		r.open[sc.TraceID()] = others
	} else {
		delete(r.open, sc.TraceID())
	}
	if len(r.done) < cap(r.done) {
		r.done = append(r.done, req)
		return
	}
	r.done[r.next] = req
	r.next = (r.next + 1) % len(r.done)
}

// below returns the spans below root: one trace may have several requests at
// once. A child may end before or after its parent, so it takes some rounds.
func below(root trace.SpanID, steps []recentStep) map[trace.SpanID]bool {
	mine := map[trace.SpanID]bool{root: true}
	for grown := true; grown; {
		grown = false
		for i := range steps {
			if mine[steps[i].parent] && !mine[steps[i].span] {
				mine[steps[i].span], grown = true, true
			}
		}
	}
	return mine
}

// list returns the requests, newest first, of one decision if it is named.
func (r *recent) list(decision string) []recentRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]recentRequest, 0, len(r.done))
	for i := range r.done {
		req := r.done[(r.next+len(r.done)-1-i)%len(r.done)]
		if decision == "" || req.Attributes[signal.AttrDecision] == decision {
			out = append(out, req)
		}
	}
	return out
}

// ServeHTTP serves the recent requests as JSON, newest first; "?decision=ID"
// picks one.
func (r *recent) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(r.list(q.URL.Query().Get("decision"))) // the reader may be gone
}

// Shutdown implements sdktrace.SpanProcessor.
func (*recent) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdktrace.SpanProcessor.
func (*recent) ForceFlush(context.Context) error { return nil }
