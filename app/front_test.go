package app_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"github.com/memproxy/memproxy/envoy/xds/xdstest"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves TRL-1: on a real listener, a verified client certificate identifies the
// caller, and one of another authority identifies nobody. The listener's own
// certificate may be renewed.
func TestCertificatesIdentify(t *testing.T) {
	t.Parallel()
	ca, other, dir := must.Get(xdstest.NewCA())(t), must.Get(xdstest.NewCA())(t), t.TempDir()
	must.Do(t, ca.Write(dir, "server"))
	r := start(t, plain, `upstream: "UPSTREAM"}`, fmt.Sprintf(`upstream: "UPSTREAM", tls: {cert: "%[1]s/server.crt", key: "%[1]s/server.key", client_ca: "%[1]s/ca.crt"}}`, dir), "log: {level: info}",
		`  spiffe:
    trust_domain: example.org
    rules:
      - {path: /agents/dev, id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, acts_as: [dev]}
log: {level: error}`)
	base := strings.Replace(r.base, "http:", "https:", 1)
	// try makes a request with a certificate of an authority, or without one.
	try := func(by *xdstest.CA, method, path string, uris ...string) (*http.Response, error) {
		conf := must.Get(by.Client("web", uris...))(t)
		if conf.RootCAs = ca.Pool; uris == nil {
			conf.Certificates = nil
		}
		q := must.Get(http.NewRequest(method, base+path, strings.NewReader(note)))(t)
		q.Header.Set("Content-Type", "application/json")
		client := &http.Client{Timeout: ring.Limit, Transport: &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}}
		resp, err := client.Do(q)
		if err == nil {
			resp.Body.Close()
		}
		return resp, err
	}
	for _, tc := range []struct {
		uris []string
		want int
	}{
		{[]string{"spiffe://example.org/agents/dev"}, 200}, {[]string{"spiffe://example.org/agents/ops"}, 401}, {[]string{"spiffe://example.com/agents/dev"}, 401}, {nil, 401},
	} {
		expect.Equal(t, must.Get(try(ca, "POST", "/memories", tc.uris...))(t).StatusCode, tc.want, "a certificate for", tc.uris)
	}
	if a, err := try(other, "POST", "/memories", "spiffe://example.org/agents/dev"); err == nil && a.StatusCode < 400 {
		t.Errorf("a certificate of another authority: %v", a)
	}
	expect.Equal(t, r.back.count(), 1)
	must.Do(t, ca.Write(dir, "server"))
	renewed := must.Get(tls.LoadX509KeyPair(filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")))(t)
	served := must.Get(try(ca, "GET", "/health"))(t).TLS.PeerCertificates[0]
	expect.Equal(t, string(served.Raw), string(renewed.Certificate[0]), "a renewed certificate is not served")
	expect.Text(t, r.audit("--principal", "agent:dev"), "record").Has(`"method":"spiffe"`)
}

// served runs a sidecar until its log has a text, and returns the log.
func served(t *testing.T, conf, until string) string {
	t.Helper()
	cfg := must.Get(config.Parse("memproxy.yaml", []byte(conf), os.Getenv))(t)
	log, done := &lockedBuffer{}, make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		done <- app.Serve(ctx, cfg, app.Options{Log: log, Getenv: allowing(cfg), Ticker: unpaced, TimeoutFactor: 10}, nil)
	}()
	ring.Until(t, until, func() bool { return strings.Contains(log.String(), until) })
	cancel()
	expect.OK(t, <-done, log.String())
	return log.String()
}

// tokenIssuer is an OpenID provider with one key.
type tokenIssuer struct {
	*httptest.Server
	t      *testing.T
	signer jose.Signer
	away   atomic.Bool // answers 503
}

func newTokenIssuer(t *testing.T) *tokenIssuer {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	i := &tokenIssuer{t: t, signer: must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}, nil))(t)}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case i.away.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/.well-known/openid-configuration":
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
		case r.URL.Path == "/keys":
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k1", Algorithm: "ES256", Use: "sig"}}})
		}
	}))
	t.Cleanup(i.Close)
	return i
}

// token is for a caller of tenant acme.
func (i *tokenIssuer) token(aud, sub string) string {
	i.t.Helper()
	claims := must.Get(json.Marshal(map[string]any{
		"iss": i.URL, "aud": aud, "sub": sub, "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
		"tenant": "acme", "acts_as": []string{"dev"},
	}))(i.t)
	return must.Get(must.Get(i.signer.Sign(claims))(i.t).CompactSerialize())(i.t)
}

