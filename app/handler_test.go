package app

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/must"
)

// inProcess is a transport to a backend in this process.
type inProcess struct{ http.Handler }

func (h inProcess) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Body == nil {
		q.Body = http.NoBody // as a server sees it
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	return w.Result(), nil
}

// A process works without a socket: requests to its handlers are gated, jobs run on
// demand, and a stop leaves nothing running.
//
// Proves EDGE-15.
func TestProcessWithoutSockets(t *testing.T) {
	t.Parallel()
	backend := must.Get(embedded.New(embedded.Options{}))(t)
	text := strings.NewReplacer("DIR", t.TempDir(), "UPSTREAM", "http://backend.invalid", "KEY", sha(devToken)).Replace(plain)
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t)
	unwatched(cfg)
	var log lockedBuffer
	a := must.Get(New(t.Context(), cfg, Options{Log: &log, Getenv: allowing(cfg), Version: "test", Transport: inProcess{backend}, patience: 10}))(t)
	ask := func(listener, method, path, body, key string) (int, string) {
		t.Helper()
		q := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		q.Host = "127.0.0.1"
		if body != "" {
			q.Header.Set("Content-Type", "application/json")
		}
		if key != "" {
			q.Header.Set("X-API-Key", key)
		}
		w := httptest.NewRecorder()
		a.Handler(listener).ServeHTTP(w, q)
		return w.Code, w.Body.String()
	}
	const note = `{"messages":[{"role":"user","content":"Ann likes green tea."}],"user_id":"ann","infer":false}`
	if code, body := ask("mem0", "POST", "/memories", note, ""); code != 401 {
		t.Errorf("a stranger: %d %s", code, body)
	}
	if code, body := ask("mem0", "POST", "/memories", note, devToken); code != 200 {
		t.Errorf("a write: %d %s", code, body)
	}
	if code, body := ask("mem0", "GET", "/memories?user_id=ann", "", devToken); code != 200 || !strings.Contains(body, "green tea") {
		t.Errorf("a read: %d %s", code, body)
	}
	if code, body := ask("admin", "GET", "/readyz", "", ""); code != 200 {
		t.Errorf("ready: %d %s", code, body)
	}
	if a.Handler("nobody") != nil {
		t.Error("a listener of that name")
	}
	if err := a.Once(t.Context(), "retention", time.Now()); err != nil {
		t.Error(err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
