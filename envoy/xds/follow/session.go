package follow

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/policy"
)

// The timeouts of a connection. Pings detect a control plane that stops answering;
// firstAnswer is the timeout of the first answer.
const (
	connectTime = 10 * time.Second
	firstAnswer = 15 * time.Second
	pingAfter   = 30 * time.Second
	pingWait    = 10 * time.Second
)

// session is one connection, from the first request to the error that ends it.
type session struct {
	f          *Follower
	stream     discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	subscribed string // name of the subscribed release, or ""
}

// session connects and follows until the connection breaks. heard reports whether the
// control plane answered at all.
func (f *Follower) session(ctx context.Context) (heard bool, err error) {
	conn, err := grpc.NewClient(f.opt.Address,
		grpc.WithTransportCredentials(credentials.NewTLS(f.opt.TLS)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTime}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingWait, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(policy.MaxRelease+1<<16)),
	)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	var reporting sync.WaitGroup
	defer reporting.Wait()
	defer cancel(nil)
	silent := time.AfterFunc(firstAnswer, func() { cancel(errors.New("the control plane does not respond")) })
	defer silent.Stop()

	s := session{f: f}
	if s.stream, err = discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx); err != nil {
		return false, cause(ctx, err)
	}
	node := f.opt.Node
	node.Running = f.State().Running
	err = s.stream.Send(&discovery.DeltaDiscoveryRequest{
		Node: node.Core(), TypeUrl: fleetpb.AssignmentType, ResourceNamesSubscribe: []string{node.ID},
	})
	for err == nil {
		var resp *discovery.DeltaDiscoveryResponse
		if resp, err = s.stream.Recv(); err != nil {
			break
		}
		if !heard {
			heard = true
			silent.Stop()
			f.update(func(s *State) { s.Connected, s.ConnectionError = true, nil })
			reporting.Go(func() {
				if err := f.report(ctx, conn); err != nil && ctx.Err() == nil {
					cancel(fmt.Errorf("reports: %w", err))
				}
			})
		}
		err = s.answer(resp)
	}
	if err != nil {
		// Send only reports that the stream has ended; Recv has the reason.
		if _, why := s.stream.Recv(); why != nil {
			err = why
		}
	}
	return heard, cause(ctx, err)
}

// cause returns the reason for which the context was cancelled, if there is one, else
// err.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}

// answer acts on a response, and acknowledges it or rejects it with the reason (ACK or
// NACK).
func (s *session) answer(resp *discovery.DeltaDiscoveryResponse) error {
	ack := &discovery.DeltaDiscoveryRequest{TypeUrl: resp.GetTypeUrl(), ResponseNonce: resp.GetNonce()}
	var next *discovery.DeltaDiscoveryRequest
	var err error
	for _, r := range resp.GetResources() {
		switch resp.GetTypeUrl() {
		case fleetpb.AssignmentType:
			next, err = s.assigned(r)
		case fleetpb.ReleaseType:
			err = s.released(r)
		}
		if err != nil {
			ack.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: err.Error()}
		}
		if errors.Is(err, errUnassigned) {
			ack.ErrorDetail.Code = int32(fleetpb.Unassigned)
		}
	}
	if err := s.stream.Send(ack); err != nil || next == nil {
		return err
	}
	return s.stream.Send(next)
}

// releaseName is the form of policy.Statement.Name. No other text of the control plane
// gets into logs or /readyz.
var releaseName = regexp.MustCompile(`^[0-9]{6,20}-[0-9a-f]{12}$`)

// assigned returns the request for the assigned release, if that is not in force.
func (s *session) assigned(r *discovery.Resource) (*discovery.DeltaDiscoveryRequest, error) {
	value, err := fleetpb.Unpack(fleetpb.AssignmentType, r.GetResource())
	if err != nil {
		return nil, err
	}
	release := string(value)
	if release != "" && !releaseName.MatchString(release) {
		return nil, errors.New("the assignment names no valid release")
	}
	running := s.f.update(func(s *State) { s.Assigned, s.AssignedError = release, nil }).Running
	next := &discovery.DeltaDiscoveryRequest{TypeUrl: fleetpb.ReleaseType}
	if s.subscribed != "" && s.subscribed != release {
		next.ResourceNamesUnsubscribe = []string{s.subscribed}
		s.subscribed = ""
	}
	if release != "" && release != running && s.subscribed == "" {
		next.ResourceNamesSubscribe = []string{release}
		s.subscribed = release
	}
	if len(next.ResourceNamesSubscribe)+len(next.ResourceNamesUnsubscribe) == 0 {
		next = nil
	}
	return next, nil
}

// errUnassigned is the answer to a release that was sent before this sidecar gave up its
// subscription, as when a rollout is stopped. It is no refusal.
var errUnassigned = errors.New("the release is no longer assigned")

// released puts a release in force.
func (s *session) released(r *discovery.Resource) error {
	s.f.mu.Lock()
	before := s.f.newest
	s.f.mu.Unlock()
	encoded, err := fleetpb.Unpack(fleetpb.ReleaseType, r.GetResource())
	switch {
	case err != nil:
	case r.GetName() != s.subscribed:
		err = errUnassigned
	default:
		err = s.f.take(r.GetName(), encoded)
	}
	if err != nil && !errors.Is(err, errUnassigned) {
		s.f.update(func(s *State) { s.AssignedError = err })
		s.f.opt.Log.Error("a release is rejected; the current rules stay in force", "release", s.subscribed, "error", err)
		if s.f.opt.Refused != nil {
			s.f.opt.Refused(s.subscribed, err)
		}
	}
	return errors.Join(err, s.f.limitRate(s.stream.Context(), before))
}