// Proves TRL-1: a token of a real issuer identifies the caller in either header, is not
// forwarded, and is refused if its audience differs.
func TestTokensIdentify(t *testing.T) {
	t.Parallel()
	issuer := newTokenIssuer(t)
	r := start(t, plain, "log: {level: info}", `  oidc: {issuer: "`+issuer.URL+`", audience: memproxy, claims: {tenant: tenant, acts_as: acts_as}}
log: {level: info}`)
	good, foreign := issuer.token("memproxy", "dev"), issuer.token("elsewhere", "dev")
	for _, tc := range []struct {
		header []string
		status int
	}{
		{[]string{"Proxy-Authorization", "Bearer " + good}, 200},
		{[]string{"X-Memproxy-Token", good}, 200},
		{[]string{"Proxy-Authorization", "Bearer " + foreign}, 401},
		{[]string{"X-Memproxy-Token", good + "x"}, 401},
		{[]string{"X-Memproxy-Token", good, "Proxy-Authorization", "Bearer " + foreign}, 401},
	} {
		// The client's backend key is forwarded, and does not identify the caller.
		r.do("POST", "/memories", note, append(tc.header, "X-API-Key", "m0sk_backend")...).want(t, tc.status, tc.header)
	}
	for _, h := range r.back.seen {
		expect.Equal(t, h.Get("X-Memproxy-Token")+h.Get("Proxy-Authorization"), "", "the backend saw", h)
		expect.Equal(t, h.Get("X-Api-Key"), "m0sk_backend", "the backend saw", h)
	}
	expect.Text(t, r.audit("--principal", "oidc:dev")).Times(2, `"type":"decision"`).Has(`"method":"oidc"`)
}

// Proves EDGE-18: what prevents a start names the setting, or its line, and what to do.
func TestFailedStartsNameTheSetting(t *testing.T) {
	t.Parallel()
	dir := ring.Dir(t)
	must.Do(t, must.Get(xdstest.NewCA())(t).Write(dir, "web"))
	cert := filepath.Join(dir, "web.crt")
	file := writeFile(t, filepath.Join(dir, "a file"), "")
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	for _, c := range []struct{ name, state, listen, more, backend, want string }{
		{"a state that cannot be made", file, "", "", "", "set state to a directory that the user memproxy runs as may make and write to"},
		{"a port in use", "", taken.Addr().String(), "", "", "mem0: listen tcp " + taken.Addr().String() + ": bind: address already in use; choose another listen address, or stop what uses it"},
		{"no certificate", "", "", "", `, tls: {cert: "/nope.crt", key: "` + cert + `"}`, "backend mem0: tls: cert and key: "},
		{"a key that is none", "", "", "", `, tls: {cert: "` + cert + `", key: "` + cert + `"}`, "backend mem0: tls: cert and key: "},
		{"no roots of the backend", "", "", "", `, tls: {upstream_ca: "/nope.crt"}`, "backend mem0: tls.upstream_ca: "},
		{"no signing key", "", "", `audit: {key_file: "/nope.key"}`, "", "memproxy.yaml:8: audit.key_file: "},
		{"no file of a reference", "", "", "", `, credential: "file:/nope.credential"`, "memproxy.yaml:5: open /nope.credential: no such file or directory; file: names a file that the user memproxy runs as can read"},
	} {
		text := fmt.Sprintf(`profile: production
state: "%s"
admin: {listen: "127.0.0.1:0"}
backends:
  - {name: mem0, kind: mem0, listen: "%s", upstream: "http://127.0.0.1:9"%s}
identity:
  keys: [{sha256: "%s", id: "agent:dev", kind: agent, trust: authenticated}]
%s
`, cmp.Or(c.state, ring.Dir(t)), cmp.Or(c.listen, "127.0.0.1:0"), c.backend, sha("k"), c.more)
		cfg, err := config.Parse("memproxy.yaml", []byte(text), os.Getenv)
		if err == nil {
			err = app.Serve(t.Context(), cfg, app.Options{Log: io.Discard, Getenv: os.Getenv}, nil)
		}
		expect.ErrorHas(t, err, c.want, c.name)
	}
}

// Proves EDGE-18: a certificate that is not valid is in the log, because clients report it
// to nobody who can replace it; a valid one is not.
func TestExpiredCertificatesAreLogged(t *testing.T) {
	t.Parallel()
	dir, text := t.TempDir(), `{name: plain, kind: mem0, listen: "127.0.0.1:0", upstream: "http://127.0.0.1:9"}`
	for name, after := range map[string]time.Duration{"valid": 0, "ending": -30 * time.Minute, "expired": -2 * time.Hour, "early": 2 * time.Hour} {
		key, at := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t), time.Now().Add(after)
		cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: at.Add(-time.Hour), NotAfter: at.Add(time.Hour)}
		file := writeFile(t, filepath.Join(dir, name+".pem"), string(slices.Concat(
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: must.Get(x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key))(t)}),
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(key))(t)}))))
		text += fmt.Sprintf(`, {name: %s, kind: mem0, listen: "127.0.0.1:0", upstream: "http://127.0.0.1:9", tls: {cert: %q, key: %[2]q}}`, name, file)
	}
	text = fmt.Sprintf("profile: development\nlog: {format: json}\nstate: %q\nadmin: {listen: \"127.0.0.1:0\"}\nbackends: [%s]\n", stateDir(t), text)
	var said []string
	for line := range strings.Lines(served(t, text, `"name":"admin"`)) {
		if _, backend, ok := strings.Cut(line, `replace the files of tls.cert and tls.key","backend":"`); ok {
			said = append(said, backend[:strings.Index(backend, `"`)])
		}
	}
	slices.Sort(said)
	expect.Equal(t, strings.Join(said, " "), "early expired")
}
