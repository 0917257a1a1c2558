package telemetry

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// Defaults of Options.
const (
	DefaultServiceName = "memproxy"
	// DefaultExportTimeout bounds one export.
	DefaultExportTimeout = 10 * time.Second
	// DefaultMetricInterval is the time between exports of metrics.
	DefaultMetricInterval = 30 * time.Second
	// DefaultBatchDelay is how long spans and records wait to be batched.
	DefaultBatchDelay = 2 * time.Second
	// DefaultQueue bounds the spans that wait for export, and a quarter of it the records.
	DefaultQueue = 8192
)

// Options configure telemetry. With the zero value, metrics are served for Prometheus
// and recent requests of sampled traces are kept in memory.
type Options struct {
	ServiceName string // service.name; DefaultServiceName
	Version     string // service.version
	Instance    string // service.instance.id, such as the pod's name

	// OTLP is the collector. Without an endpoint nothing is exported.
	OTLP OTLP
	// SampleRatio is the share of traces that are recorded, for requests without a
	// sampling decision in traceparent.
	SampleRatio float64

	// Log receives warnings about failing exports. Nil disables them.
	Log *slog.Logger
	// Clock is used to limit these warnings to one a minute. Nil is time.Now.
	Clock func() time.Time
}

// OTLP is a collector for OTLP over HTTP (protobuf).
type OTLP struct {
	// Endpoint is the base URL, "http://127.0.0.1:4318"; signals are sent to
	// /v1/traces, /v1/metrics and /v1/logs below it.
	Endpoint string
	// Headers are sent with each export. They are secrets.
	Headers Headers
	// Zero values of the following fields are the defaults.
	Timeout, MetricInterval, BatchDelay time.Duration
	Queue                               int
}

// Headers are header values that are never printed.
type Headers map[string]string

// String returns the names only.
func (h Headers) String() string { return names(h) }

func names[V any](m map[string]V) string {
	return "[" + strings.Join(slices.Sorted(maps.Keys(m)), " ") + "]"
}

// Format hides the values from every formatting verb.
func (h Headers) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, h.String()) }

// MarshalText hides the values from encoders.
func (h Headers) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

func (o *Options) complete() {
	o.ServiceName = cmp.Or(o.ServiceName, DefaultServiceName)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.OTLP.complete()
}

func (o *OTLP) complete() {
	o.Timeout = cmp.Or(max(o.Timeout, 0), DefaultExportTimeout)
	o.MetricInterval = cmp.Or(max(o.MetricInterval, 0), DefaultMetricInterval)
	o.BatchDelay = cmp.Or(max(o.BatchDelay, 0), DefaultBatchDelay)
	o.Queue = cmp.Or(max(o.Queue, 0), DefaultQueue)
	o.Endpoint = strings.TrimSuffix(o.Endpoint, "/")
}
