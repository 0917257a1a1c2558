package xds

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"strconv"
	"time"
	"unicode/utf8"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/internal/wait"
)

// node is a sidecar, connected or recently connected.
type node struct {
	fleetpb.Node
	who         identity
	streams     map[*stream]bool // those that are open
	seen        time.Time        // when it connected or disconnected
	assigned    string           // name of the assigned release
	running     string           // name of the release that it reports as running
	rejected    Rejection
	tally       DecisionCounts            // counts under the running release
	hasReported bool                      // it reported since it connected
	counts      map[string]DecisionCounts // totals of its process so far, by release
}

// Rejection is a sidecar's refusal of a release.
type Rejection struct {
	Release string    `json:"release,omitzero"`
	Reason  string    `json:"reason,omitzero"` // with file and line, if known
	At      time.Time `json:"at,omitzero"`
}

// sidecarKey identifies a sidecar. A node id belongs to the certificate that claims it,
// so no other certificate can take it over.
type sidecarKey struct {
	who identity
	id  string
}

// wake makes the sidecar's streams send what has changed.
func (n *node) wake() {
	for st := range n.streams {
		wait.Wake(st.changed)
	}
}

// subscription is a resource that a sidecar wants: its assignment, whose name is the node
// id, or a release.
type subscription struct{ kind, name string }

// stream is one sidecar's connection (delta xDS).
type stream struct {
	who     identity
	node    *node
	changed chan struct{}
	has     map[subscription]string // the version that the sidecar has of each, "removed" or ""
	sent    int                     // number of responses
	nonces  map[string]string       // release names, by the nonces of responses
	over    bool                    // the sidecar disconnected
}

const (
	// maxNonces is the maximum number of unacknowledged responses of a stream. No sidecar
	// has as many.
	maxNonces = 64
	// maxSidecars is the maximum number of node ids of one certificate.
	maxSidecars = maxConns
)

// ads is the aggregated discovery service. Its end of the protocol is written here and
// not with go-control-plane's cache, which is made for Envoy's own resources.
//
// Source: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#incremental-xds
type ads struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	s *Server
}

// DeltaAggregatedResources serves one sidecar until it disconnects.
func (a ads) DeltaAggregatedResources(conn discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	who, err := peerOf(conn.Context())
	if err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	st := &stream{who: who, changed: make(chan struct{}, 1), has: map[subscription]string{}, nonces: map[string]string{}}
	defer a.s.closed(st)
	ended := make(chan error, 1)
	go func() {
		for {
			req, err := conn.Recv()
			if err == nil {
				err = a.s.requested(st, req)
			}
			if err != nil {
				ended <- err
				return
			}
			wait.Wake(st.changed)
		}
	}()
	for {
		select {
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-st.changed:
		}
		for resp := a.s.next(st); resp != nil; resp = a.s.next(st) {
			if err := conn.Send(resp); err != nil {
				return err
			}
		}
	}
}

// next returns a response with one resource that a sidecar wants and does not have, or
// nil if it has all of them.
func (s *Server) next(st *stream) *discovery.DeltaDiscoveryResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	for want, has := range st.has {
		version, resource := "removed", (*anypb.Any)(nil)
		if want.kind == fleetpb.AssignmentType {
			version = cmp.Or(st.node.assigned, "none")
			resource = fleetpb.Pack(want.kind, st.node.assigned)
		} else if r := s.releases[want.name]; r != nil {
			version, resource = want.name, r.packed
		}
		if version == has {
			continue
		}
		st.sent++
		st.has[want] = version
		resp := &discovery.DeltaDiscoveryResponse{TypeUrl: want.kind, Nonce: strconv.Itoa(st.sent)}
		if resource == nil {
			resp.RemovedResources = []string{want.name}
			return resp
		}
		resp.Resources = []*discovery.Resource{{Name: want.name, Version: version, Resource: resource}}
		if want.kind == fleetpb.ReleaseType {
			if len(st.nonces) >= maxNonces {
				clear(st.nonces)
			}
			st.nonces[resp.GetNonce()] = want.name
		}
		return resp
	}
	return nil
}

func (s *Server) closed(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.over = true
	if st.node != nil {
		delete(st.node.streams, st)
		st.node.seen = s.opt.Clock()
	}
}

