package follow

import (
	"context"
	"slices"
	"time"

	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
)

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
	for first := true; ; first = false {
		if counts := f.opt.Counts(first); first || len(counts) > 0 {
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

// Tally counts the decisions by release, the oldest first. It is not safe for concurrent use.
type Tally []tally

type tally struct{ total, taken Count }

// maxReleases is the maximum number of releases with totals; the oldest are dropped.
const maxReleases = 16

// Add adds decisions to the counts of their release.
func (t *Tally) Add(c Count) {
	i := slices.IndexFunc(*t, func(r tally) bool { return r.total.Release == c.Release })
	if i < 0 {
		i = len(*t)
		*t = append(*t, tally{total: Count{Release: c.Release}})
	}
	r := &(*t)[i].total
	r.Decisions, r.Refused, r.Errors = r.Decisions+c.Decisions, r.Refused+c.Refused, r.Errors+c.Errors
}

// Take returns all decisions, or those since the last call.
func (t *Tally) Take(all bool) (out []Count) {
	for i := range *t {
		c, was := (*t)[i].total, (*t)[i].taken
		(*t)[i].taken = c
		if !all {
			c.Decisions, c.Refused, c.Errors = c.Decisions-was.Decisions, c.Refused-was.Refused, c.Errors-was.Errors
		}
		if all || c.Decisions > 0 {
			out = append(out, c)
		}
	}
	*t = slices.Delete(*t, 0, max(0, len(*t)-maxReleases))
	return out
}
