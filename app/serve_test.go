package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// The log of a start lists version, profile, addresses, reviewers, disabled controls,
// and whether each backend is reachable.
//
// Proves EDGE-18.
func TestStartIsLogged(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.NotFoundHandler())
	defer up.Close()
	closed := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	_ = closed.Close()
	policies := policyDir(t, holdingPolicy)
	writeFile(t, filepath.Join(policies, "bundle.yaml"), "{disable: [field.name], shadow: [screen.hostile]}")
	text := fmt.Sprintf(`profile: production
state: %s
admin: {listen: "127.0.0.1:0"}
backends:
  - {name: here, kind: mem0, listen: "127.0.0.1:0", upstream: "%s"}
  - {name: away, kind: mem0, listen: "127.0.0.1:0", upstream: "http://%s"}
identity:
  keys: [{sha256: "%s", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, acts_as: [dev], users: [ann]}]
memories: {sweep: 0s, seal: false}
policy: {dir: "%s"}
`, ring.Dir(t), up.URL, closed.Addr(), sha("k"), policies)
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(text), os.Getenv))(t)
	log := &lockedBuffer{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, cfg, Options{Log: log, Getenv: allowing(cfg), Version: "v1.2.3", patience: 10}, nil)
	}()
	for _, want := range []string{
		`"msg":"started","version":"v1.2.3","profile":"production","switched_off":["memories.new.configured","memories.seal","memories.sweep"`,
		`"policy field.name","policy screen.hostile"]`,
		`"msg":"listening","name":"here"`, `"msg":"listening","name":"admin"`, `held writes are reviewed by`,
		`"msg":"the backend can be reached","backend":"here"`, `cannot be reached; requests to it are answered 502 until it can","backend":"away"`,
	} {
		ring.Until(t, want, func() bool { return strings.Contains(log.String(), want) })
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("%v\n%s", err, log.String())
	}
}
