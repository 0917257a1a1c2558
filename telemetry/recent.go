package telemetry

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/memproxy/memproxy/telemetry/signal"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// maxOpen bounds the traces of which spans wait for their server span.
	maxOpen = 4096
	// maxSteps bounds the spans that are kept of one trace.
	maxSteps = 64
	// usualSteps is how many spans a request has below it.
	usualSteps = 13
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
	Trace      trace.TraceID  `json:"trace_id"`
	Span       trace.SpanID   `json:"span_id"`
	Name       string         `json:"name"`
	Start      time.Time      `json:"start"`
	Micros     int64          `json:"duration_us"`
	Failed     bool           `json:"failed,omitempty"`
	Attributes map[string]any `json:"attributes"`
	Steps      []recentStep   `json:"steps"`

	attrs []attribute.KeyValue // Attributes, until somebody asks
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
	if steps == nil {
		steps = make([]recentStep, 0, usualSteps)
	}
	r.open[sc.TraceID()] = append(steps, step)
}

func (r *recent) close(s sdktrace.ReadOnlySpan) {
	sc := s.SpanContext()
	req := recentRequest{
		Trace: sc.TraceID(), Span: sc.SpanID(), Name: s.Name(), Start: s.StartTime(),
		Micros: s.EndTime().Sub(s.StartTime()).Microseconds(), Failed: s.Status().Code == codes.Error,
		attrs: r.fence.attributes(s.Attributes()),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var others []recentStep
	req.Steps, others = below(sc.SpanID(), r.open[sc.TraceID()])
	for i := range req.Steps {
		req.Steps[i].Offset = req.Steps[i].start.Sub(req.Start).Microseconds()
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

// below parts the spans below root from the others: one trace may have several
// requests at once. A child may end before or after its parent, so it takes
// some rounds. Both keep their order; mine is in the place of steps.
func below(root trace.SpanID, steps []recentStep) (mine, others []recentStep) {
	var array [maxSteps]bool
	is := array[:len(steps)]
	found := 0
	for before := -1; found > before; {
		before = found
		for i := range steps {
			if is[i] {
				continue
			}
			if p := parent(steps, i); steps[i].parent == root || p >= 0 && is[p] {
				is[i] = true
				found++
			}
		}
	}
	mine = steps[:0]
	for i, step := range steps {
		if is[i] {
			mine = append(mine, step)
		} else {
			others = append(others, step)
		}
	}
	return mine, others
}

// parent returns the index of a step's parent among steps, or -1.
func parent(steps []recentStep, i int) int {
	for j := range steps {
		if steps[j].span == steps[i].parent {
			return j
		}
	}
	return -1
}

// list returns the requests, newest first, of one decision if it is named.
func (r *recent) list(decision string) []recentRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]recentRequest, 0, len(r.done))
	for i := range r.done {
		req := r.done[(r.next+len(r.done)-1-i)%len(r.done)]
		req.Attributes = make(map[string]any, len(req.attrs))
		if req.Steps == nil {
			req.Steps = []recentStep{} // "none", not null
		}
		for _, kv := range req.attrs {
			req.Attributes[string(kv.Key)] = kv.Value.AsInterface()
		}
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
