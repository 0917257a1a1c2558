package xds_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/envoy/xds/follow"
	"github.com/memproxy/memproxy/envoy/xds/xdstest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/policy"
)

var key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

func keys() []ed25519.PublicKey { return []ed25519.PublicKey{key.Public().(ed25519.PublicKey)} }

// clock is a clock that tests advance.
type clock struct{ passed atomic.Int64 }

func (c *clock) Now() time.Time { return time.Unix(1e9, c.passed.Load()) }

func (c *clock) forward(d time.Duration) { c.passed.Add(int64(d)) }

// fleet is a control plane in this process, with sidecars that do everything except
// ruling.
type fleet struct {
	t      *testing.T
	dir    *xds.Dir
	path   string
	server *xds.Server
	opt    xds.Options
	clock  *clock
	ca     *xdstest.CA
	addr   string
	stop   func()
}

func newFleet(t *testing.T, change ...func(*xds.Options)) *fleet {
	t.Helper()
	f := &fleet{t: t, path: t.TempDir(), clock: &clock{}, addr: "127.0.0.1:0"}
	f.ca = must.Get(xdstest.NewCA())(t)
	f.dir = must.Get(xds.NewDir(f.path, f.path, keys()))(t)
	f.opt = xds.Options{
		Fleet: "north", Store: f.dir, Clock: f.clock.Now, Log: slog.New(slog.DiscardHandler), Report: 10 * time.Millisecond,
		Rules: []xds.Rule{
			{SPIFFE: "spiffe://example.org/ns/acme/*", Tenant: "acme", Labels: map[string][]string{"env": {"prod", "test"}}},
			{SPIFFE: "spiffe://example.org/ns/other/*", Tenant: "other"},
			{CommonName: "sidecar-*", Labels: map[string][]string{"env": {"*"}}},
		},
	}
	for _, c := range change {
		c(&f.opt)
	}
	f.start()
	t.Cleanup(func() { f.stop() })
	return f
}

// start starts a new server on the previous one's address.
func (f *fleet) start() {
	f.t.Helper()
	var err error
	f.server = must.Get(xds.New(f.opt))(f.t)
	conf := must.Get(f.ca.Server())(f.t)
	ln := must.Get(net.Listen("tcp", f.addr))(f.t)
	f.addr = ln.Addr().String()
	f.refresh()
	stop, _, err := f.server.Serve(xds.Limit(ln), conf)
	must.Do(f.t, err)
	f.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), ring.Limit)
		defer cancel()
		expect.OK(f.t, stop(ctx))
	})
}

func (f *fleet) refresh() {
	f.t.Helper()
	must.Do(f.t, f.server.Refresh())
}

func bundle(text string) policy.Bundle {
	b := policy.Builtin()
	b.Policies = append(b.Policies, policy.Source{Name: "own.cedar", Text: "// " + text + "\n"})
	return b
}

// publish adds a release to the store and refreshes the server.
func (f *fleet) publish(number, floor uint64, sel policy.Selector) *policy.Release {
	f.t.Helper()
	r := must.Get(policy.SignRelease(bundle(fmt.Sprint(number)), policy.Statement{Fleet: "north", Number: number, Floor: floor, Selector: sel}, key))(f.t)
	must.Do(f.t, f.dir.Publish(r))
	f.refresh()
	return r
}

// sidecar is a follower with the releases that it put in force.
type sidecar struct {
	*follow.Follower
	mu      sync.Mutex
	applied []uint64
	refuse  map[uint64]error
	counts  follow.Tally
	stop    func()
}

func (s *sidecar) apply(r *policy.Release, keep func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refuse[r.Number]; err != nil {
		return err
	}
	if err := keep(); err != nil {
		return err
	}
	s.applied = append(s.applied, r.Number)
	return nil
}

func (s *sidecar) report(c ...follow.Count) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range c {
		s.counts.Add(c)
	}
}

func (s *sidecar) take(all bool) []follow.Count {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.Take(all)
}

