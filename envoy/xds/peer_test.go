package xds

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"testing"

	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
)

// Each refusal beside the nearest thing that is admitted.
// Proves CARD-9
func TestAuthorise(t *testing.T) {
	rules := []Rule{
		{SPIFFE: "spiffe://example.org/ns/acme/sa/*", Tenant: "acme", Labels: map[string][]string{"env": {"prod", "test"}, "region": {"*"}}},
		{SPIFFE: "spiffe://example.org/ns/*/sa/sidecar", Tenant: "*"},
		{CommonName: "sidecar-*.acme", Tenant: "acme"},
		{CommonName: "plain"},
	}
	web, named := identity{spiffe: "spiffe://example.org/ns/acme/sa/web"}, identity{name: "sidecar-7.acme"}
	for _, tc := range []struct {
		name   string
		who    identity
		tenant string
		labels map[string]string
		want   bool
	}{
		{"its tenant", web, "acme", nil, true},
		{"another tenant", web, "other", nil, false},
		{"no tenant", web, "", nil, false},
		{"its label", web, "acme", map[string]string{"env": "prod"}, true},
		{"another value", web, "acme", map[string]string{"env": "dev"}, false},
		{"any value", web, "acme", map[string]string{"region": "moon"}, true},
		{"another label", web, "acme", map[string]string{"zone": "a"}, false},
		{"a segment more", identity{spiffe: "spiffe://example.org/ns/acme/sa/web/x"}, "acme", nil, false},
		{"an empty segment", identity{spiffe: "spiffe://example.org/ns/acme/sa/"}, "acme", nil, false},
		{"another trust domain", identity{spiffe: "spiffe://example.com/ns/acme/sa/web"}, "acme", nil, false},
		{"any tenant where that is written", identity{spiffe: "spiffe://example.org/ns/x/sa/sidecar"}, "x", nil, true},
		{"the first rule that fits counts", identity{spiffe: "spiffe://example.org/ns/acme/sa/sidecar"}, "x", nil, false},
		{"a common name", named, "acme", nil, true},
		{"a common name beside a SPIFFE id", identity{spiffe: "spiffe://example.com/x", name: "sidecar-7.acme"}, "acme", nil, false},
		{"nothing for the star", identity{name: "sidecar-.acme"}, "acme", nil, false},
		{"no tenant where none is written", identity{name: "plain"}, "", nil, true},
		{"a tenant where none is written", identity{name: "plain"}, "acme", nil, false},
		{"no rule", identity{name: "plainer"}, "", nil, false},
	} {
		err := authorise(rules, tc.who, fleetpb.Node{ID: "x", Tenant: tc.tenant, Labels: tc.labels})
		if (err == nil) != tc.want {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestIdentityOfACertificate(t *testing.T) {
	uri := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for _, tc := range []struct {
		name string
		cert x509.Certificate
		want string
	}{
		{"a SPIFFE id before a name", x509.Certificate{Subject: pkix.Name{CommonName: "n"}, URIs: []*url.URL{uri("https://x"), uri("spiffe://d/p")}}, "spiffe://d/p"},
		{"a name", x509.Certificate{Subject: pkix.Name{CommonName: "n"}}, "CN=n"},
		{"two SPIFFE ids", x509.Certificate{URIs: []*url.URL{uri("spiffe://d/p"), uri("spiffe://d/q")}}, ""},
		{"nothing", x509.Certificate{}, ""},
	} {
		id, err := identityOf(&tc.cert)
		if (err == nil) != (tc.want != "") || err == nil && id.String() != tc.want {
			t.Errorf("%s: %v %v", tc.name, id, err)
		}
	}
}
