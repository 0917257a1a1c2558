// The handler is that of a server with a certificate and two ports, so this is in the slow ring,
// where the package is compiled once more for it.

//go:build slow

package server

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
)

// Probes are served under any host name; details and metrics only under one that a web
// page cannot have.
func TestAdminHandler(t *testing.T) {
	t.Parallel()
	var broken error
	h := adminHandler(func() error { return broken }, http.NotFoundHandler())
	get := func(path, host string, want int, said bool) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		expect.Equal(t, w.Code, want, path, host, w.Body)
		expect.Equal(t, strings.Contains(w.Body.String(), os.ErrNotExist.Error()), said, path, host, w.Body)
	}
	for _, host := range []string{"127.0.0.1:9901", "rebound.example"} {
		get("/healthz", host, http.StatusOK, false)
		get("/readyz", host, http.StatusOK, false)
	}
	broken = os.ErrNotExist
	get("/readyz", "127.0.0.1:9901", http.StatusServiceUnavailable, true)
	get("/readyz", "rebound.example", http.StatusServiceUnavailable, false)
	get("/metrics", "127.0.0.1:9901", http.StatusNotFound, false)
	get("/metrics", "rebound.example", http.StatusMisdirectedRequest, false)
}
