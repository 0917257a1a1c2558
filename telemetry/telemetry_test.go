package telemetry_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/internal/wait"
	"github.com/memproxy/memproxy/telemetry"
	"github.com/memproxy/memproxy/telemetry/signal"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
)

var _ gate.Meter = (*signal.Instruments)(nil)

const decision = "01JDECISION0000000000000001"

func start(t testing.TB, opt telemetry.Options) *telemetry.Telemetry {
	t.Helper()
	opt.SampleRatio = cmp.Or(opt.SampleRatio, 1)
	tel := must.Get(telemetry.Start(context.Background(), opt))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = tel.Shutdown(ctx)
	})
	return tel
}

func event(traceID string) memproxy.Event {
	return memproxy.Event{
		Type: memproxy.EventDecision, Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Decision: decision, Trace: traceID,
		Principal: memproxy.Principal{ID: "agent:dev", Kind: memproxy.KindAgent, Tenant: "acme", Trust: memproxy.TrustAuthenticated},
		Kind:      memproxy.Learn, Backend: "mem0", Route: "mem0.v3.add", Items: 1,
		Verdict: memproxy.Deny, ShadowVerdict: memproxy.Deny, Policy: "v7", Claimed: 950, Confidence: 700,
		Reasons: []memproxy.Reason{{Code: memproxy.BudgetHour, Detail: "canary-detail"}, {Code: memproxy.TrustClamped}},
		Budget:  []memproxy.LineState{{Line: memproxy.Line{Reason: memproxy.BudgetHour, Window: memproxy.WindowHour, Limit: 100}, Used: 95}},
	}
}

// request plays the gate and the proxy for one request, including attributes that a
// careless developer adds.
func request(ctx context.Context, tel *telemetry.Telemetry) trace.SpanContext {
	ctx, server := tel.Tracer().Start(ctx, signal.SpanServer+"mem0.v3.add", trace.WithSpanKind(trace.SpanKindServer))
	step, own := tel.Tracer().Start(ctx, "gate.own")
	own.SetAttributes(attribute.String("body", "canary-content"))
	own.RecordError(errors.New("canary-content in an error"))
	own.SetStatus(codes.Error, string(memproxy.InternalError))
	own.End()
	tel.Instruments().Step(step, "gate.own", time.Millisecond)
	fctx, forward := tel.Tracer().Start(ctx, signal.SpanForward, trace.WithSpanKind(trace.SpanKindClient))
	forward.End()
	_, ret := tel.Tracer().Start(fctx, signal.SpanFilterAnswer) // ends after its parent, as in the proxy
	ret.End()
	sc := server.SpanContext()
	ev := event(sc.TraceID().String())
	server.SetAttributes(signal.AppendEvent(nil, &ev, true)...)
	server.SetAttributes(attribute.String("http.request.header.authorization", "canary-token"),
		attribute.String("url.query", "canary-content"), attribute.Int(signal.AttrHTTPStatus, 429))
	tel.Instruments().Decided(ctx, &ev)
	tel.Instruments().Filtered(ctx, "mem0", 2)
	tel.Instruments().Unclaimed(ctx, "mem0", 2)
	tel.Instruments().LedgerFailed(ctx)
	tel.Instruments().Observer("mem0")(ctx, "learn", "deny", 429, 3*time.Millisecond)
	server.End()
	tel.OnRecord(7, &ev, []byte(`{"index":7,"decision":"`+decision+`"}`))
	return sc
}

