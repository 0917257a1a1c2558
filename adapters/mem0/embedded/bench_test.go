package embedded_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/internal/must"
)

// quiet is a ResponseWriter that costs nothing.
type quiet struct{ header http.Header }

func (q quiet) Header() http.Header       { return q.header }
func (quiet) Write(p []byte) (int, error) { return len(p), nil }
func (quiet) WriteHeader(int)             {}
func benchBody(path string) (string, string) {
	switch path {
	case "/search":
		return "POST", `{"query":"who drinks green tea","filters":{"user_id":"ann"}}`
	case "/v3/memories/add/":
		return "POST", `{"user_id":"ann","messages":[{"role":"user","content":"Ann drinks green tea without sugar"}],"metadata":{"source":"chat"}}`
	}
	return "POST", `{"user_id":"ann","agent_id":"dev","infer":false,"messages":[{"role":"user","content":"Ann drinks green tea without sugar"}],"metadata":{"source":"chat","confidence":0.7}}`
}

// BenchmarkServe stands behind the proxy's own benchmark, so an add must cost
// little next to a proxied request.
func BenchmarkServe(b *testing.B) {
	for _, path := range []string{"/memories", "/v3/memories/add/", "/search"} {
		b.Run(strings.Trim(path, "/"), func(b *testing.B) {
			backend := must.Get(embedded.New(embedded.Options{}))(b)
			method, body := benchBody("/memories")
			send := func(path, method, body string) {
				r := httptest.NewRequest(method, path, strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				backend.ServeHTTP(quiet{make(http.Header)}, r)
			}
			for range 1000 {
				send("/memories", method, body)
			}
			method, body = benchBody(path)
			b.ReportAllocs()
			for b.Loop() {
				send(path, method, body)
			}
		})
	}
}
