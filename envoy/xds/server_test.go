package xds_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/envoy/xds/follow"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/policy"
)

// ask opens a stream with a certificate, sends requests and returns the status with
// which it ended; codes.OK if every request was answered.
func (f *fleet) ask(conf *tls.Config, requests ...*discovery.DeltaDiscoveryRequest) codes.Code {
	f.t.Helper()
	conn := must.Get(grpc.NewClient(f.addr, grpc.WithTransportCredentials(credentials.NewTLS(conf))))(f.t)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), ring.Limit)
	defer cancel()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return status.Code(err)
	}
	for _, q := range requests {
		_ = stream.Send(q) // Recv returns the reason of a failure
		if _, err := stream.Recv(); err != nil {
			return status.Code(err)
		}
	}
	return codes.OK
}

func (f *fleet) client(name string, uris ...string) *tls.Config {
	f.t.Helper()
	return must.Get(f.ca.Client(name, uris...))(f.t)
}

func assignment(n fleetpb.Node, names ...string) *discovery.DeltaDiscoveryRequest {
	if names == nil {
		names = []string{n.ID}
	}
	return &discovery.DeltaDiscoveryRequest{Node: n.Core(), TypeUrl: fleetpb.AssignmentType, ResourceNamesSubscribe: names}
}

func want(name string) *discovery.DeltaDiscoveryRequest {
	return &discovery.DeltaDiscoveryRequest{TypeUrl: fleetpb.ReleaseType, ResourceNamesSubscribe: []string{name}}
}

// Proves CARD-9: a sidecar is identified by its certificate, and reads only its own
// assignment and the releases of its own channel.
func TestCertificatesLimitSubscriptions(t *testing.T) {
	f := newFleet(t)
	mine := f.publish(1, 1, policy.Selector{Tenant: "acme"})
	others := f.publish(2, 2, policy.Selector{Tenant: "other"})
	node := fleetpb.Node{ID: "a", Tenant: "acme"}
	web := f.client("", acme)
	stranger := must.Get(f.ca.Client("nobody"))(t)
	bare := &tls.Config{RootCAs: f.ca.Pool, MinVersion: tls.VersionTLS13}
	unknownType := assignment(node)
	unknownType.TypeUrl = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	for _, tc := range []struct {
		name string
		conf *tls.Config
		reqs []*discovery.DeltaDiscoveryRequest
		want codes.Code
	}{
		{"its own assignment", web, []*discovery.DeltaDiscoveryRequest{assignment(node)}, codes.OK},
		{"its own release", web, []*discovery.DeltaDiscoveryRequest{assignment(node), want(mine.Name())}, codes.OK},
		{"another's release", web, []*discovery.DeltaDiscoveryRequest{assignment(node), want(others.Name())}, codes.PermissionDenied},
		{"a release that is not there", web, []*discovery.DeltaDiscoveryRequest{assignment(node), want("000009-x")}, codes.PermissionDenied},
		{"all releases", web, []*discovery.DeltaDiscoveryRequest{assignment(node), want("*")}, codes.PermissionDenied},
		{"another's assignment", web, []*discovery.DeltaDiscoveryRequest{assignment(node, "b")}, codes.PermissionDenied},
		{"all assignments", web, []*discovery.DeltaDiscoveryRequest{assignment(node, "*")}, codes.PermissionDenied},
		{"another tenant", web, []*discovery.DeltaDiscoveryRequest{assignment(fleetpb.Node{ID: "a", Tenant: "other"})}, codes.PermissionDenied},
		{"no node", web, []*discovery.DeltaDiscoveryRequest{{TypeUrl: fleetpb.AssignmentType, ResourceNamesSubscribe: []string{"a"}}}, codes.InvalidArgument},
		{"another node on one stream", web, []*discovery.DeltaDiscoveryRequest{assignment(node), assignment(fleetpb.Node{ID: "b", Tenant: "acme"})}, codes.InvalidArgument},
		{"another type", web, []*discovery.DeltaDiscoveryRequest{unknownType}, codes.InvalidArgument},
		{"a certificate without a rule", stranger, []*discovery.DeltaDiscoveryRequest{assignment(node)}, codes.PermissionDenied},
		{"no certificate", bare, []*discovery.DeltaDiscoveryRequest{assignment(node)}, codes.Unavailable},
	} {
		expect.Equal(t, f.ask(tc.conf, tc.reqs...), tc.want, tc.name)
	}
}

