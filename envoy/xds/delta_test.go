package xds_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/policy"
)

// Proves CARD-9: the control plane's end of delta xDS. A resource is sent when it is
// subscribed to, again when it has changed or is subscribed to again, and not if the
// sidecar says that it has it; one that is gone is removed, and sent once it is there again;
// one that was given up is not sent again.
func TestDeltaSubscriptions(t *testing.T) {
	f := newFleet(t)
	one := f.publish(1, 1, policy.Selector{Tenant: "acme"})
	conn := must.Get(grpc.NewClient(f.addr, grpc.WithTransportCredentials(credentials.NewTLS(f.client("", acme)))))(t)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), ring.Limit)
	defer cancel()
	stream := must.Get(discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx))(t)
	send := func(q *discovery.DeltaDiscoveryRequest) {
		t.Helper()
		must.Do(t, stream.Send(q))
	}
	seen := map[string]bool{}
	next := func(kind, name, removed string) (version string) {
		t.Helper()
		resp := must.Get(stream.Recv())(t)
		expect.Equal(t, resp.GetTypeUrl(), kind)
		expect.Equal(t, seen[resp.GetNonce()], false, "a nonce is used twice")
		seen[resp.GetNonce()] = true
		if removed != "" {
			expect.List(t, resp.GetRemovedResources(), []string{removed}, "removed")
			expect.Len(t, resp.GetResources(), 0)
			return ""
		}
		must.Equal(t, len(resp.GetResources()), 1)
		expect.Equal(t, resp.GetResources()[0].GetName(), name)
		return resp.GetResources()[0].GetVersion()
	}
	node := fleetpb.Node{ID: "a", Tenant: "acme"}

	send(assignment(node))
	first := next(fleetpb.AssignmentType, "a", "")
	send(want(one.Name()))
	version := next(fleetpb.ReleaseType, one.Name(), "")
	send(want(one.Name()))
	expect.Equal(t, next(fleetpb.ReleaseType, one.Name(), ""), version, "subscribed to again")

	// What the sidecar says that it has is not sent: the next answer is to the next request.
	known := want(one.Name())
	known.InitialResourceVersions = map[string]string{one.Name(): version}
	send(known)
	send(assignment(node))
	expect.Equal(t, next(fleetpb.AssignmentType, "a", ""), first)

	// A change of the assignment is sent without a request, and so is the end of a release.
	two := f.publish(2, 2, policy.Selector{Tenant: "acme"})
	if version := next(fleetpb.AssignmentType, "a", ""); version == first {
		t.Errorf("version %s of another assignment", version)
	}
	send(want(two.Name()))
	next(fleetpb.ReleaseType, two.Name(), "")
	send(&discovery.DeltaDiscoveryRequest{TypeUrl: fleetpb.ReleaseType, ResourceNamesUnsubscribe: []string{two.Name()}})
	send(assignment(node))
	next(fleetpb.AssignmentType, "a", "")
	path := filepath.Join(f.path, xds.ReleaseFile(one.Number))
	must.Do(t, os.Rename(path, path+".away"))
	f.refresh()
	next(fleetpb.ReleaseType, "", one.Name())
	must.Do(t, os.Rename(path+".away", path))
	f.refresh()
	expect.Equal(t, next(fleetpb.ReleaseType, one.Name(), ""), version, "once it is there again")
	must.Do(t, stream.CloseSend())
	expect.Error(t, expect.Err(stream.Recv()), "the stream goes on")
}

// Proves CARD-9: a sidecar's stream is served as long as it is open, also if the sidecar has
// had another one since.
func TestOlderStreamsAreServed(t *testing.T) {
	f := newFleet(t)
	one := f.publish(1, 1, everyone)
	node := fleetpb.Node{ID: "a", Tenant: "acme"}
	older := f.refusing(node, acme, one)
	must.Get(older.Recv())(t)
	newer := f.refusing(node, acme, one)
	must.Get(newer.Recv())(t)
	newer.end()
	two := f.publish(2, 1, everyone)
	resource := must.Get(older.Recv())(t).GetResources()[0].GetResource()
	expect.Equal(t, string(must.Get(fleetpb.Unpack(fleetpb.AssignmentType, resource))(t)), two.Name())
	f.clock.forward(xds.DisconnectedRetention + time.Second)
	f.refresh()
	expect.Equal(t, f.server.Status().Connected, 1)
}

// Proves CARD-9: the control plane stops at once, also while a sidecar reads nothing of what
// is sent to it.
func TestStopWaitsForNoReader(t *testing.T) {
	f := newFleet(t)
	// More than the buffers of a connection hold.
	large := must.Get(policy.SignRelease(bundle(strings.Repeat("x", 1<<20)), policy.Statement{Fleet: "north", Number: 1, Floor: 1}, key))(t)
	must.Do(t, f.dir.Publish(large))
	f.refresh()
	s := f.refusing(fleetpb.Node{ID: "a", Tenant: "acme"}, acme, large)
	must.Do(t, s.Send(want(large.Name())))
	ring.Until(t, "the release sent", func() bool { // so that it can be refused
		for nonce := range 9 { // that of the response is one of them
			must.Do(t, s.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: fleetpb.ReleaseType, ResponseNonce: fmt.Sprint(nonce), ErrorDetail: &statuspb.Status{Message: "no"}}))
		}
		return len(f.server.Sidecars()) == 1 && f.server.Sidecars()[0].Rejected != nil
	})
	f.stop()
}
