package xds_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

// A channel's offer is determined by its releases and their marks, in any order.
// Proves CARD-9
func TestOffers(t *testing.T) {
	plan := xds.Plan{Stages: []xds.Stage{{10, time.Minute}, {50, time.Minute}}}
	stage := func(n uint64, s int) xds.Mark { return xds.Mark{Release: n, Kind: xds.MarkStage, Stage: s} }
	done := func(n uint64) xds.Mark { return xds.Mark{Release: n, Kind: xds.MarkDone} }
	stopped := func(n uint64) xds.Mark { return xds.Mark{Release: n, Kind: xds.MarkStopped} }
	var releases []*policy.Release
	for n := range uint64(3) {
		releases = append(releases, must.Get(policy.SignRelease(bundle(fmt.Sprint(n)), policy.Statement{Fleet: "north", Number: n + 1}, key))(t))
	}
	for _, tc := range []struct {
		name     string
		releases []uint64
		marks    []xds.Mark
		want     string
	}{
		{"nothing before the first", []uint64{1}, nil, "base 1"},
		{"two that nobody saw: the older is the base", []uint64{1, 2}, nil, "base 1 next 2 at 10"},
		{"a release beside one that is done", []uint64{1, 2}, []xds.Mark{done(1)}, "base 1 next 2 at 10"},
		{"the second stage", []uint64{1, 2}, []xds.Mark{stage(2, 1), done(1), stage(2, 0)}, "base 1 next 2 at 50"},
		{"a stage that the plan no longer has", []uint64{1, 2}, []xds.Mark{done(1), stage(2, 7)}, "base 1 next 2 at 50"},
		{"done", []uint64{1, 2}, []xds.Mark{done(1), stage(2, 1), done(2)}, "base 2"},
		{"stopped", []uint64{1, 2}, []xds.Mark{done(1), stage(2, 0), stopped(2)}, "base 1"},
		{"stopped after it was done", []uint64{1, 2}, []xds.Mark{done(1), done(2), stopped(2)}, "base 1"},
		{"a stop counts over a later stage", []uint64{1, 2}, []xds.Mark{done(1), stopped(2), stage(2, 1)}, "base 1"},
		{"overtaken before it was done", []uint64{1, 2, 3}, []xds.Mark{done(1), stage(2, 1)}, "base 1 next 3 at 10"},
		{"the one that overtook is stopped", []uint64{1, 2, 3}, []xds.Mark{done(1), stage(2, 1), stopped(3)}, "base 1 next 2 at 50"},
		{"all stopped", []uint64{1, 2}, []xds.Mark{stopped(1), stopped(2)}, "nothing"},
		{"the first stopped", []uint64{1, 2}, []xds.Mark{stopped(1)}, "base 2"},
		{"an older one that was never done", []uint64{1, 2}, []xds.Mark{done(2)}, "base 2"},
	} {
		dir := t.TempDir()
		store := must.Get(xds.NewDir(dir, dir, keys()))(t)
		for _, n := range tc.releases {
			must.Do(t, store.Publish(releases[n-1]))
		}
		for _, m := range tc.marks {
			must.Do(t, store.Put(m))
		}
		s := must.Get(xds.New(xds.Options{
			Fleet: "north", Store: store, Plan: plan, Rules: []xds.Rule{{CommonName: "*"}}, Clock: time.Now, Log: slog.New(slog.DiscardHandler), Report: time.Hour,
		}))(t)
		must.Do(t, s.Refresh())
		got, next := "nothing", ""
		for _, r := range s.Status().Releases {
			switch r.State {
			case "current":
				got = fmt.Sprintf("base %d", r.Number)
			case "rolling":
				next = fmt.Sprintf(" next %d at %v", r.Number, r.Percent)
			}
		}
		expect.Equal(t, got+next, tc.want, tc.name)
	}
}

// Proves CARD-9: a sidecar belongs to the narrowest matching channel that offers something.
func TestChannelsByWidth(t *testing.T) {
	f := newFleet(t, func(o *xds.Options) {
		o.Rules = []xds.Rule{{CommonName: "*", Tenant: "acme", Labels: map[string][]string{"env": {"*"}, "region": {"*"}}}}
	})
	for i, sel := range []policy.Selector{
		{}, {Labels: map[string]string{"env": "prod"}}, {Tenant: "acme"}, {Tenant: "acme", Labels: map[string]string{"env": "prod"}}, {Labels: map[string]string{"env": "prod", "region": "eu"}},
	} {
		f.publish(uint64(i+1), 1, sel)
	}
	must.Equal(t, f.ask(f.client("a"), assignment(fleetpb.Node{ID: "a", Tenant: "acme", Labels: map[string]string{"env": "prod", "region": "eu"}})), codes.OK)
	var order []uint64
	for range 5 { // the others, when what it has is stopped
		var n uint64
		must.Get(fmt.Sscanf(f.server.Sidecars()[0].Assigned, "%d-", &n))(t)
		order = append(order, n)
		must.Do(t, f.dir.Put(xds.Mark{Release: n, Kind: xds.MarkStopped}))
		f.refresh()
	}
	expect.List(t, order, []uint64{4, 3, 5, 2, 1})
	expect.Equal(t, f.server.Sidecars()[0].Assigned, "")
}
