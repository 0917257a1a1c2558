package identity_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/identity"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves TRL-1, CARD-10: the tokens of a cluster contain only a service account's name;
// the first matching rule gives the principal, and subjects without a match are
// refused.
func TestSubjectsByRule(t *testing.T) {
	named := memproxy.Principal{ID: "agent:reader", Kind: memproxy.KindAgent, Tenant: "acme", Trust: memproxy.TrustEstablished, Roles: []string{"reader"}}
	own := memproxy.Principal{Kind: memproxy.KindAgent, Tenant: "acme", Trust: memproxy.TrustAuthenticated, ActsAs: memproxy.Limit{Values: []string{"dev"}}}
	d := newDesk(t, func(o *identity.OIDCOptions) {
		o.Prefix = ""
		o.Claims = identity.Claims{Roles: "groups", Tenant: "org", Trust: "tier"}
		o.Rules = []identity.Rule{
			{Name: "system:serviceaccount:team-a:reader", Principal: named},
			{Name: "system:serviceaccount:team-a:*", Principal: own},
		}
	})
	named.Method, own.Method, own.ID = "oidc", "oidc", "system:serviceaccount:team-a:writer"
	for subject, want := range map[string]memproxy.Principal{
		"system:serviceaccount:team-a:reader": named,
		"system:serviceaccount:team-a:writer": own,
	} {
		// Other claims are not read.
		expect.Deep(t, d.accept(d.token("sub", subject, "groups", []string{"admin"}, "org", "other", "tier", "human")), want, subject)
	}
	for _, subject := range []string{
		"system:serviceaccount:team-b:reader", "system:serviceaccount:team-a:", "system:serviceaccount:team-a", "system:serviceaccount:team-a:reader:x",
		"xsystem:serviceaccount:team-a:reader", "system:serviceaccount:team-a2:reader", "*",
	} {
		d.refuse(d.token("sub", subject))
	}
}

// Proves TRL-1: an issuer that requires a token gets the current one for discovery and
// keys; without one no token is accepted, and it is never sent in the clear.
func TestTokenForTheIssuer(t *testing.T) {
	d := newDesk(t, nil)
	token, gone := "first", error(nil)
	tls := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer second" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		d.serve(w, r)
	}))
	defer tls.Close()
	plain := d.server
	d.server = tls
	defer func() { d.server = plain }()
	opt := d.options()
	opt.Issuer, opt.Prefix, opt.Client = tls.URL, "", tls.Client()
	opt.Bearer = func() (string, error) { return token, gone }
	o := identity.NewOIDC(opt)
	d.id = must.Get(identity.New(identity.Options{OIDC: o}))(t)
	d.breakage(d.token())
	d.Advance(2 * time.Second)
	gone = errors.New("no such file")
	d.breakage(d.token())
	d.Advance(2 * time.Second)
	token, gone = "second", nil // replaced on disk
	expect.Equal(t, d.accept(d.token()).ID, "42")
}

// After a redirect, neither are keys of an https issuer fetched in the clear, nor is
// the token for the issuer sent there.
func TestRedirectsStayOnHTTPS(t *testing.T) {
	d := newDesk(t, nil)
	plain := d.server
	tls := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			http.Redirect(w, r, plain.URL+"/keys", http.StatusFound)
			return
		}
		d.serve(w, r)
	}))
	defer tls.Close()
	d.server = tls
	defer func() { d.server = plain }()
	opt := d.options()
	opt.Issuer, opt.Client = tls.URL, tls.Client()
	o := identity.NewOIDC(opt)
	d.id = must.Get(identity.New(identity.Options{OIDC: o}))(t)
	d.breakage(d.token())
	expect.Equal(t, d.requests("/keys"), 0)
}

// Proves TRL-1, EDGE-14: a request caused by a web page of another site in a browser on
// this machine does not count as one without a credential; programs and pages of this
// machine do.
func TestPagesPresentCredentials(t *testing.T) {
	fallback := who("any")
	id := must.Get(identity.New(identity.Options{Default: &fallback, Keys: []identity.Key{{SHA256: hash("key-a"), Principal: who("a")}}}))(t)
	const loopback, pod = "127.0.0.1", "10.1.2.3"
	for _, tc := range []struct {
		what, peer, host, origin, site string
		served                         bool
	}{
		{"a program", loopback, "127.0.0.1:8081", "", "", true},
		{"a program, by name", loopback, "localhost:8081", "", "", true},
		{"by an address of version 6", "::1", "[::1]:8081", "", "", true},
		{"by a name of one label", loopback, "mem0:8081", "", "", true},
		{"from a container", loopback, "host.docker.internal:8081", "", "", true},
		{"by the name of a service", loopback, "mem0.memory.svc.cluster.local:8081", "", "", true},
		{"without a host", loopback, "", "", "", true},
		{"another pod, by a service's name", pod, "memproxy.tools.svc.example.org", "", "", true},
		{"its own page", pod, "memory.example.org", "https://memory.example.org", "same-origin", true},
		{"an address in the bar", loopback, "127.0.0.1:8081", "", "none", true},
		{"a page of this machine", loopback, "127.0.0.1:8081", "http://localhost:3000", "cross-site", true},
		{"a page of this machine by address", loopback, "localhost:8081", "http://127.0.0.1:3000", "cross-site", true},
		{"a page of elsewhere", loopback, "127.0.0.1:8081", "https://evil.example", "cross-site", false},
		{"an old browser's", loopback, "127.0.0.1:8081", "https://evil.example", "", false},
		{"a frame without an origin", loopback, "127.0.0.1:8081", "null", "cross-site", false},
		{"a picture's address", loopback, "127.0.0.1:8081", "", "cross-site", false},
		{"a page of a neighbour", pod, "memory.example.org", "", "same-site", false},
		{"a page of elsewhere to a pod", pod, "10.1.2.4:8081", "https://evil.example", "", false},
		{"a name that was led here", loopback, "evil.example:8081", "http://evil.example:8081", "same-origin", false},
		{"such a name alone", loopback, "evil.example:8081", "", "", false},
		{"such a name over version 6", "::ffff:127.0.0.1", "evil.example", "", "", false},
		{"a name that looks like loopback's", loopback, "127.0.0.1.evil.example", "", "", false},
		{"an origin that looks like loopback's", loopback, "127.0.0.1:8081", "http://localhost.evil.example", "", false},
	} {
		h := memproxy.Header{}
		for name, v := range map[string]string{"Origin": tc.origin, "Sec-Fetch-Site": tc.site} {
			if v != "" {
				h[name] = []string{v}
			}
		}
		c := memproxy.Credentials{Header: h, Peer: tc.peer, Host: tc.host}
		p, err := id.Identify(t.Context(), c)
		var no *memproxy.CredentialError
		if (err == nil) != tc.served || err == nil && p.ID != "any" || err != nil && (!errors.As(err, &no) || no.Code != memproxy.IdentityMissing) {
			t.Errorf("%s: %+v, %v", tc.what, p, err)
		}
		h["X-Api-Key"] = []string{"key-a"}
		expect.Equal(t, must.Get(id.Identify(t.Context(), c))(t, tc.what).ID, "a", tc.what, "with a credential")
	}
}
