package xds_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/envoy/xds/follow"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/policy"
)

// Proves CARD-9: a node id belongs to the certificate that claims it. Another
// certificate with the same claim, before, during or after, takes nothing away.
func TestNodeIDsBelongToTheirCertificate(t *testing.T) {
	f := newFleet(t)
	const db = "spiffe://example.org/ns/acme/db"
	node := fleetpb.Node{ID: "a", Tenant: "acme"}
	squatter := f.sidecar(node, db)
	one := f.publish(1, 1, everyone)
	s := f.sidecar(node, acme)
	f.runs(squatter, one)
	f.runs(s, one)
	two := f.publish(2, 1, everyone)
	f.runs(s, two)
	f.runs(squatter, two)
	squatter.stop()
	ring.Until(t, "the squatter gone", func() bool { return f.server.Status().Connected == 1 })
	three := f.publish(3, 1, everyone)
	f.runs(s, three)
	var connected []string
	for _, o := range f.server.Sidecars() {
		if o.ID != "a" || o.Connected != (o.Certificate == acme) || o.Connected && o.Running != three.Name() {
			t.Errorf("%+v", o)
		}
		connected = append(connected, o.Certificate)
	}
	expect.List(t, connected, []string{db, acme}, "listed are")
	expect.Equal(t, f.ask(f.client("", acme), assignment(node)), codes.OK, "the same certificate again")
}

// A disconnected sidecar is listed for a while, and then forgotten.
func TestForget(t *testing.T) {
	f := newFleet(t)
	one := f.publish(1, 1, everyone)
	s := f.sidecar(fleetpb.Node{ID: "a", Tenant: "acme"}, acme)
	f.runs(s, one)
	s.stop()
	ring.Until(t, "the sidecar gone", func() bool { return f.server.Status().Connected == 0 })
	f.refresh()
	if l := f.server.Sidecars(); len(l) != 1 || l[0].Connected || l[0].Running != one.Name() {
		t.Errorf("%+v", l)
	}
	f.clock.forward(xds.DisconnectedRetention + time.Second)
	f.refresh()
	expect.Len(t, f.server.Sidecars(), 0)
}

// Proves CARD-9, EDGE-9: a sidecar's reports count for the releases that it may receive, and
// stop no other tenant's rollout.
func TestReportsAreForTheSidecarsOwnReleases(t *testing.T) {
	f := newFleet(t)
	theirs := f.publish(1, 1, policy.Selector{Tenant: "globex"})
	mine := f.publish(2, 1, policy.Selector{Tenant: "acme"})
	s := f.sidecar(fleetpb.Node{ID: "a", Tenant: "acme"}, acme)
	f.runs(s, mine)
	s.report(follow.Count{Release: theirs.Name(), Decisions: 1000, Errors: 1000}, follow.Count{Release: mine.Name(), Decisions: 10})
	ring.Until(t, "the report", func() bool { return f.state(mine.Number).Counts.Decisions == 10 })
	expect.Equal(t, f.state(theirs.Number).Counts, xds.DecisionCounts{})
}
