package app

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// receiver stores what it receives over OTLP/HTTP undecoded: strings are readable in
// protobuf.
type receiver struct {
	mu   sync.Mutex
	sent map[string]*bytes.Buffer
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	b, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent[q.URL.Path] == nil {
		r.sent[q.URL.Path] = &bytes.Buffer{}
	}
	r.sent[q.URL.Path].Write(b)
}

// Proves CARD-6, CARD-10, SYN-6: content, queries, keys and tokens appear in no span,
// metric, log record, program log, audit log, or debug and metrics endpoint. Every
// signal about a single decision has its id.
func TestSignalsContainNoSecrets(t *testing.T) {
	recv := &receiver{sent: map[string]*bytes.Buffer{}}
	otlp := httptest.NewServer(recv)
	defer otlp.Close()
	t.Setenv("LENT", "m0sk-canary-upstream-77aa")
	t.Setenv("OTLP_TOKEN", "canary-otlp-token-31bc")
	r := start(t, plain,
		`upstream: "UPSTREAM"}`, `upstream: "UPSTREAM", credential: "${LENT}"}`,
		"log: {level: info}", "log: {level: debug}\ntelemetry: {otlp: \""+otlp.URL+"\", headers: {x-token: \"${OTLP_TOKEN}\"}}")
	canaries := []string{
		devToken, "canary-content", "canary-metadata", "canary-query", "canary-path", "canary-cookie",
		"m0sk-canary-upstream-77aa", "canary-otlp-token-31bc", "canary-wrong-key", "canary-proxy-token", "canary-header",
		"canary-tracestate", "canary-baggage", "canary-agent", "canary-session", "canary-forwarded", "canary-host", "canary-request", "CANARY-METHOD",
	}
	ids := []string{}
	for _, q := range []struct{ method, path, body string }{
		{"POST", "/memories", strings.Replace(note, "likes tea", "canary-content", 1)},
		{"POST", "/memories", strings.Replace(note, `"infer"`, `"metadata":{"k":"canary-metadata"},"infer"`, 1)},
		{"POST", "/memories", `{"user_id":"mallory","messages":"canary-content"}`},
		{"POST", "/memories", `{"canary-content`},
		{"POST", "/search", `{"query":"canary-query","user_id":"ann"}`},
		{"GET", "/memories?user_id=ann&q=canary-query", ""},
		{"GET", "/memories/no-such-id", ""}, // memory ids are recorded, other paths are not
		{"POST", "/canary-path", "{}"},
		{"CANARY-METHOD", "/memories", ""},
	} {
		a := r.do(q.method, q.path, q.body, "Cookie", "s=canary-cookie", "X-Anything", "canary-header",
			"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate", "say=canary-tracestate", "Baggage", "say=canary-baggage",
			"User-Agent", "canary-agent", "X-Memproxy-Session", "canary-session", "X-Forwarded-For", "canary-forwarded", "X-Forwarded-Host", "canary-host", "X-Request-Id", "canary-request")
		_, id, _ := strings.Cut(a.header.Get("X-Memproxy-Decision"), "id=")
		if id == "" {
			t.Errorf("%s %s has no decision: %d %s", q.method, q.path, a.status, a.body)
		}
		ids = append(ids, id)
	}
	r.do("POST", "/memories", note, "X-API-Key", "canary-wrong-key")
	r.do("POST", "/memories", note, "Proxy-Authorization", "Bearer canary-proxy-token")
	metrics, spans, ready := r.get("/metrics").body, r.get("/debug/spans").body, r.get("/readyz").body
	r.stop()

	signals := map[string]string{"program log": r.log.String(), "metrics": metrics, "spans": spans, "readyz": ready}
	recv.mu.Lock()
	for path, b := range recv.sent {
		signals[path] = b.String()
	}
	recv.mu.Unlock()
	for _, want := range []string{"/v1/traces", "/v1/logs", "/v1/metrics"} {
		if signals[want] == "" {
			t.Errorf("nothing arrived at %s", want)
		}
	}
	var audit strings.Builder
	for path, text := range r.files(".") {
		if strings.Contains(path, "/keys/") {
			continue
		}
		if strings.Contains(path, "/audit/") {
			audit.WriteString(text)
		}
		signals["file "+filepath.Base(path)] += text
	}
	for name, text := range signals {
		for _, c := range canaries {
			if i := strings.Index(text, c); i >= 0 {
				t.Errorf("%s has %s: …%q…", name, c, text[max(0, i-80):min(len(text), i+80)])
			}
		}
	}
	for _, id := range ids {
		for name, text := range map[string]string{"program log": signals["program log"], "traces": signals["/v1/traces"], "log records": signals["/v1/logs"], "audit": audit.String()} {
			if !strings.Contains(text, id) {
				t.Errorf("decision %s is not in %s", id, name)
			}
		}
	}
	if up := r.back.raw.String(); !strings.Contains(up, "canary-content") {
		t.Error("the canary did not reach the backend: the test looks at nothing")
	}
}

// Proves TRL-1: the backend gets the configured credential and none of the client's;
// the client's proxy token is not forwarded.
func TestBackendGetsTheConfiguredCredential(t *testing.T) {
	t.Setenv("LENT", "m0sk-of-the-backend")
	r := start(t, plain, `upstream: "UPSTREAM"}`, `upstream: "UPSTREAM", credential: "${LENT}", credential_as: x-api-key}`)
	r.do("POST", "/memories", note, "X-Memproxy-Session", "s1", "X-Other", "kept").want(t, 200)
	h := r.back.seen[0]
	if got := h.Values("X-Api-Key"); len(got) != 1 || got[0] != "m0sk-of-the-backend" {
		t.Errorf("X-API-Key %q", got)
	}
	if h.Get("X-Other") != "kept" {
		t.Errorf("headers %v", h)
	}
	for name, values := range h {
		if strings.Contains(strings.Join(values, " "), devToken) {
			t.Errorf("the client's key went on in %s", name)
		}
	}
	if h.Get("Traceparent") == "" {
		t.Error("no trace context went on")
	}
}