// The state-of-the-world form and reports of unknown sidecars are refused.
func TestOtherServices(t *testing.T) {
	f := newFleet(t)
	conn := must.Get(grpc.NewClient(f.addr, grpc.WithTransportCredentials(credentials.NewTLS(f.client("", acme)))))(t)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), ring.Limit)
	defer cancel()
	whole, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err == nil {
		_, err = whole.Recv()
	}
	expect.Equal(t, status.Code(err), codes.Unimplemented, "whole state", err)
	stats, err := loadstats.NewLoadReportingServiceClient(conn).StreamLoadStats(ctx)
	if err == nil {
		_ = stats.Send(&loadstats.LoadStatsRequest{Node: fleetpb.Node{ID: "a"}.Core()})
		_, err = stats.Recv()
	}
	expect.Equal(t, status.Code(err), codes.FailedPrecondition, "reports of a sidecar that did not subscribe", err)
}

// Proves CARD-9: a release goes to a share of the sidecars first, and to the others
// over time.
func TestRolloutAdvances(t *testing.T) {
	f := newFleet(t, func(o *xds.Options) {
		o.Plan = xds.Plan{Stages: []xds.Stage{{Percent: 30, Hold: time.Minute}, {Percent: 100, Hold: time.Minute}}}
	})
	one := f.publish(1, 1, everyone)
	var all []*sidecar
	for i := range 20 {
		s := f.sidecar(fleetpb.Node{ID: fmt.Sprintf("web-%d", i), Tenant: "acme"}, acme)
		all = append(all, s)
	}
	on := func(r *policy.Release) (n int) {
		for _, s := range all {
			if s.State().Running == r.Name() {
				n++
			}
		}
		return n
	}
	ring.Until(t, "all on the first", func() bool { return on(one) == 20 && f.state(1).Running == 20 })
	two := f.publish(2, 1, everyone)
	first := f.state(2).Assigned
	if first < 2 || first > 12 {
		t.Fatalf("%d of 20 are the first 30 per cent", first)
	}
	ring.Until(t, "the first stage", func() bool { return on(two) == first && f.state(2).Running == first })
	f.clock.forward(59 * time.Second)
	f.refresh()
	if st := f.state(2); st.Assigned != first || st.State != "rolling" || st.Percent != 30 {
		t.Errorf("before the stage is over: %+v", st)
	}
	f.clock.forward(time.Second)
	f.refresh()
	ring.Until(t, "everyone", func() bool { return on(two) == 20 && f.state(2).Running == 20 })
	if st := f.state(2); st.State != "rolling" || st.Percent != 100 {
		t.Errorf("in the last stage: %+v", st)
	}
	f.clock.forward(time.Minute)
	f.refresh()
	expect.Equal(t, f.state(2).State, "current", "at the end")
}

// A sidecar that refuses a release, within the plan's limit, does not delay the others.
func TestRolloutPassesARefusal(t *testing.T) {
	f := newFleet(t, func(o *xds.Options) {
		o.Plan = xds.Plan{Stages: []xds.Stage{{Percent: 100, Hold: time.Minute}}, Rejections: 1}
	})
	one := f.publish(1, 1, everyone)
	a := f.sidecar(fleetpb.Node{ID: "a", Tenant: "acme"}, acme, func(_ *follow.Options, s *sidecar) { s.refuse[2] = fmt.Errorf("no") })
	b := f.sidecar(fleetpb.Node{ID: "b", Tenant: "acme"}, acme)
	f.runs(a, one)
	f.runs(b, one)
	two := f.publish(2, 1, everyone)
	f.runs(b, two)
	ring.Until(t, "the refusal", func() bool { return f.state(2).Refused == 1 })
	f.clock.forward(time.Minute)
	f.refresh()
	expect.Equal(t, f.state(2).State, "current")
}

// A plan that lost its stages ends the rollout that is under way.
func TestPlanLosesItsStages(t *testing.T) {
	f := newFleet(t, func(o *xds.Options) { o.Plan = xds.Plan{Stages: []xds.Stage{{Percent: 100, Hold: time.Minute}}} })
	f.runs(f.sidecar(fleetpb.Node{ID: "a", Tenant: "acme"}, acme), f.publish(1, 1, everyone))
	f.publish(2, 1, everyone)
	expect.Equal(t, f.state(2).State, "rolling")
	f.stop()
	f.opt.Plan = xds.Plan{}
	f.start()
	expect.Equal(t, f.state(2).State, "current")
}

