package xds

import (
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// reports serves Envoy's load reporting service: a sidecar reports the counts of its
// decisions, by release. Releases are reported as Envoy clusters, and refusals as
// dropped requests.
type reports struct {
	s *Server
}

// StreamLoadStats receives one sidecar's reports until it disconnects.
func (r reports) StreamLoadStats(stream loadstats.LoadReportingService_StreamLoadStatsServer) error {
	who, err := peerOf(stream.Context())
	if err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	id := first.GetNode().GetId()
	if err := r.known(id, who); err != nil {
		return err
	}
	err = stream.Send(&loadstats.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(r.s.opt.Report)})
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		m, err := stream.Recv()
		if err == nil {
			err = r.known(id, who)
		}
		if err != nil {
			return err
		}
		r.s.reported(sidecarKey{who, id}, m.GetClusterStats(), first)
	}
}

// known checks that the reporter is a subscribed sidecar.
func (r reports) known(id string, who identity) error {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	if r.s.nodes[sidecarKey{who, id}] == nil {
		return status.Error(codes.FailedPrecondition, "a sidecar must subscribe before it reports")
	}
	return nil
}

// maxReport is the maximum of each number in a report, so that sums do not overflow.
const maxReport = 1 << 32

// reported adds a sidecar's counts since its last report. The first report of a stream
// has the totals of the sidecar's process, so that a restarted control plane has the same
// counts as before.
func (s *Server) reported(key sidecarKey, stats []*endpoint.ClusterStats, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[key]
	if n == nil {
		return
	}
	n.hasReported = true
	for _, c := range stats {
		name := c.GetClusterName()
		r := s.releases[name]
		if r == nil || !r.Selector.Matches(n.Tenant, n.Labels) {
			continue
		}
		t := DecisionCounts{Refused: min(c.GetTotalDroppedRequests(), maxReport)}
		for _, l := range c.GetUpstreamLocalityStats() {
			t.Decisions += min(l.GetTotalIssuedRequests(), maxReport)
			t.Errors += min(l.GetTotalErrorRequests(), maxReport)
		}
		t.Refused, t.Errors = min(t.Refused, t.Decisions), min(t.Errors, t.Decisions)
		if all {
			t = n.unreported(name, t)
		} else {
			n.counts[name] = n.counts[name].add(t)
		}
		r.tallies[key.who] = r.tallies[key.who].add(t)
		if name == n.running {
			n.tally = n.tally.add(t)
		}
	}
}

// unreported returns the part of a sidecar's totals that was not reported before. Lower
// totals than before mean a new process.
func (n *node) unreported(release string, all DecisionCounts) DecisionCounts {
	was := n.counts[release]
	n.counts[release] = all
	if all.Decisions < was.Decisions || all.Refused < was.Refused || all.Errors < was.Errors {
		return all
	}
	return all.since(was)
}
