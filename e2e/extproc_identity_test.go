//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/envoy/xds/xdstest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves CARD-9: the caller is who its certificate says that it is, as Envoy
// verified it; a header that says so is nothing.
func TestEnvoyPeerCertificate(t *testing.T) {
	t.Parallel()
	ca, dir := must.Get(xdstest.NewCA())(t), t.TempDir()
	must.Do(t, ca.Write(dir, "envoy"))
	b, rec := recording(t, "    filter_chains:\n    - filters:\n", fmt.Sprintf(`    filter_chains:
    - transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            tls_certificates: [{certificate_chain: {filename: %[1]s/envoy.crt}, private_key: {filename: %[1]s/envoy.key}}]
            validation_context: {trusted_ca: {filename: %[1]s/ca.crt}}
      filters:
`, dir))
	for _, c := range []struct {
		cert   string
		header []string
		status int
		log    string
	}{
		{"spiffe://example.org/agent/dev", nil, 200, `"id":"workload:dev"`},
		{"spiffe://elsewhere.org/agent/dev", nil, 401, `identity.invalid`},
		{"", nil, 401, `identity.missing`},
		{"", []string{"X-Forwarded-Client-Cert", "URI=spiffe://example.org/agent/dev"}, 401, `identity.missing`},
	} {
		conf := &tls.Config{RootCAs: ca.Pool}
		if c.cert != "" {
			conf = must.Get(ca.Client("caller", c.cert))(t)
		}
		client := &http.Client{Timeout: soon, Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
		req := must.Get(http.NewRequest("POST", "https://"+b.mem0+"/memories", strings.NewReader(addBody)))(t)
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(c.header); i += 2 {
			req.Header.Set(c.header[i], c.header[i+1])
		}
		resp := must.Get(client.Do(req))(t)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		expect.Equal(t, resp.StatusCode, c.status, c, body)
		log := b.audit()
		expect.That(t, strings.Contains(log, c.log), "%+v: not in\n%s", c, tail(log, 1500))
	}
	expect.List(t, rec.arrived(), []string{"POST /memories"}, "arrived")
}

// Proves CARD-9: however a path is spelled, what arrives is what was ruled on,
// or nothing arrives. A caller that may read ann's memories gets no other way
// to bob's.
func TestEnvoyPaths(t *testing.T) {
	t.Parallel()
	for name, edits := range map[string][]string{
		"as shipped":       nil,
		"escapes rejected": {"KEEP_UNCHANGED", "REJECT_REQUEST"},
		"escapes undone":   {"KEEP_UNCHANGED", "UNESCAPE_AND_FORWARD"},
		"slashes merged":   {"merge_slashes: false", "merge_slashes: true"},
		"nothing made plain": {
			"normalize_path: true", "normalize_path: false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, rec := recording(t, edits...)
			devCall(t, "GET", "http://"+b.mem0+"/v1/memories/?user_id=ann", "").want(t, 200, "the plain path")
			expect.Len(t, rec.arrived(), 1, "the plain path")
			for _, path := range []string{
				"/v1/memories/?user_id=bob", "//v1/memories/?user_id=bob", "/v1//memories/?user_id=bob", "/v1/memories//?user_id=bob",
				"/v1/stats/../memories/?user_id=bob", "/v1/stats/%2e%2e/memories/?user_id=bob", "/v1/stats/..%2fmemories/?user_id=bob",
				"/custom/../v1/memories/?user_id=bob", "/custom/..%2Fv1%2Fmemories%2F?user_id=bob", "/custom/%2e%2e/v1/memories/?user_id=bob",
				"/custom/..\\v1\\memories\\?user_id=bob", "/custom/..%5cv1%5cmemories%5c?user_id=bob", "/v1/memorie%73/?user_id=bob",
				"/v1/memories/?user_id=ann&user_id=bob", "/v1/memories/?user_id=ann#/v1/stats/", "/v1/memories/;x?user_id=bob",
				"/memories?user_id=b%6fb", "/v1/stats/?x=/../memories/", "/v1/memories/%zz/",
			} {
				rec.arrived()
				got := raw(t, "http://"+b.mem0, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: mem.example\r\nConnection: close\r\nX-API-Key: m0sk_dev\r\n\r\n", path))
				for _, a := range rec.arrived() {
					// The backend reads paths as plainly as can be: what it
					// would take for memory must have been ruled on.
					u, err := url.ParseRequestURI(strings.TrimPrefix(a, "GET "))
					if err != nil {
						t.Errorf("%s: %q arrived", path, a)
						continue
					}
					expect.That(t, !strings.Contains(u.Path, "memories") || got.header.Get("X-Memproxy-Decision") != "", "%s: %q arrived and was not ruled on (%d)", path, a, got.status)
					expect.Text(t, u.RawQuery, path, a, "arrived", got.status).Lacks("bob", "b%6fb")
				}
			}
		})
	}
}

// Proves CARD-9: a repeated credential identifies nobody, however Envoy
// puts the two together.
func TestEnvoyDuplicateCredentials(t *testing.T) {
	t.Parallel()
	b, rec := recording(t)
	for _, header := range []string{
		"X-API-Key: m0sk_dev\r\nX-API-Key: m0sk_eve\r\n",
		"Authorization: Token m0sk_dev\r\nAuthorization: Token m0sk_eve\r\n",
		"Authorization: Token m0sk_eve\r\nX-API-Key: m0sk_dev\r\n",
		"Proxy-Authorization: Bearer m0sk_dev\r\nX-Memproxy-Token: m0sk_eve\r\n",
	} {
		raw(t, "http://"+b.mem0, "GET /v1/memories/?user_id=ann HTTP/1.1\r\nHost: mem.example\r\nConnection: close\r\n"+header+"\r\n").want(t, 401, header)
		expect.Len(t, rec.arrived(), 0, header)
	}
	// The same one twice is one.
	raw(t, "http://"+b.mem0, "GET /v1/memories/?user_id=ann HTTP/1.1\r\nHost: mem.example\r\nConnection: close\r\nX-API-Key: m0sk_dev\r\nX-API-Key: m0sk_dev\r\n\r\n").want(t, 200)
}

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
