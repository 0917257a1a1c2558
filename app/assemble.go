// Package app is the running process: it opens the state, builds the gate and its
// listeners from a configuration, runs the background jobs, and stops everything in
// order.
package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/group"
	"github.com/memproxy/memproxy/identity"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/upkeep"
	"github.com/memproxy/memproxy/upkeep/memories"
)

// Options are the inputs of a process that are not in its configuration.
type Options struct {
	Log     io.Writer // receives the log
	Getenv  func(string) string
	Version string

	// Clock, if set, replaces the system clock in the ledger, the gate, the review and
	// agents' runs.
	Clock func() time.Time
	// Ticker paces the background jobs. The default is the system's ticker.
	Ticker group.Ticker
	// Transport, if set, sends the requests to every backend. With Handler, a process can
	// be used without a socket.
	Transport http.RoundTripper
	// File is the configuration file, which is watched for edits. If it is "", nothing is
	// watched.
	File string
	// TimeoutFactor multiplies the timeouts of stores, backends, issuers and the stages of a
	// stop, for tests and the demo, where the machine may be busy and no caller waits. 0
	// counts as 1.
	TimeoutFactor time.Duration
	// Steps is called at points at which a crash must lose nothing, for tests.
	Steps memproxy.Stepper

	sending time.Duration        // timeout for sending approved writes and rollbacks, for tests
	up      func() time.Duration // how long the process has been running, for tests; the default counts from New
	pace    integrity.Pace       // pace of reading backends, for tests; zero is the default
}

// within returns a timeout multiplied by TimeoutFactor.
func (o *Options) within(d time.Duration) time.Duration { return d * max(1, o.TimeoutFactor) }

// App is everything that the serve command runs, built from a configuration.
type App struct {
	*state
	gate        *gate.Gate
	callers     *callers
	edits       *edits // watches the configuration file
	clockGuard  *upkeep.ClockGuard
	rules       *ruleset
	fleet       *fleetClient
	listeners   []*listener
	listenersMu sync.Mutex // guards listeners against concurrent reads by metrics
	inFlight    shares
	proxies     []*proxy.Proxy
	jobs        *upkeep.Jobs
	deferred    *deferredWork
	review      *review.API
	socket      string // path of the local operator's socket; "" if there is none
	webhooks    *review.Webhooks
	checker     *integrity.Checker

	unconfirmed *memories.Unconfirmed
}

// Bounds of deferred work: the number of queues, and the capacity of each.
const (
	deferredQueues    = 32
	deferredQueueSize = 256
)

// New opens the state and builds the gate and its listeners, which do not listen yet. On
// an error it closes everything that it opened.
func New(ctx context.Context, cfg *config.Config, o Options) (_ *App, err error) {
	unsafe, err := allowedUnsafe(cfg, o.Getenv)
	if err = errors.Join(err, checkValues(cfg)); err != nil {
		return nil, err
	}
	level := map[string]slog.Level{"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError}[cfg.Log.Level]
	st, err := openState(ctx, cfg, o, unsafe, level)
	if err != nil {
		return nil, err
	}
	s := &App{state: st, inFlight: shares{}}
	s.edits = &edits{App: s, inForce: cfg}
	if start := time.Now(); o.up == nil {
		o.up = func() time.Duration { return time.Since(start) }
	}
	s.clockGuard = upkeep.NewClockGuard(s.clock, o.up, s.ledger.Upkeep.AddRunTime, s.log)
	s.jobs = upkeep.New(upkeep.Options{Begin: s.group.Go, Ticker: o.Ticker, Clock: s.clock, Log: s.log})
	defer func() {
		if err != nil {
			s.abort()
		}
	}()
	if err = bindNames(ctx, cfg, s.ledger, s.clock(), s.log); err != nil {
		return nil, err
	}
	s.checker = s.newChecker()
	s.group.Own(stageNotes, s.checker.Anchor)
	s.deferred = newDeferredWork(deferredQueues, deferredQueueSize)
	s.group.Own(stageDeferred, s.deferred.close)
	s.watchStores()
	if s.budget, err = s.openBudget(); err != nil {
		return nil, err
	}
	if s.rules, err = newRuleset(cfg, s.log, s.clock, s.group.Go); err == nil {
		err = keepsBuiltin(cfg, unsafe, &s.rules.now.Load().bundle)
	}
	if err != nil {
		return nil, err
	}
	if s.callers, err = newCallers(cfg, s.keys.Signing.Derive("anonymous callers"), o.within(identity.DefaultOIDCTimeout)); err != nil {
		return nil, err
	}
	s.callers.watchIssuer(s.stores, s.log)
	s.unconfirmed = &memories.Unconfirmed{Log: s.log}
	s.fleet = &fleetClient{App: s, meter: newReleaseMeter(s.telemetry.Instruments())}
	s.gate, err = gate.New(gate.Options{
		Identifier: s.callers, Ledger: s.ledger, Budget: s.budget, Recorder: s.audit, Signer: s.signer,
		RecordTimeout: o.within(gate.DefaultRecordTimeout),
		Clock:         s.clock, NewID: newID, Holds: holdStore{s.ledger.Holds, func(h *memproxy.HeldWrite) bool {
			return reviewable(cfg, h, s.socket != "")
		}}, RefuseHolds: s.cfg.Review.Answer == "refuse", Rejections: s.cfg.Limits.RejectionLimit(), Later: s.deferred.run, Check: s.checker.QueueCheck, Steps: o.Steps,
		Unconfirmed: s.unconfirmed.Add, Tracer: s.telemetry.Tracer(), Meter: s.fleet.meter, Log: s.log,
	}, s.rules.current())
	if err != nil {
		return nil, err
	}
	s.openReview()
	if err = s.buildListeners(); err != nil {
		return nil, err
	}
	if err = s.edits.compare(s.cfg); err != nil {
		return nil, err
	}
	s.watch()
	if err = s.fleet.join(); err != nil {
		return nil, err
	}
	return s, nil
}

// newID returns a decision id: a UUID of version 7, which is unguessable and ordered by
// time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// record writes an audit event that is about the process, not about a request.
func (s *App) record(t memproxy.EventType, detail string) {
	ev := memproxy.Event{Type: t, Time: time.Now(), Policy: s.rules.current().Version, Claimed: -1, Confidence: -1, Detail: detail}
	if err := s.audit.RecordAsync(ev); err != nil {
		s.log.Error("audit note lost", "type", string(t), "error", err)
	}
}

// namesAtOnce is how many names are bound to tenants in one transaction.
const namesAtOnce = 256
