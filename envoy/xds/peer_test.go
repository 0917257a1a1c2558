package xds

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Each refusal is next to a similar case that is admitted.
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
		return must.Get(url.Parse(s))(t)
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

// The node ids of a certificate are bounded: over the bound those are removed that
// disconnected first, and none is admitted while all are connected.
//
// Proves CARD-9
func TestNodeIDsAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := must.Get(New(Options{
		Fleet: "north", Store: &Dir{}, Report: time.Hour, Rules: []Rule{{CommonName: "*"}}, Clock: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	}))(t)
	mine, theirs := identity{name: "mine"}, identity{name: "theirs"}
	admit := func(who identity, id string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		now = now.Add(time.Second)
		return s.admit(&stream{who: who, nonces: map[string]string{}}, fleetpb.Node{ID: id}.Core())
	}
	for i := range maxSidecars {
		must.Do(t, admit(mine, fmt.Sprint(i)))
	}
	if err := admit(mine, "more"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more than may be connected: %v", err)
	}
	expect.OK(t, admit(mine, "7"), "one that is known")
	expect.OK(t, admit(theirs, "more"), "another certificate")
	s.nodes[sidecarKey{mine, "9"}].stream, s.nodes[sidecarKey{mine, "8"}].stream = nil, nil
	if err := admit(mine, "more"); err != nil || s.nodes[sidecarKey{mine, "8"}] != nil || s.nodes[sidecarKey{mine, "9"}] == nil {
		t.Errorf("in the place of one that went: %v", err)
	}
}

// Responses that are not acknowledged are not kept for ever.
//
// Proves CARD-9
func TestNoncesAreBounded(t *testing.T) {
	want := subscription{fleetpb.ReleaseType, "one"}
	st := &stream{nonces: map[string]string{}, has: map[subscription]string{want: ""}}
	s := &Server{packed: map[string]*anypb.Any{"one": {}}}
	for range 10 * maxNonces {
		expect.Equal(t, s.next(st).GetResources()[0].GetName(), "one")
		expect.Equal(t, s.next(st) == nil, true, "it is sent again")
		st.has[want] = "" // a new subscription
	}
	if n := len(st.nonces); n == 0 || n > maxNonces || st.nonces[fmt.Sprint(10*maxNonces)] != "one" {
		t.Errorf("%d are kept", n)
	}
}