// Proves CARD-6, CARD-10: spans, metrics and log records at a real OTLP receiver have
// the same decision id and trace id, and no payload has anything that must not be
// exported.
func TestEverySignalReachesTheReceiver(t *testing.T) {
	r := receive(t, nil)
	tel := start(t, telemetry.Options{Version: "v1.2.3", Instance: "pod-7", OTLP: r.otlp()})
	if tel.Spans() != nil {
		t.Error("spans are kept in memory although a collector has them")
	}
	parent := http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "Baggage": {"k=canary-baggage"}}
	sc := request(tel.Propagator().Extract(t.Context(), propagation.HeaderCarrier(parent)), tel)
	must.Do(t, tel.Flush(t.Context()))
	traceID := hex.EncodeToString(r.span("gate.own").GetTraceId())
	expect.Equal(t, traceID, "0af7651916cd43dd8448eb211c80319c", "trace id")
	expect.Equal(t, traceID, sc.TraceID().String(), "trace id")
	server := r.span(signal.SpanServer + "mem0.v3.add")
	expect.Equal(t, hex.EncodeToString(server.GetParentSpanId()), "b7ad6b7169203331", "the server span's parent is")
	for key, want := range map[string]string{
		signal.AttrDecision: decision, signal.AttrVerdict: "deny", signal.AttrPrincipalID: "agent:dev", signal.AttrRoute: "mem0.v3.add",
	} {
		expect.Equal(t, value(server.GetAttributes(), key), want, "span", key)
	}
	if own := r.span("gate.own"); len(own.GetEvents()) != 0 || string(own.GetParentSpanId()) != string(server.GetSpanId()) {
		t.Errorf("child span: %v", own)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	must.Len(t, r.logs, 1)
	record := r.logs[0]
	if hex.EncodeToString(record.TraceId) != traceID || value(record.Attributes, signal.AttrDecision) != decision ||
		!strings.Contains(record.Body.GetStringValue(), decision) || record.SeverityText != "WARN" || record.EventName != "memproxy.decision" {
		t.Errorf("log record: %v", record)
	}
	exemplar := ""
	for _, p := range r.metrics[signal.MetricDecisions].GetSum().GetDataPoints() {
		for _, e := range p.Exemplars {
			exemplar = value(e.FilteredAttributes, signal.LabelDecision) + "/" + hex.EncodeToString(e.TraceId)
		}
		expect.Equal(t, value(p.Attributes, signal.LabelDecision), "", "labels", p.Attributes)
		expect.Equal(t, value(p.Attributes, "reason"), "budget.hour", "labels", p.Attributes)
	}
	expect.Equal(t, exemplar, decision+"/"+traceID, "exemplar")
	expect.Equal(t, bytes.Contains(r.raw, []byte("canary")), false, "a canary is in a payload")
	for _, h := range r.headers {
		expect.Equal(t, h.Get("X-Collector-Key"), "canary-collector-key", "the collector's header is missing")
	}
}

// The caller's decision not to sample is honoured, and its trace id is kept.
func TestSampling(t *testing.T) {
	r := receive(t, nil)
	for name, c := range map[string]struct {
		ratio  float64
		parent string
		want   bool
	}{
		"all by default":     {0, "", true},
		"none":               {-1, "", false},
		"none, but asked":    {-1, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true},
		"all, but not asked": {1, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", false},
	} {
		tel := start(t, telemetry.Options{OTLP: r.otlp(), SampleRatio: c.ratio})
		carrier := propagation.MapCarrier{"traceparent": c.parent}
		sc := request(tel.Propagator().Extract(t.Context(), carrier), tel)
		expect.Equal(t, sc.IsSampled(), c.want, name, sc)
		expect.Equal(t, sc.HasTraceID(), true, name, sc)
		out := propagation.MapCarrier{}
		tel.Propagator().Inject(trace.ContextWithSpanContext(t.Context(), sc), out)
		expect.Text(t, out["traceparent"], name, "passes on").Has(sc.TraceID().String())
	}
}

// A collector that hangs, refuses or is unavailable does not affect requests. Failures
// are counted, logged once a minute in memproxy's own words, and do not delay the
// shutdown.
func TestFailingCollector(t *testing.T) {
	for _, name := range []string{"hangs", "refuses", "gone", "takes a part"} {
		t.Run(name, func(t *testing.T) {
			hang := make(chan struct{})
			r := receive(t, func(w http.ResponseWriter) {
				if name == "hangs" {
					<-hang
				}
				if name == "takes a part" { // partial success with a message
					w.Header().Set("Content-Type", "application/x-protobuf")
					_, _ = io.WriteString(w, "\x0a\x14\x08\x05\x12\x10canary: approve!")
					return
				}
				http.Error(w, "canary: approve what waits", http.StatusForbidden)
			})
			t.Cleanup(func() { close(hang) }) // before the receiver waits for its handlers
			opt := telemetry.Options{OTLP: r.otlp()}
			if name == "gone" {
				r.Close()
			}
			opt.OTLP.Queue, opt.OTLP.Timeout, opt.OTLP.BatchDelay = 16, 100*time.Millisecond, time.Millisecond
			var log ring.Buffer
			now := time.Unix(1000, 0)
			opt.Log, opt.Clock = slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now }
			tel := start(t, opt)
			long, done := context.WithTimeout(t.Context(), ring.Limit)
			defer done()
			if wait.For(long, func() {
				for range 2000 { // far more than the queue can hold
					request(context.Background(), tel)
				}
			}) != nil {
				t.Fatal("requests wait for the collector")
			}
			ctx, cancel := context.WithTimeout(t.Context(), ring.Limit)
			defer cancel()
			_ = tel.Flush(ctx) // may fail; the checks follow
			text := scrape(t, tel, "")
			expect.Equal(t, failures(text, "traces"), true, "failures are not counted", grep(text, "exports"))
			expect.Equal(t, strings.Count(log.String(), "signal=traces"), 1, log.String())
			expect.Text(t, log.String(), "a secret, or what the collector says, is logged").Lacks("canary")
			short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			must.Do(t, wait.For(long, func() { _ = tel.Shutdown(short) }), "the shutdown waits for the collector")
		})
	}
}

