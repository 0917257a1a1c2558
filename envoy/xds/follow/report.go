package follow

import (
	"context"
	"slices"
	"time"

	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

var protoOptions = proto.UnmarshalOptions{DiscardUnknown: true}

// The limits of the report interval, whatever the control plane requests.
const (
	leastInterval = 10 * time.Millisecond
	mostInterval  = 10 * time.Minute
)

// report sends the counts of decisions to the control plane, at the interval that it
// requests, until ctx ends or the stream breaks.
func (f *Follower) report(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := loadstats.NewLoadReportingServiceClient(conn).StreamLoadStats(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&loadstats.LoadStatsRequest{Node: f.opt.Node.Core()}); err != nil {
		_, err = stream.Recv()
		return err
	}
	resp, err := stream.Recv()
	if err != nil {
		return err
	}
	interval := min(max(resp.GetLoadReportingInterval().AsDuration(), leastInterval), mostInterval)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	// The control plane may be another one, or may have restarted: the first report has
	// the totals, even if they are zero, and later ones have the counts since the
	// previous report.
	f.count()
	counts := slices.Clone(f.totals)
	for first := true; ; first, counts = false, f.count() {
		if first || len(counts) > 0 {
			if err := stream.Send(&loadstats.LoadStatsRequest{ClusterStats: statsOf(counts)}); err != nil {
				_, err = stream.Recv()
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func statsOf(counts []Count) []*endpoint.ClusterStats {
	out := make([]*endpoint.ClusterStats, len(counts))
	for i, c := range counts {
		out[i] = &endpoint.ClusterStats{
			ClusterName: c.Release, TotalDroppedRequests: c.Refused,
			UpstreamLocalityStats: []*endpoint.UpstreamLocalityStats{{
				TotalIssuedRequests: c.Decisions, TotalErrorRequests: c.Errors,
				TotalSuccessfulRequests: c.Decisions - min(c.Refused, c.Decisions),
			}},
		}
	}
	return out
}

// maxTotals is the maximum number of releases with totals; the oldest are dropped.
const maxTotals = 16

// count takes the counts since the last call and adds them to the totals. Calls are
// sequential.
func (f *Follower) count() []Count {
	counts := f.opt.Counts()
	for _, c := range counts {
		i := slices.IndexFunc(f.totals, func(t Count) bool { return t.Release == c.Release })
		if i < 0 {
			i = len(f.totals)
			f.totals = append(f.totals, Count{Release: c.Release})
		}
		t := &f.totals[i]
		t.Decisions, t.Refused, t.Errors = t.Decisions+c.Decisions, t.Refused+c.Refused, t.Errors+c.Errors
	}
	if over := len(f.totals) - maxTotals; over > 0 {
		f.totals = slices.Delete(f.totals, 0, over)
	}
	return counts
}