// Proves CARD-9, EDGE-9: a rollout is stopped and rolled back if sidecars refuse the
// release, or refuse or fail more requests than before; each case is next to one that
// must not stop it.
func TestRolloutIsRolledBack(t *testing.T) {
	plan := xds.Plan{Stages: []xds.Stage{{Percent: 100, Hold: time.Hour}}, Refused: 0.1, Errors: 0.01, Decisions: 100}
	for _, tc := range []struct {
		name          string
		before, after follow.Count
		reject        bool
		stopped       string
	}{
		{name: "as before", before: follow.Count{Decisions: 1000, Refused: 50}, after: follow.Count{Decisions: 1000, Refused: 60}},
		{name: "refuses more", before: follow.Count{Decisions: 1000, Refused: 50}, after: follow.Count{Decisions: 1000, Refused: 500}, stopped: "50.0 % of its decisions were refusals"},
		{name: "fails", before: follow.Count{Decisions: 1000}, after: follow.Count{Decisions: 1000, Errors: 20}, stopped: "2.0 % of its decisions failed"},
		{name: "is rejected", reject: true, stopped: "1 sidecar(s) refused it, a: own.cedar:7: no"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFleet(t, func(o *xds.Options) { o.Plan = plan })
			one := f.publish(1, 1, everyone)
			s := f.sidecar(fleetpb.Node{ID: "a", Tenant: "acme"}, acme, func(_ *follow.Options, s *sidecar) {
				if tc.reject {
					s.refuse[2] = fmt.Errorf("own.cedar:7: no")
				}
			})
			f.runs(s, one)
			tc.before.Release = one.Name()
			s.report(tc.before)
			ring.Until(t, "the report", func() bool { return f.state(1).Counts.Decisions == tc.before.Decisions })
			two := f.publish(2, 1, everyone)
			if !tc.reject {
				f.runs(s, two)
				tc.after.Release = two.Name()
				s.report(tc.after)
				ring.Until(t, "the report", func() bool { return f.state(2).Counts.Decisions == tc.after.Decisions })
			} else {
				ring.Until(t, "the refusal", func() bool { return f.state(2).Refused == 1 })
			}
			f.refresh()
			st := f.state(2)
			if tc.stopped == "" {
				expect.Equal(t, st.State, "rolling", st)
				return
			}
			expect.Equal(t, st.State, "stopped", st)
			expect.Equal(t, strings.HasPrefix(st.Reason, tc.stopped), true, st)
			f.runs(s, one)
			// A stopped release stays stopped for every replica, also for a new one.
			f.stop()
			f.start()
			f.runs(s, one)
			expect.Equal(t, f.state(2).State, "stopped", "after a restart")
		})
	}
}

// Proves CARD-9, EDGE-9: a sidecar that reports billions of successful decisions does
// not keep a release that fails at the others; a single sidecar can stop one.
func TestOneSidecarCannotOutweighOthers(t *testing.T) {
	f := newFleet(t, func(o *xds.Options) {
		o.Plan = xds.Plan{Stages: []xds.Stage{{Percent: 100, Hold: time.Hour}}, Refused: 0.1, Errors: 0.01, Decisions: 100}
	})
	one := f.publish(1, 1, everyone)
	a, liar := f.sidecar(fleetpb.Node{ID: "a", Tenant: "acme"}, acme), f.sidecar(fleetpb.Node{ID: "b", Tenant: "acme"}, strings.Replace(acme, "web", "liar", 1))
	report := func(r *policy.Release, honest, lie follow.Count) {
		t.Helper()
		f.runs(a, r)
		f.runs(liar, r)
		was := f.state(r.Number).Counts.Decisions
		honest.Release, lie.Release = r.Name(), r.Name()
		a.report(honest)
		liar.report(lie)
		ring.Until(t, "the reports", func() bool { return f.state(r.Number).Counts.Decisions-was == honest.Decisions+lie.Decisions })
		f.refresh()
	}
	report(one, follow.Count{Decisions: 1000, Refused: 50}, follow.Count{Decisions: 1000, Refused: 50})
	two := f.publish(2, 1, everyone)
	report(two, follow.Count{Decisions: 1000, Refused: 60}, follow.Count{Decisions: 1 << 31})
	expect.Equal(t, f.state(2).State, "rolling", "no worse than before")
	report(two, follow.Count{Decisions: 1000, Refused: 900}, follow.Count{Decisions: 1 << 31})
	if st := f.state(2); st.State != "stopped" || !strings.HasPrefix(st.Reason, "48.0 % of its decisions were refusals") {
		t.Errorf("refused by nearly half at the others: %+v", st)
	}
}

