//go:build e2e

package e2e

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// collector keeps what is sent to it over OTLP/HTTP, undecoded: the tests look
// for strings, which protobuf leaves readable.
type collector struct {
	url  string
	mu   sync.Mutex
	sent map[string][]byte // by path
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{sent: map[string][]byte{}}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			zr, err := gzip.NewReader(body)
			if err != nil {
				return
			}
			body = zr
		}
		b, _ := io.ReadAll(body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sent[r.URL.Path] = append(c.sent[r.URL.Path], b...)
	}))
	t.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

// wantDecision waits until a decision's id is in the traces and in the logs.
func (c *collector) wantDecision(t *testing.T, id string) {
	t.Helper()
	for _, path := range []string{"/v1/traces", "/v1/logs"} {
		waitFor(t, fmt.Sprintf("%s with decision %s", path, id), func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return strings.Contains(string(c.sent[path]), id)
		})
	}
}

// slowBackend answers adds after a while.
type slowBackend struct {
	url     string
	arrived chan struct{}
}

func startSlowBackend(t *testing.T, wait time.Duration) slowBackend {
	t.Helper()
	b := slowBackend{arrived: make(chan struct{}, 16)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		b.arrived <- struct{}{}
		time.Sleep(wait)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"results":[]}`)
	}))
	t.Cleanup(srv.Close)
	b.url = srv.URL
	return b
}
