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

func (o *Options) within(d time.Duration) time.Duration { return d * max(1, o.TimeoutFactor) }

// App is everything that the serve command runs, built from a configuration.
type App struct {
	*state
	gate       *gate.Gate
	callers    *callers
	edits      *edits
	clockGuard *upkeep.ClockGuard
	rules      *ruleset
	fleet      *fleetClient
	listeners  []*listener
	proxies    []*proxy.Proxy // of the backends, in the order of the configuration
	jobs       *upkeep.Jobs
	review     *review.API
	socket     string // path of the local operator's socket; "" if there is none
	webhooks   *review.Webhooks
	checker    *integrity.Checker

	unconfirmed *memories.Unconfirmed
}

// New opens the state and builds the gate and its listeners, which do not listen yet. On
// an error it closes everything that it opened.
func New(ctx context.Context, cfg *config.Config, o Options) (*App, error) {
	unsafe, err := allowedUnsafe(cfg, o.Getenv)
	if err = errors.Join(err, checkValues(cfg)); err != nil {
		return nil, err
	}
	if start := time.Now(); o.up == nil {
		o.up = func() time.Duration { return time.Since(start) }
	}
	level := map[string]slog.Level{"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError}[cfg.Log.Level]
	st, err := openState(ctx, cfg, o, unsafe, level, 1)
	if err != nil {
		return nil, err
	}
	s := &App{state: st}
	if err := build(ctx, s); err != nil {
		s.abort()
		return nil, err
	}
	return s, nil
}

// build makes everything that needs the state: the background work, what the gate asks,
// the gate, and the listeners in front of it.
func build(ctx context.Context, s *App) (err error) {
	s.edits = &edits{s}
	s.clockGuard = upkeep.NewClockGuard(s.clock, s.opt.up, s.ledger.Upkeep.AddRunTime, s.log)
	s.jobs = upkeep.New(upkeep.Options{Begin: s.group.Go, Ticker: s.opt.Ticker, Clock: s.clock, Log: s.log})
	if err := bindNames(ctx, s.cfg, s.ledger, s.clock(), s.log); err != nil {
		return err
	}
	s.checker = s.newChecker()
	s.group.Own(stageNotes, s.checker.Anchor)
	s.watchStores()

	if s.budget, err = s.openBudget(); err != nil {
		return err
	}
	s.fleet = &fleetClient{s, &releaseMeter{Meter: s.telemetry.Instruments(), names: map[string]string{}}}
	if s.rules, err = newRuleset(s.cfg, s.unsafe, s.fleet.connect, s.log, s.clock, s.group.Go); err != nil {
		return err
	}
	if s.callers, err = newCallers(s.cfg, s.keys.Signing.Derive("anonymous callers"), s.opt.within(identity.DefaultOIDCTimeout)); err != nil {
		return err
	}
	s.callers.watchIssuer(s.stores, s.log)
	s.unconfirmed = &memories.Unconfirmed{Log: s.log}
	if s.gate, err = gate.New(gateOptions(s), s.rules.current()); err != nil {
		return err
	}

	s.openReview()
	if err := s.buildListeners(); err != nil {
		return err
	}
	if err := s.edits.compare(s.cfg); err != nil {
		return err
	}
	s.watch()
	s.fleet.join()
	return nil
}

// gateOptions connects the gate to the stores and to the rest of the process.
func gateOptions(s *App) gate.Options {
	reviewers := reviewersOf(s.cfg.Review.Reviewers)
	return gate.Options{
		Identifier:   s.callers,
		Ledger:       s.ledger,
		Budget:       s.budget,
		Recorder:     s.audit,
		StoreTimeout: s.opt.within(gate.DefaultStoreTimeout),
		Signer:       s.signer,
		Holds: holdStore{s.ledger.Holds, func(h *memproxy.HeldWrite) bool {
			return reviewable(reviewers, s.cfg.Review.Need, h, s.socket != "")
		}},
		RefuseHolds: s.cfg.Review.Answer == "refuse",
		Rejections:  s.cfg.Limits.RejectionLimit(),
		Check:       s.checker.QueueCheck,
		Unconfirmed: s.unconfirmed.Add,
		Steps:       s.opt.Steps,
		Clock:       s.clock,
		NewID:       newID,
		Tracer:      s.telemetry.Tracer(),
		Meter:       s.fleet.meter,
		Log:         s.log,
	}
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

const namesAtOnce = 256 // how many names are bound to tenants in one transaction
