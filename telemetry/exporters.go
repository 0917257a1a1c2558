package telemetry

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memproxy/memproxy/telemetry/signal"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// warnInterval is the minimum time between two warnings about failing exports of a signal.
const warnInterval = time.Minute

// exportCounter counts the exports of a signal. The exporters below never return an error,
// because OpenTelemetry's global error handler would log each.
type exportCounter struct {
	name                string
	offered, ok, failed atomic.Int64

	log   *slog.Logger
	clock func() time.Time
	mu    sync.Mutex
	last  time.Time
}

func (t *Telemetry) newExportCounter(name string) *exportCounter {
	o := &exportCounter{name: name, log: t.opt.Log, clock: t.opt.Clock}
	t.exportCounters = append(t.exportCounters, o)
	return o
}

func (t *Telemetry) reportExports(report signal.Observe) {
	if t.opt.Version != "" {
		report(signal.MetricBuild, 1, t.opt.Version, runtime.Version())
	}
	for _, o := range t.exportCounters {
		report(signal.MetricExports, o.offered.Load(), o.name, signal.ResultOffered)
		report(signal.MetricExports, o.ok.Load(), o.name, signal.ResultOK)
		report(signal.MetricExports, o.failed.Load(), o.name, signal.ResultFailed)
	}
}

func (o *exportCounter) sent(n int, err error) error {
	if err == nil {
		o.ok.Add(int64(n))
		return nil
	}
	failed := o.failed.Add(int64(n))
	now := o.clock()
	o.mu.Lock()
	due := o.last.IsZero() || now.Sub(o.last) >= warnInterval
	if due {
		o.last = now
	}
	o.mu.Unlock()
	if due {
		if strings.Contains(err.Error(), "partial success") {
			err = errPartialSuccess
		}
		o.log.Warn("telemetry not exported", "signal", o.name, "failed", failed, "setting", "telemetry.otlp", "error", err)
	}
	return nil
}

type spanExporter struct {
	sdktrace.SpanExporter
	out     *exportCounter
	allowed allowList
}

func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	clean := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, s := range spans {
		clean[i] = filteredSpan{s, e.allowed.attributes(s.Attributes())}
	}
	return e.out.sent(len(spans), e.SpanExporter.ExportSpans(ctx, clean))
}

type metricExporter struct {
	sdkmetric.Exporter
	out *exportCounter
}

// Export implements sdkmetric.Exporter. A batch is counted as one item.
func (e metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	e.out.offered.Add(1)
	return e.out.sent(1, e.Exporter.Export(ctx, m))
}

type logExporter struct {
	sdklog.Exporter
	out *exportCounter
}

func (e logExporter) Export(ctx context.Context, records []sdklog.Record) error {
	return e.out.sent(len(records), e.Exporter.Export(ctx, records))
}

// countingSpans counts the spans to be exported.
type countingSpans struct {
	out *exportCounter
	sdktrace.SpanProcessor
}

func (c countingSpans) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() {
		c.out.offered.Add(1)
	}
	c.SpanProcessor.OnEnd(s)
}
