//go:build slow

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// inProcess is the way to a backend in this process.
type inProcess struct{ http.Handler }

func (h inProcess) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Body == nil {
		q.Body = http.NoBody // as a server sees it
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	return w.Result(), nil
}

// sidecar is a memproxy in this process, with everything on, in front of a backend.
func sidecar(tb testing.TB, backend http.Handler) http.Handler {
	tb.Helper()
	dir := tb.TempDir()
	text := memproxyConfig(dir, "127.0.0.1:0", mem0At("127.0.0.1:0", "backend.invalid"), benchIdentity, benchBudgets, "telemetry: {sample: 0.01}")
	cfg := must.Get(config.Parse(filepath.Join(dir, "memproxy.yaml"), []byte(text), os.Getenv))(tb)
	a := must.Get(app.New(tb.Context(), cfg, app.Options{Log: io.Discard, Getenv: os.Getenv, Version: "bench", Transport: inProcess{backend}}))(tb)
	tb.Cleanup(func() {
		expect.OK(tb, a.Close(tb.Context()))
	})
	return a.Handler("mem0")
}

// ask sends a request to a sidecar, and returns the body of its answer.
func ask(tb testing.TB, h http.Handler, method, target, body string) string {
	tb.Helper()
	q := httptest.NewRequestWithContext(tb.Context(), method, target, strings.NewReader(body))
	q.Host = "127.0.0.1"
	q.Header.Set("X-API-Key", "m0sk_bench")
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	} else {
		q.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	expect.Equal(tb, w.Code, 200, method, target, w.Body)
	return w.Body.String()
}

// reader is a sidecar that n memories were written through. The function that it
// returns lists some of them.
func reader(tb testing.TB, n int) func(query string) string {
	tb.Helper()
	h := sidecar(tb, readBackend())
	for i := range n {
		ask(tb, h, "POST", "/memories", readMemory(i))
	}
	return func(query string) string { return ask(tb, h, "GET", "/memories?"+query, "") }
}

// The benchmark measures what it says: 50 memories that were written through
// memproxy are shown with their stamps.
func TestReadIsWhatIsMeasured(t *testing.T) {
	answer := reader(t, pageSize)(readQueries[0].query)
	if n, stamps := strings.Count(answer, `"memory":"I moved`), strings.Count(answer, `"memproxy_sig":`); n != pageSize || stamps != pageSize {
		t.Errorf("%d memories, %d stamps: %.1000s", n, stamps, answer)
	}
}

func BenchmarkRead(b *testing.B) {
	read := reader(b, readMemories)
	for _, s := range readQueries {
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read(s.query)
			}
		})
	}
}

// Each write has a text of its own, by 16 callers for each processor.
func BenchmarkWrite(b *testing.B) {
	for name, text := range map[string]string{"sentences": fact, "chat": chat} {
		b.Run(name, func(b *testing.B) {
			h := sidecar(b, addBackend())
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(p *testing.PB) {
				next := numbered(request(text))
				for p.Next() {
					_, body, _ := strings.Cut(string(next()), "\r\n\r\n")
					ask(b, h, "POST", "/memories", body)
				}
			})
		})
	}
}
