package telemetry_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/telemetry"
	"github.com/memproxy/memproxy/telemetry/signal"
	"go.opentelemetry.io/otel/trace"
)

func scrape(t *testing.T, tel *telemetry.Telemetry, accept string) string {
	t.Helper()
	q := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	q.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	tel.Metrics().ServeHTTP(w, q)
	must.Equal(t, w.Code, http.StatusOK, w.Body)
	return w.Body.String()
}

func grep(text, part string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, part) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

const openMetrics = "application/openmetrics-text; version=1.0.0"

// The memproxy metrics on /metrics are exactly those of the catalogue, with its names
// and labels.
// Proves CARD-6.
func TestMetricsAreTheCatalogue(t *testing.T) {
	r := receive(t, nil)
	tel := start(t, telemetry.Options{Version: "v1", OTLP: r.otlp()})
	request(t.Context(), tel)
	in := tel.Instruments()
	degraded := event("")
	degraded.Degraded = true
	in.Decided(t.Context(), &degraded)
	in.Reloaded(t.Context(), true)
	in.Reloaded(t.Context(), false)
	version := "rules-1"
	stop := must.Get(in.ObserveSource(func(observe signal.Observe) {
		observe(signal.MetricAuditLag, 3, signal.StateQueued)
		observe(signal.MetricAuditLag, 4, signal.StateUnsigned)
		observe(signal.MetricRules, 1, version)
		observe(signal.MetricUnsafe, 1, "enforce")
		observe(signal.MetricSealed, 1, "mem0")
		observe(signal.MetricSealed, 0, "letta")
		observe(signal.MetricHoldAge, 90_000)
		observe(signal.MetricUnscreened, 5, "judge", signal.ResultFailed)
		observe(signal.MetricConnections, 1, "mem0", signal.ResultRefused)
		observe(signal.MetricConnections, 2, "mem0", signal.ResultEvicted)
		observe(signal.MetricInFlight, 3, "mem0")
		observe(signal.MetricInFlightRefused, 4, "mem0")
	}))(t)
	seen := map[string]map[string]bool{}
	for line := range strings.SplitSeq(scrape(t, tel, ""), "\n") {
		if !strings.HasPrefix(line, "memproxy_") {
			continue
		}
		name, rest, _ := strings.Cut(line, "{")
		if rest == "" {
			name, _, _ = strings.Cut(line, " ")
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		if seen[name] == nil {
			seen[name] = map[string]bool{}
		}
		labels, _, _ := strings.Cut(rest, "}")
		for pair := range strings.SplitSeq(labels, ",") {
			if key, _, ok := strings.Cut(pair, "="); ok && key != "le" {
				seen[name][key] = true
			}
		}
	}
	want := map[string]bool{}
	for _, m := range signal.Metrics() {
		want[m.Prometheus] = true
		got := slices.Sorted(maps.Keys(seen[m.Prometheus]))
		if seen[m.Prometheus] == nil || !slices.Equal(got, slices.Sorted(slices.Values(m.Labels))) {
			t.Errorf("%s (%s): labels %v, want %v", m.Prometheus, m.Name, got, m.Labels)
		}
	}
	for name := range seen {
		expect.Equal(t, want[name], true, name, "is not in the catalogue")
	}
	version = "rules-2"
	expect.Text(t, grep(scrape(t, tel, ""), "memproxy_rules_info{"), "after a reload").Has("rules-2").Lacks("rules-1")
	must.Do(t, stop())
	expect.Equal(t, grep(scrape(t, tel, ""), "memproxy_rules_info{"), "", "after stop")
	expect.Text(t, scrape(t, tel, ""), "runtime metrics are missing, or a canary is there").Has("go_goroutines", "process_").Lacks("canary")
}

// Proves CARD-10: the exemplar of a metric has its trace and decision.
func TestExemplars(t *testing.T) {
	tel := start(t, telemetry.Options{})
	sc := request(t.Context(), tel)
	text := scrape(t, tel, openMetrics)
	expect.Text(t, grep(text, "memproxy_decisions_total{"), "no exemplar").Has(`trace_id="`+sc.TraceID().String()+`"`, `decision_id="`+decision+`"`)
	expect.Text(t, grep(text, "memproxy_request_duration_seconds_bucket"), "no exemplar on the duration").Has(sc.TraceID().String())
}

// Labels with external values cannot grow the metrics without bound.
func TestLabelsAreBounded(t *testing.T) {
	tel := start(t, telemetry.Options{SampleRatio: -1})
	ev := event("")
	ev.Budget = nil
	for i := range 5000 {
		ev.Reasons = []memproxy.Reason{{Code: memproxy.ReasonCode("policy." + strconv.Itoa(i))}}
		tel.Instruments().Decided(t.Context(), &ev)
	}
	text := grep(scrape(t, tel, ""), "memproxy_decisions_total{")
	if n := strings.Count(text, "\n") + 1; n > 1001 {
		t.Errorf("%d series", n)
	}
	expect.Text(t, grep(text, `reason="other"`), "the rest is not counted").Has(" 4000")
	expect.Text(t, grep(text, `reason="other"`), "the rest is counted under a verdict that it did not have").Has(`verdict="other",would="other"`)
}

func TestInstrumentsAtOnce(t *testing.T) {
	tel := start(t, telemetry.Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				request(context.Background(), tel)
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			scrape(t, tel, openMetrics)
		}
	})
	wg.Wait()
	expect.Equal(t, strings.HasSuffix(grep(scrape(t, tel, ""), "memproxy_decisions_total{"), " 1600"), true)
}

