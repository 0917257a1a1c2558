package follow

import (
	"context"
	"time"

	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

var protoOptions = proto.UnmarshalOptions{DiscardUnknown: true}

// The bounds of how often is reported, whatever the control plane asks for.
const (
	leastInterval = 10 * time.Millisecond
	mostInterval  = 10 * time.Minute
)

// report tells the control plane how decisions go, as often as it asks to be
// told, until ctx ends or the stream breaks.
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
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var stats []*endpoint.ClusterStats
		for _, c := range f.opt.Counts() {
			stats = append(stats, &endpoint.ClusterStats{
				ClusterName: c.Release, TotalDroppedRequests: c.Refused,
				UpstreamLocalityStats: []*endpoint.UpstreamLocalityStats{{
					TotalIssuedRequests: c.Decisions, TotalErrorRequests: c.Errors,
					TotalSuccessfulRequests: c.Decisions - min(c.Refused, c.Decisions),
				}},
			})
		}
		if len(stats) == 0 {
			continue
		}
		if err := stream.Send(&loadstats.LoadStatsRequest{ClusterStats: stats}); err != nil {
			_, err = stream.Recv()
			return err
		}
	}
}