// Proves CARD-9: after a restart the control plane has the counts of a rollout again,
// counted once, and a deterioration during its absence stops the rollout.
func TestTalliesSurviveARestart(t *testing.T) {
	f := newFleet(t, func(o *xds.Options) {
		o.Plan = xds.Plan{Stages: []xds.Stage{{Percent: 100, Hold: time.Minute}}, Refused: 0.1, Errors: 0.01, Decisions: 100}
	})
	one := f.publish(1, 1, everyone)
	s := f.sidecar(fleetpb.Node{ID: "a", Tenant: "acme"}, acme)
	f.runs(s, one)
	s.report(follow.Count{Release: one.Name(), Decisions: 1000, Refused: 50})
	ring.Until(t, "the report", func() bool { return f.state(1).Counts.Decisions == 1000 })
	two := f.publish(2, 1, everyone)
	f.runs(s, two)
	s.report(follow.Count{Release: two.Name(), Decisions: 90, Refused: 4})
	ring.Until(t, "the report", func() bool { return f.state(2).Counts.Decisions == 90 })
	f.stop()
	s.report(follow.Count{Release: two.Name(), Decisions: 910, Refused: 496})
	f.clock.forward(time.Minute)
	f.start()
	ring.Until(t, "what went before", func() bool {
		f.refresh()
		must.Equal(t, f.state(2).State != "current", true, "the rollout went on before anybody told how it went")
		return f.state(1).Counts == xds.DecisionCounts{Decisions: 1000, Refused: 50} && f.state(2).Counts == xds.DecisionCounts{Decisions: 1000, Refused: 500}
	})
	f.refresh()
	if st := f.state(2); st.State != "stopped" || !strings.HasPrefix(st.Reason, "50.0 % of its decisions were refusals") {
		t.Errorf("%+v", st)
	}
	f.runs(s, one)
}

// Proves CARD-9: after a restart of the control plane every sidecar reconnects, and
// none is sent the release that it already runs.
func TestControlPlaneRestarts(t *testing.T) {
	f := newFleet(t)
	one := f.publish(1, 1, everyone)
	var all []*sidecar
	for i := range 50 {
		all = append(all, f.sidecar(fleetpb.Node{ID: fmt.Sprintf("web-%d", i), Tenant: "acme"}, acme))
	}
	ring.Until(t, "all on the first", func() bool { return f.state(1).Running == 50 })
	f.stop()
	two := must.Get(policy.SignRelease(bundle("two"), policy.Statement{Fleet: "north", Number: 2, Floor: 1}, key))(t)
	for _, s := range all {
		ring.Until(t, "the loss noticed", func() bool { return s.State().ConnectionError != nil })
		expect.Equal(t, s.State().Running, one.Name(), "a sidecar let go of its release")
	}
	f.start()
	ring.Until(t, "all back", func() bool { st := f.server.Status(); return st.Connected == 50 && st.Behind == 0 })
	must.Do(t, f.dir.Publish(two))
	f.refresh()
	ring.Until(t, "all on the second", func() bool { return f.state(2).Running == 50 })
	for _, s := range all {
		s.mu.Lock()
		expect.Len(t, s.applied, 2, "applied")
		s.mu.Unlock()
	}
}

// Proves CARD-9: what a release newly allows is computed in the background, and a stop
// waits for it.
func TestStopWaitsForWarnings(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	f := newFleet(t, func(o *xds.Options) {
		o.Warn = func(_, _ *policy.Release) []string {
			close(begun)
			<-release
			return nil
		}
	})
	one := f.publish(1, 1, everyone)
	s := f.sidecar(fleetpb.Node{ID: "a", Tenant: "acme"}, acme)
	f.runs(s, one)
	f.publish(2, 1, everyone)
	f.refresh()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan struct{})
	go func() { f.server.Run(ctx); close(stopped) }()
	select {
	case <-stopped:
		t.Error("it stopped while a warning was worked out")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	<-stopped
}
