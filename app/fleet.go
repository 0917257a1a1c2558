package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"sync"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/envoy/xds/follow"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/tlsfile"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
	"github.com/memproxy/memproxy/proxy"
)

const lastGoodFile = "rules.last-good" // file of the current release, in the state directory

// firstBundle returns the bundle with which a sidecar starts: the stored release, else
// the policy directory. In a fleet only the fleet's own rules count: without a stored
// release and a directory, every request is refused until the first release arrives.
func firstBundle(cfg *config.Config, follower *follow.Follower, log *slog.Logger) (policy.Bundle, error) {
	if follower != nil {
		if kept := follower.Stored(); kept != nil {
			_, err := cedar.Compile(kept.Contents)
			if err == nil {
				return kept.Contents, nil
			}
			log.Error("the stored release does not compile and is not in force", "release", kept.Name(), "error", err)
		}
		if cfg.Policy.Dir == "" {
			return policy.Bundle{Schema: policy.Builtin().Schema}, nil
		}
	}
	if cfg.Policy.Dir == "" {
		return policy.Builtin(), nil
	}
	b, err := policy.Load(cfg.Policy.Dir)
	return b, cfg.Fault(err, "policy", "dir")
}

// newFollower returns a follower of the configured control plane that has read the stored
// release, or nil if there is no control plane.
func newFollower(cfg *config.Config, log *slog.Logger, connect func(*follow.Options) error) (*follow.Follower, error) {
	c := cfg.Policy.Control
	if c == nil {
		return nil, nil
	}
	opt := follow.Options{
		Address: c.Address, Fleet: c.Fleet, Keys: config.PublicKeys(c.Keys), Path: filepath.Join(cfg.State, lastGoodFile), Log: log,
		Node:   fleetpb.Node{ID: c.Node, Tenant: c.Tenant, Labels: c.Labels},
		Jitter: rand.Float64,
	}
	if connect != nil {
		if err := connect(&opt); err != nil {
			return nil, err
		}
	}
	return follow.New(opt)
}

// tablesOf returns the limits and ceilings of a bundle, or the configuration's if the
// bundle has none.
func tablesOf(b policy.Bundle, cfg *config.Config) (memproxy.Limits, memproxy.Ceilings, error) {
	limits, noLimits := cfg.Budgets.Limits()
	ceilings, noCeilings := cfg.Confidence.Ceilings()
	if b.Limits != nil {
		limits = *b.Limits
	}
	if b.Ceilings != nil {
		ceilings = *b.Ceilings
	}
	if !*cfg.Confidence.Clamp {
		ceilings = ceilings.Lifted()
	}
	return limits, ceilings, errors.Join(noLimits, noCeilings)
}

// fleetClient connects this sidecar to its fleet.
type fleetClient struct {
	*App
	meter *releaseMeter
}

// connect adds what the follower needs of this sidecar.
func (m *fleetClient) connect(opt *follow.Options) (err error) {
	opt.Node.Version = m.opt.Version
	opt.Apply, opt.Refused, opt.Counts = m.applyRelease, m.refused, m.meter.take
	if opt.TLS, err = clientTLS(m.cfg.Policy.Control, m.log); err != nil {
		return fmt.Errorf("policy.control: %w", err)
	}
	return nil
}

// join starts to follow the control plane, if there is one. The ruleset already has the
// first bundle.
func (m *fleetClient) join() {
	if m.rules.follower == nil {
		return
	}
	if kept := m.rules.follower.Start(m.rules.now.Load().bundle.Version()); kept != nil {
		m.meter.name(m.rules.current().Version, kept.Name())
		m.log.Info("started with the stored release", "release", kept.Name())
	}
	m.group.Go("fleet", m.rules.follower.Run)
}

// clientTLS returns the TLS configuration with which the sidecar authenticates to its
// control plane.
func clientTLS(c *config.Control, log *slog.Logger) (*tls.Config, error) {
	cert, err := tlsfile.Open(c.TLS.Cert, c.TLS.Key, log)
	if err != nil {
		return nil, err
	}
	pool, err := tlsfile.Roots(c.TLS.CA)
	if err != nil {
		return nil, err
	}
	name := c.TLS.Name
	if name == "" {
		name, _, _ = net.SplitHostPort(c.Address) // the address was validated with the configuration
	}
	return &tls.Config{GetClientCertificate: cert.Client, RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS13}, nil
}

// applyRelease puts a release in force. keep stores it on disk first.
func (m *fleetClient) applyRelease(r *policy.Release, keep func() error) error {
	err := m.rules.useBundle(r.Contents, func(rules *gate.Rules) error {
		if err := keep(); err != nil {
			return err
		}
		m.meter.name(rules.Version, r.Name())
		return m.gate.Use(rules)
	})
	if err != nil {
		return err // ready reports it for as long as the release is assigned
	}
	version := m.rules.current().Version
	m.log.Info("release in force", "release", r.Name(), "version", version)
	m.edits.noteInForce("release " + r.Name() + ", rules " + version)
	return nil
}

func (m *fleetClient) refused(release string, err error) {
	m.telemetry.Instruments().Reloaded(context.Background(), false)
	m.edits.notInForce("release "+release, err)
}

// ready is the readiness check of the connection to the control plane.
func (m *fleetClient) ready() proxy.Check {
	st := m.rules.follower.State()
	c := proxy.Check{Name: "control", OK: true, Detail: "release " + st.Running}
	switch {
	case st.Running == "" && m.cfg.Policy.Dir == "":
		c.OK, c.Detail = false, "no release received yet; every request is refused"
	case st.Running == "":
		c.Degraded, c.Detail = true, "no release received yet; the policy directory applies"
	}
	if st.StoredError != nil {
		c.Detail = st.StoredError.Error() + "; " + c.Detail
	}
	if st.AssignedError != nil {
		c.Degraded = true
		c.Detail += "; release " + st.Assigned + " is refused: " + st.AssignedError.Error()
	}
	if !st.Connected && st.ConnectionError != nil {
		c.Degraded = true
		c.Detail += "; " + st.ConnectionError.Error()
	}
	return c
}

// releaseMeter counts decisions by release, for the reports to the control plane, and
// forwards all calls to another meter.
type releaseMeter struct {
	gate.Meter

	mu    sync.Mutex
	names map[string]string // release, by version of the rules
	tally follow.Tally
}

// name records which release a version of the rules belongs to.
func (t *releaseMeter) name(version, release string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if release == "" {
		return
	}
	if len(t.names) >= maxNames {
		clear(t.names) // only requests in flight lose the name of their release
	}
	t.names[version] = release
}

const maxNames = 100 // how many versions are remembered

// breakage lists the reasons of decisions that were caused by a failure and not by the
// caller.
var breakage = []memproxy.ReasonCode{
	memproxy.PolicyError, memproxy.AuditUnavailable, memproxy.LedgerUnavailable, memproxy.InternalError,
}

// Decided implements gate.Meter.
func (t *releaseMeter) Decided(ctx context.Context, ev *memproxy.Event) {
	t.Meter.Decided(ctx, ev)
	c := follow.Count{Decisions: 1}
	if ev.Verdict.Stops() {
		c.Refused = 1
	}
	if slices.ContainsFunc(ev.Reasons, func(r memproxy.Reason) bool { return slices.Contains(breakage, r.Code) }) {
		c.Errors = 1
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if name, ok := t.names[ev.Policy]; ok {
		c.Release = name
		t.tally.Add(c)
	}
}

func (t *releaseMeter) take(all bool) []follow.Count {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tally.Take(all)
}
