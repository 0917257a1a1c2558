package telemetry

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/memproxy/memproxy/telemetry/signal"
)

// Limits of a span's attributes. They are ids and codes, so longer ones are an attack
// or a bug.
const (
	maxAttribute  = 256
	maxAttributes = 64
)

// spanBatch limits the spans of one export. A request has about ten, so the usual 512 would be only
// fifty requests.
const spanBatch = 2048

// spansPerRecord is how many spans may wait for each record that may: a request has ten spans and
// two or three records. The SDK allocates room for all waiting records, 640 bytes each, in advance.
const spansPerRecord = 4

// client returns the HTTP client of the exporters. It follows no redirects, because the
// headers contain secrets for the endpoint alone.
func (o *OTLP) client() *http.Client {
	return &http.Client{
		Transport:     statusOnly{http.DefaultTransport.(*http.Transport).Clone()},
		Timeout:       o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// statusOnly reduces an error response to its status, because exporters quote the body in
// errors, which are logged.
type statusOnly struct{ http.RoundTripper }

func (w statusOnly) RoundTrip(q *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(q)
	if err == nil && resp.StatusCode/100 != 2 {
		_ = resp.Body.Close()
		resp.Body, resp.Status = http.NoBody, strconv.Itoa(resp.StatusCode)
	}
	return resp, err
}

// errPartialSuccess replaces the error of a partial success, which quotes the collector.
var errPartialSuccess = errors.New("the collector rejected part of the batch")

// Exports are uncompressed unless OTEL_EXPORTER_OTLP_COMPRESSION is set: a sidecar's
// collector is nearby, and gzip would cost more than all spans of a request.

func (t *Telemetry) startTraces(ctx context.Context, res *resource.Resource) error {
	root := sdktrace.NeverSample()
	if t.opt.SampleRatio > 0 {
		root = sdktrace.TraceIDRatioBased(t.opt.SampleRatio)
	}
	o, allowed := &t.opt.OTLP, newAllowList()
	if o.Endpoint == "" {
		t.recent = &recent{root: root, allowed: allowed}
		t.tracer = t.recent
		return nil
	}
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(o.Endpoint+"/v1/traces"),
		otlptracehttp.WithHeaders(o.Headers),
		otlptracehttp.WithHTTPClient(o.client()),
		otlptracehttp.WithTimeout(o.Timeout),
	)
	if err != nil {
		return err
	}
	out := t.newExportCounter("traces", o.Queue)
	batch := sdktrace.NewBatchSpanProcessor(spanExporter{exporter, out, allowed},
		sdktrace.WithMaxQueueSize(o.Queue),
		sdktrace.WithMaxExportBatchSize(spanBatch),
		sdktrace.WithBatchTimeout(o.BatchDelay),
		sdktrace.WithExportTimeout(o.Timeout),
	)
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxAttribute
	limits.AttributeCountLimit = maxAttributes
	limits.EventCountLimit = 0 // an event could quote an error, and an error content
	traces := sdktrace.NewTracerProvider(
		sdktrace.WithResource(res),
		sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithSampler(sdktrace.ParentBased(root)),
		sdktrace.WithSpanProcessor(countingSpans{out, batch}),
	)
	t.tracer, t.providers = traces.Tracer(signal.Scope), append(t.providers, traces)
	return nil
}

func (t *Telemetry) startMetrics(ctx context.Context, res *resource.Resource) error {
	process := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	t.registry.MustRegister(collectors.NewGoCollector(), process)
	// The reader behind /metrics. Names have the same spelling for every scraper, because
	// dashboards depend on it.
	scrape, err := promexporter.New(
		promexporter.WithRegisterer(t.registry),
		promexporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
		promexporter.WithoutScopeInfo(),
	)
	if err != nil {
		return err
	}
	options := []sdkmetric.Option{
		sdkmetric.WithResource(res), sdkmetric.WithReader(scrape), sdkmetric.WithView(sdkmetric.NewView(
			// The decision id is on the exemplar only.
			sdkmetric.Instrument{Name: signal.MetricDecisions},
			sdkmetric.Stream{AttributeFilter: attribute.NewDenyKeysFilter(signal.LabelDecision)},
		)),
	}
	if o := &t.opt.OTLP; o.Endpoint != "" {
		exporter, err := otlpmetrichttp.New(ctx,
			otlpmetrichttp.WithEndpointURL(o.Endpoint+"/v1/metrics"),
			otlpmetrichttp.WithHeaders(o.Headers),
			otlpmetrichttp.WithHTTPClient(o.client()),
			otlpmetrichttp.WithTimeout(o.Timeout),
		)
		if err != nil {
			return err
		}
		reader := sdkmetric.NewPeriodicReader(metricExporter{exporter, t.newExportCounter("metrics", 1)},
			sdkmetric.WithInterval(o.MetricInterval),
			sdkmetric.WithTimeout(o.Timeout),
		)
		options = append(options, sdkmetric.WithReader(reader))
	}
	metrics := sdkmetric.NewMeterProvider(options...)
	t.providers = append(t.providers, metrics)
	t.instruments, err = signal.NewInstruments(metrics.Meter(signal.Scope))
	return err
}

func (t *Telemetry) startLogs(ctx context.Context, res *resource.Resource) error {
	o := &t.opt.OTLP
	if o.Endpoint == "" {
		return nil
	}
	exporter, err := otlploghttp.New(ctx,
		otlploghttp.WithEndpointURL(o.Endpoint+"/v1/logs"),
		otlploghttp.WithHeaders(o.Headers),
		otlploghttp.WithHTTPClient(o.client()),
		otlploghttp.WithTimeout(o.Timeout),
	)
	if err != nil {
		return err
	}
	queue := max(1, o.Queue/spansPerRecord)
	t.logs = t.newExportCounter("logs", queue)
	processor := sdklog.NewBatchProcessor(logExporter{exporter, t.logs},
		sdklog.WithMaxQueueSize(queue),
		sdklog.WithExportMaxBatchSize(spanBatch/spansPerRecord),
		sdklog.WithExportInterval(o.BatchDelay),
		sdklog.WithExportTimeout(o.Timeout),
	)
	logs := sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(processor))
	t.records, t.providers = logs.Logger(signal.Scope), append(t.providers, logs)
	return nil
}
