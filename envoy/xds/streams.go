package xds

import (
	"context"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/internal/wait"
)

// node is a sidecar, connected or recently connected.
type node struct {
	fleetpb.Node
	who         identity
	stream      int64     // 0 if it is not connected
	seen        time.Time // when it connected or disconnected
	assigned    string    // name of the assigned release
	running     string    // name of the release that it reports as running
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

// resource returns the name of the sidecar's assignment in the server's cache. On the
// wire the name is the node id.
func (k sidecarKey) resource() string { return k.who.String() + "\x00" + k.id }

func (n *node) key() sidecarKey { return sidecarKey{n.who, n.ID} }

// stream is one sidecar's connection.
type stream struct {
	who    identity
	node   *node
	nonces map[string]string // release names, by the nonces of responses
}

const (
	// maxNonces is the maximum number of unacknowledged responses of a stream. No sidecar
	// has as many.
	maxNonces = 64
	// maxSidecars is the maximum number of node ids of one certificate.
	maxSidecars = maxConns
)

// callbacks are called by go-control-plane for events on the streams.
type callbacks struct{ *Server }

// OnDeltaStreamOpen records the identity of the peer.
func (s callbacks) OnDeltaStreamOpen(ctx context.Context, id int64, _ string) error {
	who, err := peerOf(ctx)
	if err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[id] = &stream{who: who, nonces: map[string]string{}}
	return nil
}

// OnDeltaStreamClosed records that a sidecar disconnected.
func (s callbacks) OnDeltaStreamClosed(id int64, _ *core.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.streams[id]; st != nil && st.node != nil && st.node.stream == id {
		st.node.stream, st.node.seen = 0, s.opt.Clock()
	}
	delete(s.streams, id)
}

// OnStreamDeltaRequest checks a request before it is served. An error ends the stream.
func (s callbacks) OnStreamDeltaRequest(id int64, req *discovery.DeltaDiscoveryRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[id]
	if st == nil {
		return status.Error(codes.Internal, "no such stream")
	}
	if st.node == nil {
		if err := s.admit(id, st, req.GetNode()); err != nil {
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
		st.node.toAssignmentName(req)
	case fleetpb.ReleaseType:
		for _, name := range req.GetResourceNamesSubscribe() {
			if r := s.byName[name]; r == nil || !r.Selector.Matches(st.node.Tenant, st.node.Labels) {
				return status.Error(codes.PermissionDenied, "no such release for this sidecar")
			}
		}
		s.acknowledged(st, req)
	default:
		return status.Error(codes.InvalidArgument, "unsupported resource type")
	}
	return nil
}

// admit registers the sidecar of a stream.
func (s *Server) admit(id int64, st *stream, c *core.Node) error {
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
		if !s.room(st.who) {
			return status.Error(codes.ResourceExhausted, "too many node ids with one certificate")
		}
		n = &node{Node: said, who: st.who, counts: map[string]DecisionCounts{}}
		s.nodes[key] = n
		s.claimed[key.who]++
	}
	// If a sidecar has two streams, the older one is considered broken.
	n.Node, n.who, n.stream, n.seen = said, st.who, id, s.opt.Clock()
	n.running, n.hasReported, st.node = said.Running, false, n
	n.assigned = s.releaseFor(n)
	return s.assignments.UpdateResource(key.resource(), &fleetpb.Assignment{Release: n.assigned})
}

// room reports whether a certificate may have another sidecar. If it has too many, the
// sidecar that has been disconnected for the longest time is removed.
func (s *Server) room(who identity) bool {
	if s.claimed[who] < maxSidecars {
		return true
	}
	var oldest *node
	for k, o := range s.nodes {
		if k.who == who && o.stream == 0 && (oldest == nil || o.seen.Before(oldest.seen)) {
			oldest = o
		}
	}
	if oldest == nil {
		return false
	}
	return s.assignments.DeleteResource(s.remove(oldest)) == nil
}

// remove removes a sidecar and returns the name of its assignment.
func (s *Server) remove(n *node) string {
	key := n.key()
	delete(s.nodes, key)
	if s.claimed[key.who]--; s.claimed[key.who] == 0 {
		delete(s.claimed, key.who)
	}
	return key.resource()
}

// toAssignmentName replaces the node id in a request with the name of the assignment.
func (n *node) toAssignmentName(req *discovery.DeltaDiscoveryRequest) {
	name := n.key().resource()
	for _, names := range [...][]string{req.GetResourceNamesSubscribe(), req.GetResourceNamesUnsubscribe()} {
		for i := range names {
			if names[i] == n.ID {
				names[i] = name
			}
		}
	}
	if version, ok := req.GetInitialResourceVersions()[n.ID]; ok {
		req.InitialResourceVersions = map[string]string{name: version}
	}
}

// toNodeID replaces the name of the assignment in a response with the node id.
func (n *node) toNodeID(resp *discovery.DeltaDiscoveryResponse) {
	resources := slices.Clone(resp.GetResources())
	for i, r := range resources {
		resources[i] = &discovery.Resource{Name: n.ID, Version: r.GetVersion(), Resource: r.GetResource()}
	}
	resp.Resources = resources
	if len(resp.GetRemovedResources()) > 0 {
		resp.RemovedResources = []string{n.ID}
	}
}

// acknowledged records whether a sidecar accepted a release.
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
			wait.Wake(s.wake) // makes Run refresh soon
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

// refusalCount counts the refusals of a certificate within a minute.
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

// OnStreamDeltaResponse records the release of each nonce, and renames an assignment to
// its node id.
func (s callbacks) OnStreamDeltaResponse(id int64, _ *discovery.DeltaDiscoveryRequest, resp *discovery.DeltaDiscoveryResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[id]
	switch {
	case st == nil:
	case resp.GetTypeUrl() == fleetpb.AssignmentType:
		st.node.toNodeID(resp)
	case len(resp.GetResources()) > 0:
		if len(st.nonces) >= maxNonces {
			clear(st.nonces)
		}
		st.nonces[resp.GetNonce()] = resp.GetResources()[len(resp.GetResources())-1].GetName()
	}
}

// forget removes sidecars that disconnected long ago. The caller holds the lock.
func (s *Server) forget() {
	maps.DeleteFunc(s.refusals, func(_ identity, h refusalCount) bool { return s.opt.Clock().Sub(h.since).Abs() >= time.Minute })
	var gone []string
	for _, n := range s.nodes {
		if n.stream == 0 && s.opt.Clock().Sub(n.seen) > DisconnectedRetention {
			gone = append(gone, s.remove(n))
		}
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		if err := s.assignments.UpdateResources(nil, gone); err != nil {
			s.opt.Log.Error("removing disconnected sidecars failed", "error", err)
		}
	}
}
