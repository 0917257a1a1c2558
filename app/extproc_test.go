package app

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"

	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves CARD-9: a processor reachable by untrusted peers does not start, because it
// trusts its peer's statements about callers.
func TestExtprocListensForEnvoyOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		f  Envoy
		ok bool
	}{
		"loopback":             {Envoy{Listen: "127.0.0.1:9902"}, true},
		"loopback, version 6":  {Envoy{Listen: "[::1]:9902"}, true},
		"by name":              {Envoy{Listen: "localhost:9902"}, true},
		"a socket":             {Envoy{Listen: "unix:/run/memproxy.sock"}, true},
		"everywhere":           {Envoy{Listen: ":9902"}, false},
		"an address":           {Envoy{Listen: "10.0.0.1:9902"}, false},
		"without client roots": {Envoy{Listen: "10.0.0.1:9902", Cert: "c", Key: "k"}, false},
		"with client roots":    {Envoy{Listen: "10.0.0.1:9902", Cert: "c", Key: "k", ClientCA: "r"}, true},
		"without its key":      {Envoy{Listen: "127.0.0.1:9902", Cert: "c"}, false},
		"no port":              {Envoy{Listen: "127.0.0.1"}, false},
	} {
		if err := c.f.check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExtprocCommand(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"extproc", "--listen", "0.0.0.0:9902"},
		{"extproc", "--config", filepath.Join(t.TempDir(), "none.yaml")},
	} {
		if code, _, errs := invoke(t, args...); code != cli.Failed || errs == "" {
			t.Errorf("%q: %d %s", args, code, errs)
		}
	}
	if code, _, _ := invoke(t, "extproc", "stray"); code != cli.Usage {
		t.Errorf("stray argument: %d", code)
	}
	c := must.Get(extproctest.ParseCase([]byte("-- request --\nGET /\n")))(t)
	dir := ring.Dir(t)
	path, socket := filepath.Join(dir, "memproxy.yaml"), filepath.Join(dir, "s")
	must.Do(t, os.WriteFile(path, []byte(c.Settings.Config("127.0.0.1:0", "127.0.0.1:0", "http://127.0.0.1:1", filepath.Join(dir, "state"))), 0o600))
	// The socket of a killed process is replaced.
	stale := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"}))(t)
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := &lockedBuffer{}
	a := &invocation{Args: []string{"extproc", "--config", path, "--listen", "unix:" + socket, "--grace", "0s"}, Stdout: io.Discard, Stderr: log, Getenv: os.Getenv, Version: "test"}
	done := make(chan int, 1)
	go func() { done <- a.run(ctx) }()
	ring.Until(t, "the listener", func() bool { return strings.Contains(log.String(), `"name":"extproc"`) })
	conn := must.Get(net.Dial("unix", socket))(t)
	_ = conn.Close()
	cancel()
	select {
	case code := <-done:
		if code != cli.OK {
			t.Errorf("%d %s", code, log.String())
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not stop")
	}
}

// Proves CARD-9: ext_authz sees no outcome, so a change does not make the next change of
// the same memories wait for one.
func TestChangesByExtAuthzFollowOneAnother(t *testing.T) {
	t.Parallel()
	c := must.Get(extproctest.ParseCase([]byte("-- settings --\neves_roles: memproxy-forget\n-- request --\nGET /\n")))(t)
	client := authv3.NewAuthorizationClient(startListeners(t, c).conn)
	add := &authv3.AttributeContext_HttpRequest{Method: "POST", Path: "/memories", RawBody: []byte(`{"user_id":"ann","infer":false,"messages":[{"role":"user","content":"likes tea"}]}`)}
	deletion := &authv3.AttributeContext_HttpRequest{Method: "DELETE", Path: "/memories?user_id=ann"}
	for _, q := range []*authv3.AttributeContext_HttpRequest{add, deletion, deletion, add} {
		q.Host, q.HeaderMap = "mem.example", &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: "x-api-key", Value: "m0sk_eve"}, {Key: "content-type", Value: "application/json"}}}
		got := must.Get(client.Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{Http: q}}}))(t)
		if got.GetStatus().GetCode() != int32(codes.OK) {
			t.Errorf("%s: %d %s", q.Method, got.GetDeniedResponse().GetStatus().GetCode(), got.GetDeniedResponse().GetBody())
		}
	}
}
