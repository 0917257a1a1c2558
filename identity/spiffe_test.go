package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/identity"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// authority is a certificate authority for the test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.key = a.newKey()
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.cert = a.make(tmpl, tmpl, &a.key.PublicKey)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.t.Helper()
	return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a.t)
}

func (a *authority) make(tmpl, parent *x509.Certificate, pub *ecdsa.PublicKey) *x509.Certificate {
	a.t.Helper()
	der := must.Get(x509.CreateCertificate(rand.Reader, tmpl, parent, pub, a.key))(a.t)
	return must.Get(x509.ParseCertificate(der))(a.t)
}

// issue makes a certificate with URIs.
func (a *authority) issue(uris ...string) tls.Certificate {
	a.t.Helper()
	a.n++
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(a.n + 1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for _, raw := range uris {
		u := must.Get(url.Parse(raw))(a.t)
		tmpl.URIs = append(tmpl.URIs, u)
	}
	k := a.newKey()
	return tls.Certificate{Certificate: [][]byte{a.make(tmpl, a.cert, &k.PublicKey).Raw}, PrivateKey: k}
}

// handshake makes a TLS connection with a client certificate (nil: none) and returns
// what the server may believe, as the HTTP front end does: the URIs of a verified
// certificate.
func handshake(t *testing.T, server *authority, auth tls.ClientAuthType, cert *tls.Certificate) (memproxy.Credentials, error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(server.cert)
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	conf := &tls.Config{ServerName: "127.0.0.1", RootCAs: roots}
	if cert != nil {
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := tls.Client(near, conf)
		if c.Handshake() == nil {
			_, _ = c.Read(make([]byte, 1)) // until the server closes: TLS 1.3 verifies after the client is done
		}
	}()
	s := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{server.issue()}, ClientAuth: auth, ClientCAs: roots})
	err := s.Handshake()
	var c memproxy.Credentials
	if state := s.ConnectionState(); err == nil && len(state.VerifiedChains) > 0 {
		for _, u := range state.PeerCertificates[0].URIs {
			c.PeerURIs = append(c.PeerURIs, u.String())
		}
	}
	_ = far.Close()
	<-done
	return c, err
}

// Proves TRL-1: only a certificate that was verified against the configured roots in a
// real handshake identifies the caller.
func TestSPIFFE(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	s := must.Get(identity.NewSPIFFE("example.org", nil))(t)
	id := must.Get(identity.New(identity.Options{SPIFFE: s, Keys: []identity.Key{{SHA256: hash("key-a"), Principal: who("a")}}}))(t)
	for _, c := range []struct {
		name  string
		from  *authority
		uris  []string
		key   bool // with a known backend key
		want  string
		code  memproxy.ReasonCode
		shake bool // the handshake itself fails
	}{
		{name: "of the domain", from: ca, uris: []string{"spiffe://example.org/ns/dev/sa/ci"}, want: "spiffe://example.org/ns/dev/sa/ci"},
		{name: "beside another caller's key", from: ca, uris: []string{"spiffe://example.org/ci"}, key: true, code: memproxy.IdentityInvalid},
		{name: "of another domain", from: ca, uris: []string{"spiffe://example.com/ci"}, code: memproxy.IdentityInvalid},
		{name: "of another domain beside a key", from: ca, uris: []string{"spiffe://example.com/ci"}, key: true, code: memproxy.IdentityInvalid},
		{name: "of a domain that ends alike", from: ca, uris: []string{"spiffe://evil-example.org/ci"}, code: memproxy.IdentityInvalid},
		{name: "two names", from: ca, uris: []string{"spiffe://example.org/ci", "spiffe://example.org/admin"}, code: memproxy.IdentityInvalid},
		{name: "a name and a link", from: ca, uris: []string{"spiffe://example.org/ci", "https://example.org/"}, code: memproxy.IdentityInvalid},
		{name: "only a link", from: ca, uris: []string{"https://example.org/ci"}, code: memproxy.IdentityInvalid},
		{name: "with a port", from: ca, uris: []string{"spiffe://example.org:443/ci"}, code: memproxy.IdentityInvalid},
		{name: "with a user", from: ca, uris: []string{"spiffe://root@example.org/ci"}, code: memproxy.IdentityInvalid},
		{name: "with a query", from: ca, uris: []string{"spiffe://example.org/ci?role=admin"}, code: memproxy.IdentityInvalid},
		{name: "the longest", from: ca, uris: []string{"spiffe://example.org/" + strings.Repeat("a", 459)}, want: "spiffe://example.org/" + strings.Repeat("a", 459)},
		{name: "too long", from: ca, uris: []string{"spiffe://example.org/" + strings.Repeat("a", 460)}, code: memproxy.IdentityInvalid},
		{name: "with dots", from: ca, uris: []string{"spiffe://example.org/ci/../admin"}, code: memproxy.IdentityInvalid},
		// A certificate without a URI counts as none.
		{name: "no name", from: ca, code: memproxy.IdentityMissing},
		{name: "no name beside a key", from: ca, key: true, want: "a"},
		{name: "no certificate", code: memproxy.IdentityMissing},
		{name: "from a stranger", from: stranger, uris: []string{"spiffe://example.org/ci"}, shake: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cert *tls.Certificate
			if c.from != nil {
				made := c.from.issue(c.uris...)
				cert = &made
			}
			creds, err := handshake(t, ca, tls.VerifyClientCertIfGiven, cert)
			if c.shake {
				must.Error(t, err, "a stranger's certificate")
				must.Len(t, creds.PeerURIs, 0, "a stranger's certificate")
				return
			}
			must.Do(t, err)
			if c.key {
				creds.Header = header("X-Api-Key", "key-a")
			}
			p, err := id.Identify(t.Context(), creds)
			if c.want == "" {
				refused(t, err, c.code)
				return
			}
			must.Do(t, err, p)
			must.Equal(t, p.ID, c.want, p)
		})
	}
}

