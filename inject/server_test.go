package inject_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/proxy"
)

// writePair writes a self-signed certificate for 127.0.0.1.
func writePair(t *testing.T, dir string, serial int64, until time.Time) (cert, key string) {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, tmpl, tmpl, private.Public(), private))(t)
	keyDER := must.Get(x509.MarshalPKCS8PrivateKey(private))(t)
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		must.Do(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return cert, key
}

// The server answers reviews over HTTPS, and nothing else.
func TestServe(t *testing.T) {
	now := time.Now()
	cert, key := writePair(t, t.TempDir(), 1, now.Add(time.Hour))
	c := must.Get(inject.LoadCertificate(cert, key, time.Now, nil))(t)
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	stop, _ := proxy.Serve(frontend.Limit(ln, frontend.ListenOptions{}), proxy.ServerOptions{Handler: testInjector(t).Handler(slog.New(slog.DiscardHandler)), TLS: c.TLS()})
	pair := must.Get(c.TLS().GetCertificate(nil))(t)
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: 30 * time.Second}
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

// A renewed certificate is used, a broken renewal is not, and an expired certificate
// makes the webhook unready.
func TestCertificateIsRenewed(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1_800_000_000, 0)
	cert, key := writePair(t, dir, 1, now.Add(time.Hour))
	clock := now
	c := must.Get(inject.LoadCertificate(cert, key, func() time.Time { return clock }, nil))(t)
	serial := func() int64 {
		pair := must.Get(c.TLS().GetCertificate(nil))(t)
		return pair.Leaf.SerialNumber.Int64()
	}
	changed := func(file string, n time.Duration) { // modification times must differ
		must.Do(t, os.Chtimes(file, now, now.Add(n*time.Second)))
	}
	expect.Equal(t, serial(), 1, "serial")
	writePair(t, dir, 2, now.Add(2*time.Hour))
	changed(cert, 1)
	expect.Equal(t, serial(), 2, "the renewed certificate is not used: serial")
	must.Do(t, os.WriteFile(cert, []byte("half"), 0o600))
	changed(cert, 2)
	expect.Equal(t, serial(), 2, "serial")
	expect.OK(t, c.Ready(), "not ready with a good certificate")
	clock = now.Add(3 * time.Hour)
	expect.Error(t, c.Ready(), "ready with an expired certificate")
	expect.Error(t, expect.Err(inject.LoadCertificate(cert, key, time.Now, nil)), "started without a certificate")
}
