//go:build e2e

package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

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
