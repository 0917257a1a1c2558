package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/memproxy/memproxy/envoy/xds/xdstest"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/inject/server"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// askedAs sends a request to an admin listener with a Host header.
func askedAs(t *testing.T, addr, path, host string) (int, string) {
	t.Helper()
	q := must.Get(http.NewRequest(http.MethodGet, "http://"+addr+path, nil))(t)
	q.Host = host
	resp := must.Get(http.DefaultClient.Do(q))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(b)
}

// guarded checks that an admin listener answers requests for its own host names only,
// probes excepted, and that its metrics count refused connections of the process's
// listeners.
func guarded(t *testing.T, admin string, paths, listeners []string) {
	t.Helper()
	for _, path := range paths {
		if code, body := askedAs(t, admin, path, "evil.example"); code != http.StatusMisdirectedRequest {
			t.Errorf("%s by another's name: %d %.80s", path, code, body)
		}
		if code, body := askedAs(t, admin, path, "localhost"); code != http.StatusOK {
			t.Errorf("%s by its own name: %d %.80s", path, code, body)
		}
	}
	if code, _ := askedAs(t, admin, "/healthz", "10.1.2.3"); code != http.StatusOK {
		t.Errorf("a probe: %d", code)
	}
	_, text := askedAs(t, admin, "/metrics", "localhost")
	for _, name := range listeners {
		for _, result := range []string{"refused", "evicted"} {
			if line := fmt.Sprintf(`memproxy_connections_turned_away_total{listener=%q,result=%q} 0`, name, result); !strings.Contains(text, line) {
				t.Errorf("no metric %s", line)
			}
		}
	}
}

// Proves EDGE-14: the control plane's admin listener is guarded.
func TestControlPlaneIsGuarded(t *testing.T) {
	t.Parallel()
	f := newFleetRig(t)
	f.start()
	guarded(t, f.plane.AdminAddr, []string{"/fleet", "/fleet/sidecars", "/metrics"}, []string{"fleet", "admin"})
}

// Proves EDGE-14: the webhook's admin listener is guarded.
func TestInjectorIsGuarded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := must.Get(xdstest.NewCA())(t)
	must.Do(t, ca.Write(dir, "hooks", "spiffe://example.org/hooks"))
	raw := must.Get(os.ReadFile("../inject/testdata/config.yaml"))(t)
	cfg := must.Get(inject.ParseConfig(raw))(t)
	cfg.Listen, cfg.Admin = "127.0.0.1:0", "127.0.0.1:0"
	cfg.TLS.Cert, cfg.TLS.Key = filepath.Join(dir, "hooks.crt"), filepath.Join(dir, "hooks.key")
	log := &lockedBuffer{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx, cfg, slog.New(slog.NewTextHandler(log, nil))) }()
	listening := regexp.MustCompile(`name=admin address=(\S+)`)
	ring.Until(t, "the listener", func() bool { return listening.MatchString(log.String()) })
	guarded(t, listening.FindStringSubmatch(log.String())[1], []string{"/metrics"}, []string{"webhooks", "admin"})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Proves EDGE-14: refused connections are counted, also under gRPC, which does not
// report which connections are idle.
func TestRefusedConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	metrics := prometheus.NewRegistry()
	bounded := frontend.CountTurnedAway(metrics, "fleet", frontend.Bound(ln, frontend.ListenOptions{Connections: 1, Keep: true}))
	t.Cleanup(func() { bounded.Close() })
	go func() {
		for {
			if _, err := bounded.Accept(); err != nil {
				return
			}
		}
	}()
	for range 3 {
		if c, err := net.Dial("tcp", ln.Addr().String()); err == nil { // it may be refused immediately
			defer c.Close()
		}
	}
	show := &http.Server{Handler: promhttp.HandlerFor(metrics, promhttp.HandlerOpts{})}
	shown := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go show.Serve(shown)
	t.Cleanup(func() { show.Close() })
	const want = `memproxy_connections_turned_away_total{listener="fleet",result="refused"} 2`
	ring.Until(t, want, func() bool {
		_, text := askedAs(t, shown.Addr().String(), "/metrics", "localhost")
		return strings.Contains(text, want)
	})
}

// Proves EDGE-14: every listener of a sidecar with a processor counts the connections
// it refuses.
func TestEveryListenerCountsRefusals(t *testing.T) {
	t.Parallel()
	r := startMatrix(t, "mem0", "http://127.0.0.1:1")
	found := map[string]bool{}
	for _, l := range r.car.listeners {
		if found[l.name] = true; l.bounded == nil || l.bounded.Addr().String() != l.ln.Addr().String() {
			t.Errorf("%s: what it turns away is not counted", l.name)
		}
	}
	if !found["mem0"] || !found["admin"] || !found["extproc"] {
		t.Errorf("listeners: %v", found)
	}
}
