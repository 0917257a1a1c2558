package telemetry_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/telemetry"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// kept is a recent request, as it is served.
type kept struct {
	Trace      string `json:"trace_id"`
	Name       string
	Failed     bool
	Attributes map[string]any
	Steps      []struct {
		Name   string
		Failed bool
	}
}

// recent reads the recent requests.
func recent(t *testing.T, tel *telemetry.Telemetry, query string) (out []kept) {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Spans().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/spans"+query, nil))
	expect.Text(t, w.Body.String(), "a canary", w.Body).Lacks("canary")
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &out))
	return out
}

// Proves CARD-6: without a collector the last requests are available.
func TestRecentRequests(t *testing.T) {
	tel := start(t, telemetry.Options{})
	expect.Len(t, recent(t, tel, ""), 0, "before any request")
	var last trace.SpanContext
	for range 300 {
		last = request(t.Context(), tel)
	}
	got := recent(t, tel, "")
	if len(got) != 256 || got[0].Trace != last.TraceID().String() || len(got[0].Steps) != 3 || got[0].Attributes[signal.AttrDecision] != decision {
		t.Errorf("got %+v", got)
	}
	expect.Len(t, recent(t, tel, "?decision="+decision), 256, "by decision")
	expect.Len(t, recent(t, tel, "?decision=other"), 0, "by another decision")
}

// A recent request continues its caller's trace like the SDK's spans, is kept only if
// it is sampled, has one id with its steps, and drops long values and steps that end
// after it.
func TestRecentRequestIsASpan(t *testing.T) {
	for name, c := range map[string]struct {
		ratio   float64
		parent  trace.TraceFlags
		sampled bool
	}{
		"the caller's is sampled":     {ratio: -1, parent: trace.FlagsSampled, sampled: true},
		"the caller's is not sampled": {ratio: 1, parent: 0, sampled: false},
	} {
		tel := start(t, telemetry.Options{SampleRatio: c.ratio})
		remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{7}, SpanID: trace.SpanID{8}, TraceFlags: c.parent, Remote: true})
		ctx, server := tel.Tracer().Start(trace.ContextWithRemoteSpanContext(t.Context(), remote), "server", trace.WithSpanKind(trace.SpanKindServer))
		_, late := tel.Tracer().Start(ctx, "late")
		_, step := tel.Tracer().Start(ctx, "step")
		sc := step.SpanContext()
		if sc.TraceID() != remote.TraceID() || sc.SpanID() != server.SpanContext().SpanID() || sc.SpanID() == remote.SpanID() || sc.IsRemote() || sc.IsSampled() != c.sampled {
			t.Errorf("%s: %+v", name, sc)
		}
		server.SetAttributes(attribute.String(signal.AttrDecision, strings.Repeat("é", 400)), attribute.StringSlice(signal.AttrReasons, []string{strings.Repeat("x", 400)}))
		step.SetStatus(codes.Error, "")
		step.End()
		step.End()
		server.End()
		server.SetAttributes(attribute.String(signal.AttrEventType, "too late"))
		server.End()
		late.End()
		var got []string
		for _, r := range recent(t, tel, "") {
			got = append(got, fmt.Sprintf("%s %v %v %v", r.Name, r.Failed, r.Attributes, r.Steps))
		}
		want := "[]"
		if c.sampled {
			want = fmt.Sprintf("[server false map[%s:%s %s:[%s]] [{step true}]]", signal.AttrDecision, strings.Repeat("é", 128), signal.AttrReasons, strings.Repeat("x", 256))
		}
		expect.Equal(t, fmt.Sprint(got), want, name)
	}
}

// Two requests of one trace have separate steps.
func TestRecentRequestsOfOneTrace(t *testing.T) {
	tel := start(t, telemetry.Options{})
	ctx, outer := tel.Tracer().Start(t.Context(), "client")
	begin := func(step string) func() {
		ctx, server := tel.Tracer().Start(ctx, signal.SpanServer+step, trace.WithSpanKind(trace.SpanKindServer))
		_, child := tel.Tracer().Start(ctx, step)
		child.End()
		return func() { server.End() }
	}
	first, second := begin("one"), begin("two")
	first()
	second()
	outer.End()
	var got []string
	for _, r := range recent(t, tel, "") {
		got = append(got, fmt.Sprintf("%s %v", r.Name, r.Steps))
	}
	expect.Equal(t, fmt.Sprint(got), "[memproxy two [{two false}] memproxy one [{one false}]]")
}