// requested applies a request of a sidecar. An error ends the stream.
func (s *Server) requested(st *stream, req *discovery.DeltaDiscoveryRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.over {
		return io.EOF
	}
	if st.node == nil {
		if err := s.admit(st, req.GetNode()); err != nil {
			if s.withinRefusalLimit(st.who) {
				s.opt.Log.Warn("a sidecar is rejected", "certificate", st.who.String(), "error", err)
			}
			return err
		}
	} else if n := req.GetNode(); n != nil && n.GetId() != st.node.ID {
		return status.Error(codes.InvalidArgument, "a stream must not change its node id")
	}
	switch req.GetTypeUrl() {
	case fleetpb.AssignmentType:
		for _, name := range req.GetResourceNamesSubscribe() {
			if name != st.node.ID {
				return status.Error(codes.PermissionDenied, "the assignment belongs to another sidecar")
			}
		}
	case fleetpb.ReleaseType:
		for _, name := range req.GetResourceNamesSubscribe() {
			if r := s.releases[name]; r == nil || !r.Selector.Matches(st.node.Tenant, st.node.Labels) {
				return status.Error(codes.PermissionDenied, "no such release for this sidecar")
			}
		}
		s.acknowledged(st, req)
	default:
		return status.Error(codes.InvalidArgument, "unsupported resource type")
	}
	for _, name := range req.GetResourceNamesUnsubscribe() {
		delete(st.has, subscription{req.GetTypeUrl(), name})
	}
	for _, name := range req.GetResourceNamesSubscribe() {
		st.has[subscription{req.GetTypeUrl(), name}] = req.GetInitialResourceVersions()[name]
	}
	return nil
}

func (s *Server) admit(st *stream, c *core.Node) error {
	said, err := fleetpb.NodeOf(c)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if err := authorise(s.opt.Rules, st.who, said); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	key := sidecarKey{st.who, said.ID}
	n := s.nodes[key]
	if n == nil {
		if !s.makeRoom(st.who) {
			return status.Error(codes.ResourceExhausted, "too many node ids with one certificate")
		}
		n = &node{Node: said, who: st.who, counts: map[string]DecisionCounts{}, streams: map[*stream]bool{}}
		s.nodes[key] = n
		s.claimed[key.who]++
	}
	n.Node, n.seen, n.streams[st] = said, s.opt.Clock(), true
	n.running, n.hasReported, st.node = said.Running, false, n
	n.assigned = s.releaseFor(n)
	return nil
}

// makeRoom reports whether a certificate may have another sidecar. At the limit it removes
// the sidecar that has been disconnected for the longest time, if there is one.
func (s *Server) makeRoom(who identity) bool {
	if s.claimed[who] < maxSidecars {
		return true
	}
	var oldest *node
	for k, o := range s.nodes {
		if k.who == who && len(o.streams) == 0 && (oldest == nil || o.seen.Before(oldest.seen)) {
			oldest = o
		}
	}
	if oldest == nil {
		return false
	}
	s.remove(oldest)
	return true
}

func (s *Server) remove(n *node) {
	delete(s.nodes, sidecarKey{n.who, n.ID})
	if s.claimed[n.who]--; s.claimed[n.who] == 0 {
		delete(s.claimed, n.who)
	}
}

func (s *Server) acknowledged(st *stream, req *discovery.DeltaDiscoveryRequest) {
	name, ok := st.nonces[req.GetResponseNonce()]
	if !ok {
		return
	}
	delete(st.nonces, req.GetResponseNonce())
	n, fault := st.node, req.GetErrorDetail()
	if fault.GetCode() == int32(fleetpb.Unassigned) {
		return
	}
	if fault != nil {
		n.rejected = Rejection{name, bounded(fault.GetMessage()), s.opt.Clock()}
		if s.withinRefusalLimit(n.who) {
			s.opt.Log.Warn("a sidecar refused a release", "sidecar", n.ID, "release", name, "reason", n.rejected.Reason)
			s.Reread()
		}
		return
	}
	n.running, n.tally = name, DecisionCounts{}
	if n.rejected.Release == name {
		n.rejected = Rejection{}
	}
}

// maxRefusals is how many refusals of one certificate, or of its sidecars, are logged and
// handled immediately per minute. Further ones are handled at the next refresh.
const maxRefusals = 16

type refusalCount struct {
	since time.Time
	n     int
}

// withinRefusalLimit reports whether another refusal of a certificate is logged and
// handled immediately. The caller holds the lock.
func (s *Server) withinRefusalLimit(who identity) bool {
	h, now := s.refusals[who], s.opt.Clock()
	if now.Sub(h.since).Abs() >= time.Minute {
		h = refusalCount{since: now}
	}
	h.n++
	s.refusals[who] = h
	return h.n <= maxRefusals
}

// maxReason is the maximum length of a sidecar's recorded reason, in characters.
const maxReason = 1000

func bounded(s string) string {
	runes := []rune(s)[:min(utf8.RuneCountInString(s), maxReason)]
	for i, r := range runes {
		runes[i] = max(r, ' ')
	}
	return string(runes)
}

// removeStale removes sidecars that disconnected long ago. The caller holds the lock.
func (s *Server) removeStale() {
	maps.DeleteFunc(s.refusals, func(_ identity, h refusalCount) bool { return s.opt.Clock().Sub(h.since).Abs() >= time.Minute })
	for _, n := range s.nodes {
		if len(n.streams) == 0 && s.opt.Clock().Sub(n.seen) > DisconnectedRetention {
			s.remove(n)
		}
	}
}
