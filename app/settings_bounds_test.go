package app

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/proxy"
)

// Proves TRL-10: the listeners use the default limits that the effective profile
// prints.
func TestBoundsOfTheProfileAreInForce(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("DIR", "d", "UPSTREAM", "http://127.0.0.1:9", "KEY", sha("k")).Replace(plain)
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t)
	got := map[string]string{}
	for _, s := range cfg.Settings() {
		got[s.Path] = s.Value
	}
	written := func(d time.Duration) string { return config.Duration(d).String() }
	for path, want := range map[string]string{
		"backends[mem0].limits.body":       fmt.Sprint(frontend.DefaultMaxBody),
		"backends[mem0].limits.answer":     fmt.Sprint(frontend.DefaultMaxAnswer),
		"backends[mem0].timeouts.body":     written(proxy.DefaultBodyTimeout),
		"backends[mem0].timeouts.upstream": written(proxy.DefaultUpstreamTimeout),
		"backends[mem0].timeouts.run":      written(proxy.DefaultRunTimeout),
		"backends[mem0].reconcile":         written(proxy.DefaultReconcile),
		"limits.connections":               fmt.Sprint(frontend.DefaultConnections),
		"limits.connections_per_address":   fmt.Sprint(frontend.DefaultConnections * 3 / 4),
		"limits.in_flight":                 fmt.Sprint(frontend.DefaultInFlight),
		"limits.in_flight_per_address":     fmt.Sprint(frontend.DefaultInFlightPeer),
		"limits.write":                     written(frontend.DefaultWriteTimeout),
	} {
		if got[path] != want {
			t.Errorf("%s is told as %q, and is %s", path, got[path], want)
		}
	}
}