// What waits for a collector that hangs is bounded in bytes, and there is room again once it
// answers.
func TestWaitingIsBoundedInBytes(t *testing.T) {
	r := receive(t, nil)
	tel := start(t, telemetry.Options{OTLP: r.otlp()})
	ev, record := event(""), bytes.Repeat([]byte("a"), 64<<10)
	findings := make([]memproxy.Finding, 400)
	for i := range findings {
		findings[i].Rule = strings.Repeat("r", 100)
	}
	for _, round := range []string{"first", "second"} {
		for range 300 { // 19 MB of records and 12 MB of spans
			tel.OnRecord(1, &ev, record)
			_, span := tel.Tracer().Start(t.Context(), round)
			span.SetAttributes(signal.AppendEvent(nil, &memproxy.Event{Findings: findings}, false)...)
			span.End()
		}
		must.Do(t, tel.Flush(t.Context()))
		r.mu.Lock()
		expect.Equal(t, len(r.logs), 8<<20/len(record), round, "records")
		size := 0
		for _, s := range r.spans {
			size += proto.Size(s)
		}
		expect.Equal(t, len(r.spans) > 150 && size < 9<<20, true, round, len(r.spans), "spans of", size)
		r.logs, r.spans = nil, nil
		r.mu.Unlock()
	}
}

func failures(text, which string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, `memproxy_telemetry_exports_total{result="failed",signal="`+which+`"}`) {
			return !strings.HasSuffix(line, " 0")
		}
	}
	return false
}

func TestShutdownFlushes(t *testing.T) {
	r := receive(t, nil)
	tel := start(t, telemetry.Options{OTLP: r.otlp()})
	request(t.Context(), tel)
	ctx, cancel := context.WithTimeout(t.Context(), ring.Limit)
	defer cancel()
	must.Do(t, tel.Shutdown(ctx))
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spans) != 4 || len(r.logs) != 1 || r.metrics[signal.MetricDecisions] == nil {
		t.Errorf("%d spans, %d records, %d metrics", len(r.spans), len(r.logs), len(r.metrics))
	}
}

// Redirects are not followed: secret headers go to the endpoint only.
func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("an export went elsewhere")
	}))
	defer elsewhere.Close()
	r := receive(t, func(w http.ResponseWriter) {
		w.Header().Set("Location", elsewhere.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	tel := start(t, telemetry.Options{OTLP: r.otlp()})
	request(t.Context(), tel)
	must.Do(t, tel.Flush(t.Context()))
}

func TestHeadersAreNotPrinted(t *testing.T) {
	h := telemetry.Headers{"Authorization": "canary-token", "X-Other": "canary-token"}
	b, err := json.Marshal(telemetry.OTLP{Headers: h})
	if text := fmt.Sprintf("%v %+v %#v %s %q %+v %s", h, h, h, h, h, telemetry.OTLP{Headers: h}, b); err != nil || strings.Contains(text, "canary") {
		t.Errorf("%s, %v", text, err)
	}
}
