package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy/telemetry/signal"
)

// Telemetry is the running telemetry. It is safe for concurrent use.
type Telemetry struct {
	opt            Options
	tracer         trace.Tracer
	records        log.Logger     // nil without a collector
	logs           *exportCounter // counts the exports of the records
	recent         *recent        // nil with a collector
	registry       *prometheus.Registry
	instruments    *signal.Instruments
	exportCounters []*exportCounter
	providers      []provider // flushed and shut down at the end
}

// provider is a provider of the SDK. The interface spares packages that import
// telemetry the compilation of the SDK's generic functions.
type provider interface {
	ForceFlush(context.Context) error
	Shutdown(context.Context) error
}

// Start sets up telemetry. It does not connect to the collector, which may be down.
func Start(ctx context.Context, opt Options) (*Telemetry, error) {
	opt.complete()
	t := &Telemetry{opt: opt, registry: prometheus.NewRegistry()}
	res, err := t.resource(ctx)
	if err != nil {
		return nil, err
	}
	for _, start := range [...]func(context.Context, *resource.Resource) error{t.startTraces, t.startMetrics, t.startLogs} {
		if err == nil {
			err = start(ctx, res)
		}
	}
	if err == nil {
		_, err = t.instruments.ObserveSource(t.reportExports)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("telemetry: %w", err), t.Shutdown(ctx))
	}
	return t, nil
}

// resource describes this process. OTEL_RESOURCE_ATTRIBUTES adds attributes, usually
// the names of the pod and its namespace.
func (t *Telemetry) resource(ctx context.Context) (*resource.Resource, error) {
	attrs := slices.DeleteFunc([]attribute.KeyValue{
		attribute.String("service.name", t.opt.ServiceName), attribute.String("service.version", t.opt.Version), attribute.String("service.instance.id", t.opt.Instance),
	}, func(kv attribute.KeyValue) bool { return kv.Value.AsString() == "" })
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithFromEnv(), resource.WithAttributes(attrs...))
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("telemetry: resource: %w", err)
	}
	return res, nil
}

// Tracer returns the tracer for gate and proxy.
func (t *Telemetry) Tracer() trace.Tracer { return t.tracer }

// Instruments returns the instruments that record the metrics.
func (t *Telemetry) Instruments() *signal.Instruments { return t.instruments }

// Propagator reads and writes W3C trace context (callers' tracestate excepted) and
// baggage.
func (t *Telemetry) Propagator() propagation.TextMapPropagator {
	return propagation.NewCompositeTextMapPropagator(withoutTraceState{}, propagation.Baggage{})
}

// Metrics serves the Prometheus metrics, with exemplars for scrapers that ask for
// OpenMetrics.
func (t *Telemetry) Metrics() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: 4,
		ErrorHandling:       promhttp.ContinueOnError,
	})
}

// Spans serves the recent requests as JSON. It is nil with a collector.
func (t *Telemetry) Spans() http.Handler {
	if t.recent == nil {
		return nil
	}
	return t.recent
}

// Flush exports pending signals.
func (t *Telemetry) Flush(ctx context.Context) error {
	return t.each(ctx, provider.ForceFlush)
}

// Shutdown exports pending signals and stops, within the context's deadline. Signals
// that are not exported by then are lost.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	return t.each(ctx, provider.Shutdown)
}

// each calls all providers concurrently, so that one that hangs does not delay the others.
func (t *Telemetry) each(ctx context.Context, do func(provider, context.Context) error) error {
	errs := make([]error, len(t.providers))
	var wg sync.WaitGroup
	for i, p := range t.providers {
		wg.Go(func() { errs[i] = do(p, ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
