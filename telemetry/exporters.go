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

// maxWaiting limits the bytes of a signal that wait for the collector or are being sent to it.
const maxWaiting = 8 << 20

// exportCounter counts the exports of a signal. The exporters below never return an error,
// because OpenTelemetry's global error handler would log each.
//
// It also enforces maxWaiting. Each item takes at least a share of it, of which there are no
// more than places in the SDK's queue. So that queue is never full, and drops nothing that is
// counted as waiting.
type exportCounter struct {
	name                string
	offered, ok, failed atomic.Int64
	waiting             atomic.Int64 // bytes
	share               int64

	log   *slog.Logger
	clock func() time.Time
	mu    sync.Mutex
	last  time.Time
}

func (t *Telemetry) newExportCounter(name string, queue int) *exportCounter {
	o := &exportCounter{name: name, share: (maxWaiting + int64(queue) - 1) / int64(queue), log: t.opt.Log, clock: t.opt.Clock}
	t.exportCounters = append(t.exportCounters, o)
	return o
}

// offer reports whether there is room for an item of a size, which then waits.
func (o *exportCounter) offer(size int64) bool {
	o.offered.Add(1)
	size = max(size, o.share)
	fits := o.waiting.Add(size) <= maxWaiting
	if !fits {
		o.waiting.Add(-size)
	}
	return fits
}

// done makes room after an export.
func (o *exportCounter) done(size int64) { o.waiting.Add(-max(size, o.share)) }

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
	defer func() {
		for _, s := range spans {
			e.out.done(sizeOfSpan(s))
		}
	}()
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
	err := e.Exporter.Export(ctx, records)
	for i := range records {
		e.out.done(int64(len(records[i].Body().AsString())))
	}
	return e.out.sent(len(records), err)
}

// countingSpans counts the spans to be exported, and drops those for which there is no room.
type countingSpans struct {
	out *exportCounter
	sdktrace.SpanProcessor
}

func (c countingSpans) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() && c.out.offer(sizeOfSpan(s)) {
		c.SpanProcessor.OnEnd(s)
	}
}

// sizeOfSpan is the size of a span's texts; the rest is always smaller than its share.
func sizeOfSpan(s sdktrace.ReadOnlySpan) (n int64) {
	for _, kv := range s.Attributes() {
		n += int64(len(kv.Value.AsString()))
		for _, text := range kv.Value.AsStringSlice() {
			n += int64(len(text))
		}
	}
	return n
}