func BenchmarkInstruments(b *testing.B) {
	tel := start(b, telemetry.Options{})
	in := tel.Instruments()
	plain := event("")
	plain.Budget = nil
	charged := event("")
	sampled := trace.ContextWithSpanContext(b.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
	}))
	for name, run := range map[string]func(){
		"step":            func() { in.Step(b.Context(), "gate.own", time.Millisecond) },
		"step/sampled":    func() { in.Step(sampled, "gate.own", time.Millisecond) },
		"decided":         func() { in.Decided(b.Context(), &plain) },
		"decided/sampled": func() { in.Decided(sampled, &plain) },
		"decided/charged": func() { in.Decided(b.Context(), &charged) },
		"request":         func() { in.Observer("mem0")(b.Context(), "learn", "deny", 429, time.Millisecond) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}

func BenchmarkRequestSpans(b *testing.B) {
	tel := start(b, telemetry.Options{})
	for b.Loop() {
		ctx, server := tel.Tracer().Start(b.Context(), "memproxy x", trace.WithSpanKind(trace.SpanKindServer))
		for range 11 {
			_, s := tel.Tracer().Start(ctx, "gate.own")
			s.End()
		}
		server.End()
	}
}

// Counters whose first increment raises an alert are exported as zero from the start.
// Proves CARD-10.
func TestRareCountersBeginAtZero(t *testing.T) {
	tel := start(t, telemetry.Options{Version: "v1"})
	tel.Instruments().Observer("mem0")
	got := scrape(t, tel, "")
	for _, want := range []string{
		`memproxy_budget_degraded_total{backend="mem0"} 0`, `memproxy_audit_records_total{type="repair"} 0`, `memproxy_audit_records_total{type="chain_break"} 0`,
		`memproxy_audit_records_total{type="integrity"} 0`, `memproxy_reloads_total{result="refused"} 0`, `memproxy_ledger_errors_total 0`,
	} {
		expect.Equal(t, regexp.MustCompile("(?m)^"+regexp.QuoteMeta(want)+`(\.0)?$`).MatchString(strings.ReplaceAll(got, `otel_scope_name="memproxy",`, "")), true, "no", want)
	}
}
