package telemetry_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/telemetry"
	logspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is a collector for OTLP over HTTP that stores what it receives.
type receiver struct {
	*httptest.Server
	answer func(w http.ResponseWriter) // nil: 200

	mu      sync.Mutex
	raw     []byte // every payload, uncompressed
	headers []http.Header
	spans   []*traces.Span
	metrics map[string]*metrics.Metric
	logs    []*logs.LogRecord
}

func receive(t *testing.T, answer func(http.ResponseWriter)) *receiver {
	r := &receiver{answer: answer, metrics: map[string]*metrics.Metric{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", r.take(t, &tracepb.ExportTraceServiceRequest{}))
	mux.HandleFunc("POST /v1/metrics", r.take(t, &metricspb.ExportMetricsServiceRequest{}))
	mux.HandleFunc("POST /v1/logs", r.take(t, &logspb.ExportLogsServiceRequest{}))
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) take(t *testing.T, kind proto.Message) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		if r.answer != nil {
			r.answer(w)
			return
		}
		var body io.Reader = q.Body
		if q.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(q.Body)
			if err != nil {
				t.Errorf("gzip: %v", err)
				return
			}
			body = z
		}
		b, err := io.ReadAll(body)
		if err != nil {
			t.Errorf("read: %v", err)
			return
		}
		m := proto.Clone(kind)
		if err := proto.Unmarshal(b, m); err != nil || q.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("not OTLP protobuf (%s): %v", q.Header.Get("Content-Type"), err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.keep(b, q.Header, m)
	}
}

func (r *receiver) keep(raw []byte, h http.Header, m proto.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw = append(r.raw, raw...)
	r.headers = append(r.headers, h)
	switch m := m.(type) {
	case *tracepb.ExportTraceServiceRequest:
		for _, rs := range m.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				r.spans = append(r.spans, ss.Spans...)
			}
		}
	case *metricspb.ExportMetricsServiceRequest:
		for _, rm := range m.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, m := range sm.Metrics {
					r.metrics[m.Name] = m
				}
			}
		}
	case *logspb.ExportLogsServiceRequest:
		for _, rl := range m.ResourceLogs {
			for _, sl := range rl.ScopeLogs {
				r.logs = append(r.logs, sl.LogRecords...)
			}
		}
	}
}

func (r *receiver) otlp() telemetry.OTLP {
	return telemetry.OTLP{
		Endpoint: r.URL, Headers: telemetry.Headers{"X-Collector-Key": "canary-collector-key"},
		Timeout: ring.Limit, MetricInterval: time.Hour, BatchDelay: time.Hour, // exported when the test flushes
	}
}

// value returns an attribute's value as a string, or "".
func value(attrs []*commonpb.KeyValue, key string) string {
	for _, kv := range attrs {
		if kv.Key == key {
			switch v := kv.Value.Value.(type) {
			case *commonpb.AnyValue_StringValue:
				return v.StringValue
			default:
				return v.(interface{ String() string }).String()
			}
		}
	}
	return ""
}

func (r *receiver) span(name string) *traces.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.Name == name {
			return s
		}
	}
	return nil
}
