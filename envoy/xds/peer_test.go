package xds_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/policy"
)

// Each refusal is next to a similar case that is admitted.
// Proves CARD-9
func TestAuthorise(t *testing.T) {
	rules := []xds.Rule{
		{SPIFFE: "spiffe://example.org/ns/acme/sa/*", Tenant: "acme", Labels: map[string][]string{"env": {"prod", "test"}, "region": {"*"}}},
		{SPIFFE: "spiffe://example.org/ns/*/sa/sidecar", Tenant: "*"},
		{CommonName: "sidecar-*.acme", Tenant: "acme"},
		{CommonName: "plain"},
	}
	type identity struct{ spiffe, name string }
	web, named := identity{spiffe: "spiffe://example.org/ns/acme/sa/web"}, identity{name: "sidecar-7.acme"}
	f := newFleet(t, func(o *xds.Options) { o.Rules = rules })
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
		var uris []string
		if tc.who.spiffe != "" {
			uris = []string{tc.who.spiffe}
		}
		got := f.ask(f.client(tc.who.name, uris...), assignment(fleetpb.Node{ID: "x", Tenant: tc.tenant, Labels: tc.labels}))
		expect.Equal(t, got, map[bool]codes.Code{true: codes.OK, false: codes.PermissionDenied}[tc.want], tc.name)
	}
}

func TestIdentityOfACertificate(t *testing.T) {
	f := newFleet(t, func(o *xds.Options) { o.Rules = []xds.Rule{{SPIFFE: "spiffe://*/*"}, {CommonName: "*"}} })
	for i, tc := range []struct {
		name, common string
		uris         []string
		want         string
	}{
		{"a SPIFFE id before a name", "n", []string{"https://x", "spiffe://d/p"}, "spiffe://d/p"},
		{"a name", "n", nil, "CN=n"},
		{"two SPIFFE ids", "", []string{"spiffe://d/p", "spiffe://d/q"}, ""},
		{"nothing", "", nil, ""},
	} {
		id, got := fmt.Sprint("sidecar-", i), ""
		code := f.ask(f.client(tc.common, tc.uris...), assignment(fleetpb.Node{ID: id}))
		for _, s := range f.server.Sidecars() {
			if s.ID == id {
				got = s.Certificate
			}
		}
		expect.Equal(t, got, tc.want, tc.name, code)
		expect.Equal(t, code, map[bool]codes.Code{true: codes.OK, false: codes.Unauthenticated}[tc.want != ""], tc.name)
	}
}

// refusing is a sidecar that subscribes to a release and refuses it.
type refusing struct {
	discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	t    *testing.T
	name string
}

func (f *fleet) refusing(node fleetpb.Node, uri string, r *policy.Release) *refusing {
	f.t.Helper()
	conn := must.Get(grpc.NewClient(f.addr, grpc.WithTransportCredentials(credentials.NewTLS(f.client("", uri)))))(f.t)
	f.t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(f.t.Context(), ring.Limit)
	f.t.Cleanup(cancel)
	s := &refusing{must.Get(discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx))(f.t), f.t, r.Name()}
	must.Do(f.t, s.Send(assignment(node)))
	return s
}

// refuse subscribes anew, and refuses what it gets.
func (s *refusing) refuse(code int32, reason string) {
	s.t.Helper()
	must.Do(s.t, s.Send(want(s.name)))
	var got *discovery.DeltaDiscoveryResponse
	for got.GetTypeUrl() != fleetpb.ReleaseType || len(got.GetResources()) == 0 {
		got = must.Get(s.Recv())(s.t)
	}
	must.Do(s.t, s.Send(&discovery.DeltaDiscoveryRequest{
		TypeUrl: fleetpb.ReleaseType, ResponseNonce: got.GetNonce(), ErrorDetail: &statuspb.Status{Code: code, Message: reason}, ResourceNamesUnsubscribe: []string{s.name},
	}))
}

// end returns once all was read.
func (s *refusing) end() {
	s.t.Helper()
	must.Do(s.t, s.Send(want("*"))) // no release: the server ends the stream
	for err := error(nil); err == nil; {
		_, err = s.Recv()
	}
}

// Proves CARD-9: a sidecar that keeps refusing releases, or is kept from connecting, does not
// fill the log; another certificate's refusal is handled as usual, and so is the next one a
// minute later.
func TestRepeatedRefusalsAreRateLimited(t *testing.T) {
	const most = 16
	var log bytes.Buffer
	f := newFleet(t, func(o *xds.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	one := f.publish(1, 1, everyone)
	refuse := func(id, uri string, times, logged int) {
		t.Helper()
		log.Reset()
		s := f.refusing(fleetpb.Node{ID: id, Tenant: "acme"}, uri, one)
		for i := range times {
			s.refuse(int32(codes.InvalidArgument), fmt.Sprint("no ", i))
		}
		s.end()
		expect.Equal(t, strings.Count(log.String(), "refused a release"), logged, id)
		for _, n := range f.server.Sidecars() {
			if n.ID == id {
				expect.Equal(t, n.Rejected.Reason, fmt.Sprint("no ", times-1), "its last refusal")
			}
		}
	}
	const honest = "spiffe://example.org/ns/acme/honest"
	refuse("liar", acme, 3*most, most)
	refuse("honest", honest, 1, 1)
	f.clock.forward(time.Minute)
	refuse("liar", acme, 1, 1)
	log.Reset()
	for range 3 * most {
		must.Equal(t, f.ask(f.client("", honest), assignment(fleetpb.Node{ID: "a\x00b"})), codes.InvalidArgument)
	}
	expect.Equal(t, strings.Count(log.String(), "is rejected"), most)
}

// Proves EDGE-9: a sidecar that got a release after its assignment was taken back neither
// runs nor refuses it, so that release is not stopped. Another reason is a refusal.
func TestReleasesThatAreNoLongerAssignedAreNotRefused(t *testing.T) {
	f := newFleet(t)
	one, two := f.publish(1, 1, everyone), f.publish(2, 1, everyone)
	for code, rejected := range map[int32]bool{int32(fleetpb.Unassigned): false, int32(codes.InvalidArgument): true} {
		node := fleetpb.Node{ID: fmt.Sprint("sidecar-", code), Tenant: "acme", Running: one.Name()}
		s := f.refusing(node, acme, two)
		s.refuse(code, "no")
		s.end()
		for _, s := range f.server.Sidecars() {
			if s.ID == node.ID {
				expect.Equal(t, s.Rejected != nil, rejected, code)
				expect.Equal(t, s.Running, one.Name(), code)
			}
		}
	}
}
