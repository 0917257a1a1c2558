package xds

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/wait"
	"github.com/memproxy/memproxy/policy"
)

// Options configure a Server. All but Plan and Warn are required.
type Options struct {
	Fleet string
	Store *Dir
	Rules []Rule
	Plan  Plan
	Clock func() time.Time
	Log   *slog.Logger
	// Report is how often sidecars report their decisions.
	Report time.Duration
	// Warn, if not nil, lists what a release newly allows, in sentences, when the release
	// is first seen. It may be slow.
	Warn func(from, to *policy.Release) []string
}

// DisconnectedRetention is how long a disconnected sidecar remains listed.
const DisconnectedRetention = time.Hour

// Server is one replica of the control plane. It is safe for concurrent use.
type Server struct {
	opt  Options
	wake chan struct{}

	mu       sync.Mutex
	nodes    map[sidecarKey]*node
	claimed  map[identity]int // number of nodes by certificate
	refusals map[identity]refusalCount
	releases map[string]*release // by name
	ordered  []*release          // by number
	offers   []offer
	warning  sync.WaitGroup // waits for the goroutines that run Warn
	faults   []string
	storeErr error // why the store could not be read, or nil
}

// release is a release of the store, and what became of it.
type release struct {
	*policy.Release
	packed   *anypb.Any // as it is sent
	progress progress
	tallies  tallies // all reported counts
	before   tallies // counts of its predecessor when the rollout was first seen; nil before
	warned   bool    // Warn was called
	warnings []string
}

// New returns a server. It offers nothing before the first Refresh.
func New(opt Options) (*Server, error) {
	if opt.Fleet == "" || opt.Store == nil || len(opt.Rules) == 0 || opt.Clock == nil || opt.Log == nil || opt.Report <= 0 {
		return nil, errors.New("xds: fleet, store, rules, clock, log and the report interval are required")
	}
	return &Server{
		opt: opt, wake: make(chan struct{}, 1),
		nodes: map[sidecarKey]*node{}, claimed: map[identity]int{}, refusals: map[identity]refusalCount{},
	}, nil
}

// The limits of a connection.
const (
	maxMessage    = 1 << 20 // size of a message from a sidecar, in bytes
	maxStreams    = 16      // per connection
	readBuffer    = 4 << 10
	writeBuffer   = 16 << 10
	pingAfter     = 30 * time.Second
	pingWait      = 10 * time.Second
	pingsAtMost   = 5 * time.Second
	connectWithin = 10 * time.Second
	maxConns      = 16384 // three quarters of them from one address
)

// Limit returns a listener with the limits that Serve needs.
func Limit(ln net.Listener) *frontend.Listener {
	return frontend.Limit(ln, frontend.ListenOptions{Connections: maxConns, NoEviction: true})
}

// Serve serves on a listener; conf must verify client certificates. stop ends every
// stream and returns when they have ended. failed receives the error if the listener
// fails.
func (s *Server) Serve(ln *frontend.Listener, conf *tls.Config) (stop func(context.Context) error, failed <-chan error, err error) {
	if conf == nil || conf.ClientAuth != tls.RequireAndVerifyClientCert {
		return nil, nil, errors.New("xds: the listener must require and verify client certificates")
	}
	g := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(conf)),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxStreams), grpc.ConnectionTimeout(connectWithin), grpc.WaitForHandlers(true),
		// Messages other than releases are small. With the library's default of 32 KiB
		// each way, buffers would take most of the memory of thousands of connections.
		grpc.ReadBufferSize(readBuffer), grpc.WriteBufferSize(writeBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingWait}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsAtMost, PermitWithoutStream: true}),
	)
	discovery.RegisterAggregatedDiscoveryServiceServer(g, ads{s: s})
	loadstats.RegisterLoadReportingServiceServer(g, reports{s})
	out := make(chan error, 1)
	go func() { out <- g.Serve(ln) }()
	return func(context.Context) error { // the streams would never end, so there is nothing to drain
		g.Stop()
		return nil
	}, out, nil
}

// Reread makes Run refresh.
func (s *Server) Reread() { wait.Wake(s.wake) }

// Run refreshes after Reread, and when a sidecar refuses a release, until ctx ends. It
// returns after its background work has ended.
func (s *Server) Run(ctx context.Context) {
	defer s.warning.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		if err := s.Refresh(); err != nil {
			s.opt.Log.Error("the release store is unavailable; the current offers stay in force", "error", err)
		}
	}
}

// Refresh reads the store, advances or stops rollouts, and assigns releases to sidecars.
// An error means that the store is unavailable; the offers then remain.
func (s *Server) Refresh() error {
	releases, faults, err := s.opt.Store.Releases()
	var marks []Mark
	if err == nil {
		marks, err = s.opt.Store.Marks()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storeErr = err
	if err != nil {
		return err
	}
	s.setReleases(releases, faults, progressOf(marks))
	s.offers = offers(s.ordered, s.opt.Plan)
	if s.advance() {
		s.offers = offers(s.ordered, s.opt.Plan)
	}
	s.removeStale()
	s.assign()
	return nil
}

func (s *Server) setReleases(found []*policy.Release, faults []error, marks map[uint64]progress) {
	s.faults = s.faults[:0]
	for _, f := range faults {
		s.faults = append(s.faults, f.Error())
	}
	was := s.releases
	s.releases, s.ordered = map[string]*release{}, s.ordered[:0]
	for _, p := range found {
		if p.Fleet != s.opt.Fleet {
			s.faults = append(s.faults, fmt.Sprintf("xds: release %d is of fleet %q", p.Number, p.Fleet))
			continue
		}
		r := was[p.Name()]
		if r == nil {
			r = &release{packed: fleetpb.Pack(fleetpb.ReleaseType, p.Encoded()), tallies: tallies{}}
		}
		r.Release, r.progress = p, marks[p.Number]
		s.releases[p.Name()] = r
		s.ordered = append(s.ordered, r)
	}
	for name := range was {
		if s.releases[name] == nil {
			for _, n := range s.nodes {
				delete(n.counts, name)
				n.wake()
			}
		}
	}
}

func (s *Server) assign() {
	for _, n := range s.nodes {
		n.assigned = s.releaseFor(n)
		n.wake()
	}
}

func (s *Server) releaseFor(n *node) string {
	if _, r := s.offered(n); r != nil {
		return r.Name()
	}
	return ""
}

// offered returns the release that a sidecar's narrowest channel offers, and the
// channel's selector.
func (s *Server) offered(n *node) (channel string, r *release) {
	for _, o := range s.offers {
		if !o.selector.Matches(n.Tenant, n.Labels) {
			continue
		}
		if r := o.pick(n.ID); r != nil {
			return o.selector.String(), r
		}
	}
	return "", nil
}