// A certificate that expired on its connection is refused; its caller becomes neither the
// default principal nor the owner of a key that is presented too. A token is for whom a
// gateway connects, whatever its certificate.
func TestExpiredCertificate(t *testing.T) {
	s := must.Get(identity.NewSPIFFE("example.org", nil))(t)
	fallback := who("any")
	id := must.Get(identity.New(identity.Options{SPIFFE: s, Default: &fallback, Keys: []identity.Key{{SHA256: hash("key-a"), Principal: who("a")}}}))(t)
	for _, h := range []memproxy.Header{nil, header("X-Api-Key", "key-a")} {
		_, err := id.Identify(t.Context(), memproxy.Credentials{Header: h, PeerURIs: []string{"spiffe://example.org/ci"}, PeerExpired: true})
		refused(t, err, memproxy.IdentityInvalid)
	}
	p := must.Get(id.Identify(t.Context(), memproxy.Credentials{Header: header("X-Memproxy-Token", "key-a"), PeerURIs: []string{"spiffe://example.org/ci"}, PeerExpired: true}))(t)
	expect.Equal(t, p.ID, "a")
}

// A certificate that was not verified is ignored.
func TestUnverifiedCertificate(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	cert := stranger.issue("spiffe://example.org/admin")
	for _, auth := range []tls.ClientAuthType{tls.RequestClientCert, tls.RequireAnyClientCert} {
		must.Len(t, must.Get(handshake(t, ca, auth, &cert))(t).PeerURIs, 0, auth)
	}
	// Without SPIFFE configured a verified name is ignored too.
	fallback := who("any")
	id := must.Get(identity.New(identity.Options{Default: &fallback}))(t)
	expect.Equal(t, must.Get(id.Identify(t.Context(), memproxy.Credentials{PeerURIs: []string{"spiffe://example.org/admin"}}))(t).ID, "any")
}

func TestSPIFFERules(t *testing.T) {
	ci := who("agent:ci")
	ci.Tenant, ci.Roles, ci.ActsAs = "acme", []string{"dev"}, memproxy.Limit{Values: []string{"ci"}}
	s := must.Get(identity.NewSPIFFE("example.org", []identity.Rule{
		{Name: "/ns/prod/sa/ci", Principal: ci},
		{Name: "/ns/*/sa/worker", Principal: memproxy.Principal{Kind: memproxy.KindService, Trust: memproxy.TrustEstablished}},
		{Name: "/ns/prod/sa/*", Principal: who("first of two")},
	}))(t)
	id := must.Get(identity.New(identity.Options{SPIFFE: s}))(t)
	for path, want := range map[string]string{
		"/ns/prod/sa/ci": "agent:ci", "/ns/dev/sa/worker": "spiffe://example.org/ns/dev/sa/worker", "/ns/prod/sa/worker": "spiffe://example.org/ns/prod/sa/worker",
		"/ns/prod/sa/other": "first of two", "/ns/dev/sa/ci": "", "/ns/prod/sa/ci/x": "", "/ns/prod/sa": "", "/ns/a/b/sa/worker": "", "": "", "/NS/prod/sa/ci": "",
	} {
		p, err := id.Identify(t.Context(), memproxy.Credentials{PeerURIs: []string{"spiffe://example.org" + path}})
		if want == "" {
			var no *memproxy.CredentialError
			if !errors.As(err, &no) {
				t.Errorf("%s: %+v, %v", path, p, err)
			}
			continue
		}
		if err != nil || p.ID != want || p.Method != "spiffe" {
			t.Errorf("%s: %+v, %v; want %s", path, p, err, want)
		}
	}
	for _, domain := range []string{"", "Example.org", "spiffe://", "a b"} {
		expect.Error(t, expect.Err(identity.NewSPIFFE(domain, nil)), "trust domain", domain, "was taken")
	}
	expect.Error(t, expect.Err(identity.NewSPIFFE("example.org", []identity.Rule{{Name: "ns"}})), "a path without a slash was taken")
}
