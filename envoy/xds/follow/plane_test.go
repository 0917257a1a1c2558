package follow_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/envoy/xds/follow"
	"github.com/memproxy/memproxy/envoy/xds/xdstest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

// plane is a control plane that checks nothing. It passes on the streams that are opened.
type plane struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	loadstats.UnimplementedLoadReportingServiceServer
	streams chan discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
}

func (p *plane) DeltaAggregatedResources(s discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	p.streams <- s
	<-s.Context().Done()
	return nil
}

func (*plane) StreamLoadStats(s loadstats.LoadReportingService_StreamLoadStatsServer) error {
	if err := s.Send(&loadstats.LoadStatsResponse{LoadReportingInterval: durationpb.New(time.Hour)}); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

// sidecars have the certificates of control plane and sidecars.
var sidecars = sync.OnceValue(func() *xdstest.CA {
	ca, err := xdstest.NewCA()
	if err != nil {
		panic(err)
	}
	return ca
})

// serve starts a control plane.
func serve(t *testing.T) (p *plane, addr string, client *tls.Config) {
	p = &plane{streams: make(chan discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer)}
	g := grpc.NewServer(grpc.Creds(credentials.NewTLS(must.Get(sidecars().Server())(t))))
	discovery.RegisterAggregatedDiscoveryServiceServer(g, p)
	loadstats.RegisterLoadReportingServiceServer(g, p)
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = g.Serve(ln) }()
	t.Cleanup(g.Stop)
	return p, ln.Addr().String(), must.Get(sidecars().Client("sidecar"))(t)
}

// connection is the stream of one follower.
type connection struct {
	discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	sent int
}

// connect runs a follower of the control plane.
func (p *plane) connect(t *testing.T, f *follow.Follower) *connection {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { f.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return &connection{AggregatedDiscoveryService_DeltaAggregatedResourcesServer: <-p.streams}
}

// offer sends a resource and returns why the follower refuses it, or nil.
func (c *connection) offer(t *testing.T, kind, name string, value []byte) *status.Status {
	c.sent++
	nonce := fmt.Sprint(c.sent)
	r := &discovery.Resource{Name: name, Resource: fleetpb.Pack(kind, value)}
	must.Do(t, c.Send(&discovery.DeltaDiscoveryResponse{TypeUrl: kind, Nonce: nonce, Resources: []*discovery.Resource{r}}))
	for {
		if q := must.Get(c.Recv())(t); q.GetResponseNonce() == nonce {
			return q.GetErrorDetail()
		}
	}
}

func (c *connection) assign(t *testing.T, name string) *status.Status {
	return c.offer(t, fleetpb.AssignmentType, "a", []byte(name))
}

func (c *connection) release(t *testing.T, name string, encoded []byte) *status.Status {
	return c.offer(t, fleetpb.ReleaseType, name, encoded)
}

// follower is a follower that is connected when the first release is offered to it.
type follower struct {
	*follow.Follower
	plane *plane
	conn  *connection
}

// takeAs offers a release under a name.
func takeAs(t *testing.T, f *follower, name string, encoded []byte) error {
	t.Helper()
	if f.conn == nil {
		f.conn = f.plane.connect(t, f.Follower)
	}
	must.Equal(t, f.conn.assign(t, name) == nil, true, "the assignment of", name)
	if why := f.conn.release(t, name, encoded); why != nil {
		return errors.New(why.GetMessage())
	}
	return nil
}

// take offers a release under its own name.
func take(t *testing.T, f *follower, r *policy.Release) error {
	t.Helper()
	return takeAs(t, f, r.Name(), r.Encoded())
}

// Proves EDGE-9: a release that arrives after its assignment was taken back, as when a
// rollout is stopped, is not put in force, and is no fault of the release or the sidecar.
func TestReleasesThatAreNoLongerAssigned(t *testing.T) {
	var log bytes.Buffer
	opt, p := (&sidecar{}).options(t)
	opt.Log = slog.New(slog.NewTextHandler(&log, nil))
	f := must.Get(follow.New(opt))(t)
	one, two := seal(t, policy.Statement{Number: 1, Floor: 1}, "x", key), seal(t, policy.Statement{Number: 2, Floor: 1}, "x", key)
	c := p.connect(t, f)
	c.assign(t, one.Name())
	expect.Equal(t, c.release(t, one.Name(), one.Encoded()) == nil, true, "it is refused")
	c.assign(t, two.Name())
	c.assign(t, one.Name())
	expect.Equal(t, c.release(t, two.Name(), two.Encoded()).GetCode(), int32(fleetpb.Unassigned))
	expect.Equal(t, f.State().Running, one.Name())
	expect.OK(t, f.State().AssignedError, "of the release that runs")
	expect.Equal(t, log.String(), "", "the log")
}
