//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// processed is a running memproxy that serves a backend itself and next to the
// real Envoy.
type processed struct {
	*sidecar
	envoy string // the same backend through Envoy
}

// serveProcessor starts both with a configuration as serve takes it, whose
// backend is called as its kind is. Behind Envoy stands the same backend.
func serveProcessor(t *testing.T, kind string, backend http.Handler, config string) processed {
	t.Helper()
	b := startEnvoy(t)
	b.answers(backend)
	listen, through := b.httpMem0, b.mem0
	if kind == "letta" {
		listen, through = b.httpLetta, b.letta
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "memproxy.yaml")
	must.Do(t, os.WriteFile(path, fmt.Appendf(nil, config, listen, b.admin, filepath.Join(dir, "state")), 0o600))
	s := &sidecar{base: "http://" + listen, admin: "http://" + b.admin, dir: dir}
	s.process = start(t, memproxyBinary(t), "extproc", "--config", path, "--listen", b.processor, "--grace", "300ms")
	b.awaits(listen)
	return processed{s, "http://" + through}
}

// Proves EDGE-13, CARD-9: a client that the real Envoy counts as internal has it
// neither repeat a write nor send it elsewhere.
func TestEnvoyIsNotCommandedByClients(t *testing.T) {
	t.Parallel()
	const edge = "use_remote_address: true\n"
	b := startEnvoy(t, edge, edge+"          internal_address_config: {cidr_ranges: [{address_prefix: 127.0.0.0, prefix_len: 8}]}\n")
	arrived := make(chan http.Header, 16)
	b.answers(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() == memproxy.UserAgent {
			return
		}
		arrived <- r.Header
		w.WriteHeader(http.StatusInternalServerError)
	}))
	b.start(settings(t))
	for name, value := range map[string]string{"X-Envoy-Retry-On": "5xx", "X-Envoy-Max-Retries": "3", "X-Envoy-Original-Dst-Host": "192.0.2.1:1", "X-Envoy-Original-Path": "/reset"} {
		q := must.Get(http.NewRequest(http.MethodPost, "http://"+b.mem0+"/memories", strings.NewReader(`{"messages":[{"role":"user","content":"Ann likes tea."}],"user_id":"ann","agent_id":"dev"}`)))(t)
		q.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {"m0sk_dev"}, name: {value}}
		resp := must.Get(http.DefaultClient.Do(q))(t)
		resp.Body.Close()
		switch forwarded := len(arrived); {
		case name != "X-Envoy-Original-Path":
			expect.That(t, resp.StatusCode == http.StatusBadRequest && forwarded == 0, "%s: %d, sent %d times", name, resp.StatusCode, forwarded)
		case forwarded != 1 || len((<-arrived)[name]) > 0:
			t.Errorf("%s: %d, sent %d times, or with it", name, resp.StatusCode, forwarded)
		}
	}
}

// Proves EDGE-14: behind the real Envoy a rejection counts against the address
// that the client has there, and not against Envoy's: a flood from one address
// leaves another's refusals as they were.
func TestEnvoyForwardsTheClientsAddress(t *testing.T) {
	t.Parallel()
	s := serveProcessor(t, "mem0", http.NotFoundHandler(), `profile: production
state: %[3]s
admin: {listen: "%[2]s"}
backends:
  - {name: mem0, kind: mem0, listen: "%[1]s", upstream: "http://127.0.0.1:1"}
identity:
  keys:
    - {sha256: "`+sha("m0-known")+`", id: "agent:known", kind: agent, trust: authenticated, acts_as: ["*"]}
limits: {rejections: 5}
log: {level: error}
`)
	from := func(address string, header ...string) int {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			return d.DialContext(ctx, network, to)
		}}}
		q := must.Get(http.NewRequest(http.MethodGet, s.envoy+"/memories?user_id=ann", nil))(t)
		q.Header.Set("X-API-Key", "m0-wrong")
		for i := 0; i < len(header); i += 2 {
			q.Header.Set(header[i], header[i+1])
		}
		resp := must.Get(client.Do(q))(t)
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	counts := map[int]int{}
	for range 12 {
		counts[from("127.0.0.2")]++
	}
	expect.That(t, counts[http.StatusUnauthorized] != 0 && counts[http.StatusTooManyRequests] >= 4, "a flood from one address: %v", counts)
	expect.Equal(t, from("127.0.0.3"), http.StatusUnauthorized, "another address after it")
	// Who says to be somebody else at every request is one client all the same.
	counts = map[int]int{}
	for i := range 12 {
		counts[from("127.0.0.4", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i), "X-Envoy-External-Address", fmt.Sprintf("203.0.113.%d", i))]++
	}
	expect.That(t, counts[http.StatusTooManyRequests] >= 4, "a flood in others' names: %v", counts)
}