// sidecar starts a sidecar. Its certificate has a SPIFFE id or a common name.
func (f *fleet) sidecar(node fleetpb.Node, certificate string, change ...func(*follow.Options, *sidecar)) *sidecar {
	f.t.Helper()
	conf := f.client(certificate)
	if strings.HasPrefix(certificate, "spiffe") {
		conf = f.client("", certificate)
	}
	s := &sidecar{refuse: map[uint64]error{}}
	opt := follow.Options{
		Address: f.addr, TLS: conf, Node: node, Fleet: "north", Keys: keys(), Path: filepath.Join(f.t.TempDir(), "last-good"),
		Apply: s.apply, Counts: s.take, Jitter: func() float64 { return 0.005 }, // of the second after which it tries again
	}
	for _, c := range change {
		c(&opt, s)
	}
	s.Follower = must.Get(follow.New(opt))(f.t)
	s.Start("") // nothing is stored
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	s.stop = sync.OnceFunc(func() { cancel(); <-done })
	f.t.Cleanup(s.stop)
	return s
}

func (f *fleet) runs(s *sidecar, r *policy.Release) {
	f.t.Helper()
	ring.Until(f.t, "running "+r.Name(), func() bool { return s.State().Running == r.Name() })
	ring.Until(f.t, "the acknowledgement of "+r.Name(), func() bool { return f.state(r.Number).Running > 0 })
}

func (f *fleet) state(number uint64) xds.ReleaseStatus {
	f.t.Helper()
	for _, r := range f.server.Status().Releases {
		if r.Number == number {
			return r
		}
	}
	f.t.Fatalf("no release %d", number)
	return xds.ReleaseStatus{}
}

const acme = "spiffe://example.org/ns/acme/web"

var everyone = policy.Selector{}

// Proves CARD-9: a sidecar gets a signed release and acknowledges it; the next one
// follows on the same stream.
func TestReleaseGoesToTheSidecar(t *testing.T) {
	f := newFleet(t)
	one := f.publish(1, 1, everyone)
	s := f.sidecar(fleetpb.Node{ID: "a", Tenant: "acme", Version: "1.2"}, acme)
	f.runs(s, one)
	two := f.publish(2, 1, everyone)
	f.runs(s, two)
	st := f.server.Sidecars()
	if len(st) != 1 || st[0].Certificate != acme || st[0].Running != two.Name() || st[0].Assigned != two.Name() || st[0].Version != "1.2" || !st[0].Connected {
		t.Errorf("the status is %+v", st)
	}
	if s := f.server.Status(); s.Connected != 1 || s.Behind != 0 || f.state(1).State != "past" || f.state(2).State != "current" {
		t.Errorf("the status is %+v", s)
	}
}

// Proves CARD-9: the control plane gets a sidecar's refusal with its reason, and the
// sidecar keeps its release.
func TestRefusalReachesTheControlPlane(t *testing.T) {
	f := newFleet(t)
	one := f.publish(1, 1, everyone)
	s := f.sidecar(fleetpb.Node{ID: "a", Tenant: "acme"}, acme, func(_ *follow.Options, s *sidecar) {
		s.refuse[2] = errors.New("own.cedar:2: attribute nothing not found")
	})
	f.runs(s, one)
	f.publish(2, 1, everyone)
	ring.Until(t, "the refusal", func() bool { return f.state(2).Refused == 1 })
	st := f.server.Sidecars()[0]
	if st.Rejected == nil || st.Rejected.Reason != "own.cedar:2: attribute nothing not found" || st.Running != one.Name() {
		t.Errorf("the status is %+v", st)
	}
	if got := s.State(); got.Running != one.Name() || got.AssignedError == nil {
		t.Errorf("the sidecar is at %+v", got)
	}
	three := f.publish(3, 1, everyone)
	f.runs(s, three)
	if got := s.State(); got.AssignedError != nil {
		t.Errorf("the sidecar is at %+v", got)
	}
}
