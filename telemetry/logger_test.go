package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/telemetry"
)

// Proves CARD-10: a log line has the trace and the decision.
func TestLogLinesAreTraced(t *testing.T) {
	tel := start(t, telemetry.Options{})
	ctx, span := tel.Tracer().Start(t.Context(), "x")
	defer span.End()
	var b bytes.Buffer
	log := telemetry.NewLogger(&b, "", slog.LevelInfo)
	log.With("backend", "mem0").InfoContext(ctx, "decision", "decision", decision, "reasons", []string{"budget.hour"}, "n", 3)
	log.Info("without a request")
	log.Debug("too low")
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	must.Len(t, lines, 2)
	var got map[string]any
	must.Do(t, json.Unmarshal([]byte(lines[0]), &got))
	if got["trace_id"] != span.SpanContext().TraceID().String() || got["decision"] != decision || got["backend"] != "mem0" || got["n"] != 3.0 {
		t.Error(lines[0])
	}
	expect.Text(t, lines[1]).Lacks("trace_id")
}

func TestLogRedacts(t *testing.T) {
	header := http.Header{"Authorization": {"Token canary-1"}, "X-Api-Key": {"canary-2"}}
	for name, value := range map[string]any{
		"headers":       header,
		"own headers":   memproxy.Header(header),
		"credentials":   memproxy.Credentials{Header: memproxy.Header(header)},
		"authorization": "canary-authorization",
		"Api_Key":       "canary-key",
		"body":          []byte("canary-content"),
		"text":          "canary-content",
		"request":       &http.Request{Header: header},
		"struct":        struct{ A string }{"canary"},
		"event":         memproxy.Event{Detail: "canary"},
		"bearer":        "sent Authorization: Bearer canary-abcdef",
		"scheme":        errors.New(`Get "/x": header "TOKEN  m0canary-abcdef" refused`),
		"jwt":           "got eyJhbGciOi.canary.sig",
		"provider":      "key sk-canary0123456789 is wrong",
		"made by init":  "key mp-canary0123456789 is wrong",
		"url":           errors.New("dial redis://user:canary-pw@host:6379/0: refused"),
		"link":          "GET /v1/x?user=1&api_key=canary-abc&y=2",
		"list":          []string{"fine", "Bearer canary-abcdef"},
	} {
		for _, format := range []string{"json", "text"} {
			var b bytes.Buffer
			log := telemetry.NewLogger(&b, format, slog.LevelInfo)
			log.Info("x", name, value)
			log.With(name, value).WithGroup("g").Info("x", slog.Group("h", name, value))
			expect.Text(t, b.String(), name, format).Lacks("canary")
		}
	}
}

// Neighbouring values that must stay readable.
func TestLogKeeps(t *testing.T) {
	var b bytes.Buffer
	log := telemetry.NewLogger(&b, "text", slog.LevelInfo)
	for _, value := range []string{"agent:dev", "mem0.v3.add", "http://127.0.0.1:8000/v1", "the token budget is 5", "budget.hour", "sk", "a basic check", "no bearer"} {
		b.Reset()
		log.Info("the basic idea", "a", value, "error", errors.New(value))
		expect.Text(t, b.String()).Times(2, value).Has("the basic idea")
	}
	b.Reset()
	log.Info("x", "a", strings.Repeat("ä", 5000), "headers", http.Header{"X-Name": {"v"}})
	if b.Len() > 2048 || !strings.Contains(b.String(), "…") || !strings.Contains(b.String(), "X-Name") {
		t.Errorf("%d bytes: %s", b.Len(), b.String())
	}
}

func BenchmarkLogLine(b *testing.B) {
	log := telemetry.NewLogger(io.Discard, "", slog.LevelInfo)
	for b.Loop() {
		log.Info("decision", "decision", decision, "verdict", "deny", "would", "deny", "reasons", []string{"budget.hour"},
			"principal", "agent:dev", "backend", "mem0", "route", "mem0.v3.add", "policy", "v7")
	}
}
