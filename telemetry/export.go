package telemetry

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/prometheus/otlptranslator"
)

// exportBatch limits the spans or records of one export. A request has about ten spans,
// so the usual 512 would be only fifty requests.
const exportBatch = 2048

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

// prometheus returns the reader behind /metrics. Names have the same spelling for every
// scraper, because dashboards depend on it.
func (t *Telemetry) prometheus() (sdkmetric.Reader, error) {
	return promexporter.New(
		promexporter.WithRegisterer(t.registry),
		promexporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
		promexporter.WithoutScopeInfo(),
	)
}

// Exports are uncompressed unless OTEL_EXPORTER_OTLP_COMPRESSION is set: a sidecar's
// collector is nearby, and gzip would cost more than all spans of a request.

func (t *Telemetry) exportTraces(ctx context.Context, f allowList) (sdktrace.SpanProcessor, error) {
	o := &t.opt.OTLP
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(o.Endpoint+"/v1/traces"),
		otlptracehttp.WithHeaders(o.Headers),
		otlptracehttp.WithHTTPClient(o.client()),
		otlptracehttp.WithTimeout(o.Timeout),
	)
	if err != nil {
		return nil, err
	}
	out := t.outlet("traces")
	return countingSpans{out, sdktrace.NewBatchSpanProcessor(spanExporter{exporter, out, f},
		sdktrace.WithMaxQueueSize(o.Queue),
		sdktrace.WithMaxExportBatchSize(exportBatch),
		sdktrace.WithBatchTimeout(o.BatchDelay),
		sdktrace.WithExportTimeout(o.Timeout),
	)}, nil
}

func (t *Telemetry) exportMetrics(ctx context.Context) (sdkmetric.Reader, error) {
	o := &t.opt.OTLP
	exporter, err := otlpmetrichttp.New(ctx,
		otlpmetrichttp.WithEndpointURL(o.Endpoint+"/v1/metrics"),
		otlpmetrichttp.WithHeaders(o.Headers),
		otlpmetrichttp.WithHTTPClient(o.client()),
		otlpmetrichttp.WithTimeout(o.Timeout),
	)
	if err != nil {
		return nil, err
	}
	return sdkmetric.NewPeriodicReader(metricExporter{exporter, t.outlet("metrics")},
		sdkmetric.WithInterval(o.MetricInterval),
		sdkmetric.WithTimeout(o.Timeout),
	), nil
}

func (t *Telemetry) exportLogs(ctx context.Context) (sdklog.Processor, *exportCounter, error) {
	o := &t.opt.OTLP
	exporter, err := otlploghttp.New(ctx,
		otlploghttp.WithEndpointURL(o.Endpoint+"/v1/logs"),
		otlploghttp.WithHeaders(o.Headers),
		otlploghttp.WithHTTPClient(o.client()),
		otlploghttp.WithTimeout(o.Timeout),
	)
	if err != nil {
		return nil, nil, err
	}
	out := t.outlet("logs")
	return sdklog.NewBatchProcessor(logExporter{exporter, out},
		sdklog.WithMaxQueueSize(o.Queue),
		sdklog.WithExportMaxBatchSize(exportBatch),
		sdklog.WithExportInterval(o.BatchDelay),
		sdklog.WithExportTimeout(o.Timeout),
	), out, nil
}
