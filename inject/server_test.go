package inject_test

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/envoy/xds/xdstest"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/proxy"
)

// The server answers reviews over HTTPS, and nothing else.
func TestServe(t *testing.T) {
	ca := must.Get(xdstest.NewCA())(t)
	conf := must.Get(ca.Server())(t)
	conf.ClientAuth = tls.NoClientCert
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	stop, _ := proxy.Serve(frontend.Limit(ln, frontend.ListenOptions{}), proxy.ServerOptions{Handler: testInjector(t).Handler(slog.New(slog.DiscardHandler)), TLS: conf})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool}}, Timeout: 30 * time.Second}
	post := func(path, body string) (int, string) {
		resp := must.Get(client.Post("https://"+ln.Addr().String()+path, "application/json", strings.NewReader(body)))(t)
		defer resp.Body.Close()
		b := must.Get(io.ReadAll(resp.Body))(t)
		return resp.StatusCode, string(b)
	}
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"7","operation":"CREATE","kind":{"version":"v1","kind":"Pod"},"object":{"metadata":{},"spec":{"containers":[{"name":"a"}]}}}}`
	if code, body := post("/mutate", review); code != http.StatusOK || !strings.Contains(body, `"patchType":"JSONPatch"`) {
		t.Errorf("mutate: %d %s", code, body)
	}
	if code, body := post("/validate", review); code != http.StatusOK || !strings.Contains(body, `"allowed":true`) {
		t.Errorf("validate: %d %s", code, body)
	}
	if code, _ := post("/mutate", "{"); code != http.StatusBadRequest {
		t.Errorf("not a review: %d", code)
	}
	if code, _ := post("/mutate", `"`+strings.Repeat("x", 8<<20)+`"`); code != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %d", code)
	}
	if code, _ := post("/", review); code != http.StatusNotFound {
		t.Errorf("elsewhere: %d", code)
	}
	client.CloseIdleConnections()
	expect.OK(t, stop(t.Context()))
}
