package follow

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/internal/wait"
	"github.com/memproxy/memproxy/policy"
)

// Options configure a Follower. Run needs all of them but Log and Refused; to read the
// stored release, Node, Fleet, Keys and Path suffice.
type Options struct {
	Address string
	TLS     *tls.Config  // TLS has the client certificate and the control plane's roots
	Node    fleetpb.Node // Node describes this sidecar; Running is ignored
	Fleet   string
	Keys    []ed25519.PublicKey // without any, no release is accepted
	// Path is the file of the release in force.
	Path string
	// Apply puts a release in force. It calls keep after it has checked the release and
	// before it puts it in force, and returns an error of keep. Its error is sent to the
	// control plane, with file and line and without secrets. Calls are sequential.
	Apply func(r *policy.Release, keep func() error) error
	// Refused, if set, is called with a release that is not put in force, and why.
	Refused func(release string, err error)
	// Counts returns all decisions of the process, or those since the last call; see Tally.
	Counts func(all bool) []Count
	// Jitter returns a random number from 0 to 1, the fraction of the delay to wait
	// before the next attempt.
	Jitter func() float64
	Log    *slog.Logger
}

// The delay between two attempts to connect doubles from firstRetry to lastRetry
// (exponential backoff with jitter, so that the sidecars of a fleet do not reconnect at
// the same time).
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// Count is the number of decisions under one release.
type Count struct {
	Release                    string // name of the release
	Decisions, Refused, Errors uint64
}

// State is the state of the connection to the control plane and of the rules.
type State struct {
	Connected bool
	Running   string // name of the release in force, or ""
	Assigned  string // name of the last assigned release
	// AssignedError is why the assigned release is not in force, or nil.
	AssignedError error
	// StoredError is why the stored release is not in force, until one is, or nil.
	StoredError error
	// ConnectionError is why there is no connection, or nil.
	ConnectionError error
}

// Follower follows one control plane. Run may be called once.
type Follower struct {
	opt Options

	mu      sync.Mutex
	state   State
	floor   uint64
	current *policy.Release // release in force, or nil
	// newest is the highest number that was in force. idle has the times at which recent
	// releases did not raise it.
	newest uint64
	idle   []time.Time
}

// New reads the stored release. A stored release that is no longer acceptable (another
// key, fleet, tenant or label) is not used, but its floor still applies (rollback
// protection).
func New(opt Options) (*Follower, error) {
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	f := &Follower{opt: opt}
	if err := f.load(); err != nil {
		return nil, err
	}
	if f.state.StoredError != nil {
		opt.Log.Error(f.state.StoredError.Error())
	}
	return f, nil
}

// Stored returns the stored release that New found, or nil.
func (f *Follower) Stored() *policy.Release { return f.current }

func (f *Follower) load() error {
	k, err := readStoredState(f.opt.Path)
	f.floor = k.Floor
	if err != nil || len(k.release) == 0 {
		return err
	}
	r, err := policy.OpenRelease(k.release, f.opt.Keys...)
	if err == nil {
		err = f.acceptable(r)
	}
	if err != nil {
		f.state.StoredError = unused(err)
		return nil
	}
	f.current = r
	return nil
}

func unused(why error) error { return fmt.Errorf("the stored release is not used: %w", why) }

// Start must be called before Run, with the version of the bundle in force. It returns
// the stored release, or nil if that is not in force; it is then requested again.
func (f *Follower) Start(bundle string) *policy.Release {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.current == nil:
		return nil
	case f.current.Bundle != bundle:
		f.current, f.state.StoredError = nil, unused(errors.New("its rules do not compile"))
		return nil
	}
	f.state.Running, f.newest = f.current.Name(), f.current.Number
	return f.current
}

// State returns the current state.
func (f *Follower) State() State { return f.update(func(*State) {}) }

func (f *Follower) update(change func(*State)) State {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.state)
	return f.state
}

func (f *Follower) acceptable(r *policy.Release) error {
	switch {
	case r.Fleet != f.opt.Fleet:
		return fmt.Errorf("release %d is of fleet %q", r.Number, r.Fleet)
	case !r.Selector.Matches(f.opt.Node.Tenant, f.opt.Node.Labels):
		return fmt.Errorf("release %d is for %s and not for this sidecar", r.Number, r.Selector)
	case r.Number < f.floor:
		return fmt.Errorf("release %d is older than %d, the oldest release that may replace the current one", r.Number, f.floor)
	case f.current != nil && r.Number == f.current.Number && r.Bundle != f.current.Bundle:
		return fmt.Errorf("release %d is already in force with another bundle: release numbers must be unique", r.Number)
	}
	return nil
}

// take checks a release and puts it in force, unless it is. name is the control plane's name
// for the release.
func (f *Follower) take(name string, encoded []byte) error {
	r, err := policy.OpenRelease(encoded, f.opt.Keys...)
	if err != nil {
		return err
	}
	f.mu.Lock()
	err = f.acceptable(r)
	running := f.state.Running
	floor := max(f.floor, r.Floor)
	f.mu.Unlock()
	if err == nil && r.Name() != name {
		err = fmt.Errorf("release %s was received under another name", r.Name())
	}
	if err != nil {
		return err
	}
	if r.Name() == running {
		return nil
	}
	err = f.opt.Apply(r, func() error { return storedState{floor, r.Encoded()}.write(f.opt.Path) })
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Number > f.newest {
		f.newest, f.idle = r.Number, nil
	}
	f.current, f.floor = r, floor
	f.state.Running, f.state.AssignedError, f.state.StoredError = r.Name(), nil, nil
	return nil
}

// Run follows the control plane until ctx ends. It retries without limit.
func (f *Follower) Run(ctx context.Context) {
	pause := firstRetry
	for ctx.Err() == nil {
		heard, err := f.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if heard {
			pause = firstRetry
		}
		f.lost(err)
		_ = wait.Sleep(ctx, time.Duration(f.opt.Jitter()*float64(pause))) // or until ctx ends
		pause = min(2*pause, lastRetry)
	}
}

// lost records that there is no connection, and whether the control plane was unreachable
// or refused this sidecar.
func (f *Follower) lost(err error) {
	switch s := status.Convert(err); s.Code() {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.ResourceExhausted:
		err = fmt.Errorf("the control plane rejected this sidecar: %s", s.Message())
	default:
		err = fmt.Errorf("the control plane is unavailable: %w", err)
	}
	var was State
	f.update(func(s *State) {
		was = *s
		s.Connected, s.ConnectionError = false, err
	})
	if was.Connected || was.ConnectionError == nil {
		f.opt.Log.Warn("the connection to the control plane failed; the current rules stay in force", "error", err)
	}
}

// Limits of releases that are refused, or whose number is not higher than before. They
// need no new signature, and each costs the sidecar a check and usually an audit record.
// Rollbacks are rare.
const (
	maxIdle    = 16
	idleWindow = time.Minute
)

// limitRate waits if the last release did not raise the highest number and too many recent
// ones did not either. Meanwhile the control plane's messages are not read.
func (f *Follower) limitRate(ctx context.Context, before uint64) error {
	f.mu.Lock()
	if f.newest > before {
		f.mu.Unlock()
		return nil
	}
	f.idle = append(f.idle, time.Now())
	var rest time.Duration
	if over := len(f.idle) - maxIdle; over > 0 {
		rest = idleWindow - time.Since(f.idle[over-1])
		f.idle = f.idle[over:]
	}
	f.mu.Unlock()
	return wait.Sleep(ctx, rest)
}
