package xds_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/envoy/xds/follow"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/policy"
)

// replica returns another server with the same directory and clock.
func (f *fleet) replica() *fleet {
	f.t.Helper()
	dir := must.Get(xds.NewDir(f.path, f.path, keys()))(f.t)
	g := *f
	g.dir, g.opt.Store, g.addr = dir, dir, net.JoinHostPort("127.0.0.1", "0")
	g.start()
	f.t.Cleanup(func() { g.stop() })
	return &g
}

// Proves CARD-9: replicas share only the directory: one without sidecars advances
// nothing, and a stop by one applies to all.
func TestReplicasShareTheDirectory(t *testing.T) {
	a := newFleet(t, func(o *xds.Options) {
		o.Plan = xds.Plan{Stages: []xds.Stage{{Percent: 100, Hold: time.Minute}}}
	})
	idle, b := a.replica(), a.replica()
	one := a.publish(1, 1, everyone)
	b.refresh()
	idle.refresh()
	x := a.sidecar(fleetpb.Node{ID: "x", Tenant: "acme"}, acme)
	y := b.sidecar(fleetpb.Node{ID: "y", Tenant: "acme"}, acme, func(_ *follow.Options, s *sidecar) { s.refuse[3] = errors.New("no") })
	a.runs(x, one)
	b.runs(y, one)
	two := a.publish(2, 1, everyone)
	b.refresh()
	a.runs(x, two)
	b.runs(y, two)
	a.clock.forward(time.Hour)
	idle.refresh()
	expect.Equal(t, idle.state(2).State, "rolling", "a replica without sidecars moved the rollout on")
	a.refresh()
	b.refresh()
	expect.Equal(t, b.state(2).State, "current", "what one replica moved on, the other does not see")
	three := a.publish(3, 2, everyone)
	b.refresh()
	a.runs(x, three)
	ring.Until(t, "the refusal at the other", func() bool { return b.state(3).Refused == 1 })
	b.refresh()
	a.refresh()
	if st := a.state(3); st.State != "stopped" || st.Reason != "1 sidecar(s) refused it, y: no" {
		t.Errorf("a stop by one is none for the other: %+v", st)
	}
	a.runs(x, two)
}

// An unavailable directory changes nothing.
func TestUnavailableStoreChangesNothing(t *testing.T) {
	f := newFleet(t)
	one := f.publish(1, 1, everyone)
	s := f.sidecar(fleetpb.Node{ID: "a", Tenant: "acme"}, acme)
	f.runs(s, one)
	must.Do(t, os.Rename(f.path, f.path+".away"))
	expect.Error(t, f.server.Refresh(), "nothing was said")
	if st := f.server.Status(); st.StoreError == "" || len(st.Releases) != 1 || st.Releases[0].State != "current" {
		t.Errorf("%+v", st)
	}
	late := f.sidecar(fleetpb.Node{ID: "b", Tenant: "acme"}, acme)
	ring.Until(t, "a sidecar that comes meanwhile", func() bool { return late.State().Running == one.Name() })
	must.Do(t, os.Rename(f.path+".away", f.path))
	f.publish(2, 1, policy.Selector{Tenant: "acme"})
	if st := f.server.Status(); st.StoreError != "" || len(st.Releases) != 2 {
		t.Errorf("%+v", st)
	}
}
