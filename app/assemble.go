// Package app is the process: it opens the state, builds the gate and its
// listeners from a configuration, runs what goes on in the background, and stops
// everything in order.
package app

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/budgets/redisstore"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/group"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/telemetry"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/upkeep"
)

// Options are what a process does not take from its configuration.
type Options struct {
	Log     io.Writer // what is logged
	Getenv  func(string) string
	Version string

	// Clock, if set, is what ledger, gate and review go by.
	Clock func() time.Time
	// Ticker paces what is done in the background; nil: the system's.
	Ticker group.Ticker
	// Transport, if set, is the way to every backend. With Handler a process can be
	// used without a socket.
	Transport http.RoundTripper
	// File is what the configuration was read from, and is followed: an edit is
	// taken over. "" is none.
	File string
	// Steps is notified of points at which a crash must lose nothing, for tests.
	Steps memproxy.Stepper

	sending  time.Duration // bounds what approved writes and rollbacks may take, for tests
	patience time.Duration // as in sidecar
}

// sidecar is everything that serve runs, put together from a configuration.
type App struct {
	cfg       *config.Config
	log       *slog.Logger
	clock     func() time.Time
	getenv    func(string) string
	transport http.RoundTripper // to backends; nil: each has its own
	telemetry *telemetry.Telemetry
	audit     *audit.Log
	ledger    *ledger.Ledger
	keys      ledger.Keys
	signer    *ledger.Signer // of stamps
	budget    gate.Budget
	// sharedBudget is Redis behind budget, nil where there is none.
	sharedBudget *redisstore.Store
	degraded     func() bool // whether the local share of the limits applies; nil without Redis
	stores       *readiness
	gate         *gate.Gate
	callers      *callers
	edits        *edits // of the configuration
	rules        *rulebook
	fleet        member
	listeners    []*listener
	bounded      sync.Mutex                // listeners, while metrics look at them
	inFlight     map[string]*face.InFlight // by backend: both its listeners share it
	proxies      []*proxy.Proxy
	version      string
	unsafe       []string // settings that weaken production
	group        *group.Group
	jobs         *upkeep.Jobs
	later        *after
	steps        memproxy.Stepper
	sending      time.Duration
	// patience is how many times as long calls of the ledger may take, for tests
	// on a busy machine; 0 is once.
	patience time.Duration

	runner     *review.Runner
	review     *review.API
	cutSending func()       // ends what reviewers are waiting for
	reviewAPI  http.Handler // nil without reviewers
	socket     string       // of the local operator, "" where there is none
	webhooks   *review.Webhooks
	custodian  *integrity.Custodian
	broken     upkeep.Signal // a version is not as it was written
	noticed    upkeep.Signal // a notice was queued
}

// How much may wait that callers do not wait for: lines of work, and the length
// of each.
const (
	laterLines = 32
	laterQueue = 256
)

// New opens the state and builds the gate and its faces. Nothing listens
// yet. On an error everything that was opened is closed again.
func New(ctx context.Context, cfg *config.Config, o Options) (_ *App, err error) {
	unsafe, err := cfg.Allowed(o.Getenv(config.UnsafeEnv))
	if err != nil {
		return nil, err
	}
	level := map[string]slog.Level{"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError}[cfg.Log.Level]
	s, err := open(ctx, cfg, o, unsafe, level)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.abort()
		}
	}()
	if err = bindNames(ctx, cfg, s.ledger, s.clock(), s.log); err != nil {
		return nil, err
	}
	s.custodian = s.newCustodian()
	s.group.Own(stageNotes, s.custodian.Anchor)
	s.later = newAfter(laterLines, laterQueue)
	s.group.Own(stageLater, s.later.close)
	if s.budget, err = s.openBudget(ctx); err != nil {
		return nil, err
	}
	if s.rules, err = newRulebook(s.group.Context(), cfg, s.log, s.group.Go); err != nil {
		return nil, err
	}
	if s.callers, err = newCallers(cfg, s.keys.Signing.Derive("anonymous callers")); err != nil {
		return nil, err
	}
	s.fleet.tally = newTally(s.telemetry.Instruments())
	s.gate, err = gate.New(gate.Options{
		Identifier: s.callers, Ledger: s.ledger, Budget: s.budget, Recorder: s.audit, Signer: s.signer,
		RecordTimeout: gate.DefaultRecordTimeout * max(1, s.patience),
		Clock:         s.clock, NewID: newID, Keeper: keeper{s.ledger, func(h *memproxy.HeldWrite) bool {
			there := review.Deciding(reviewersOf(cfg.Review.Reviewers), h)
			if s.socket != "" {
				there++ // the operator
			}
			return there >= cfg.Review.Need
		}}, RefuseHolds: s.cfg.Review.Answer == "refuse", Rejections: s.cfg.Limits.RejectionLimit(), Later: s.later.run, Suspect: s.custodian.Suspect, Steps: s.steps,
		Tracer: s.telemetry.Tracer(), Meter: s.fleet.tally, Log: s.log,
	}, s.rules.current())
	if err != nil {
		return nil, err
	}
	s.group.Own(stageLoops, s.gate.Close)
	if err = s.openReview(); err != nil {
		return nil, err
	}
	if err = s.buildFaces(); err != nil {
		return nil, err
	}
	if err = s.compareSettings(s.cfg); err != nil {
		return nil, err
	}
	s.watchStores()
	s.watch(o.File)
	if err = s.joinFleet(); err != nil {
		return nil, err
	}
	return s, nil
}

// Flush returns once all that was recorded so far is on disk.
func (s *App) Flush(ctx context.Context) error { return s.audit.Flush(ctx) }

// newID returns a decision id: a UUID of version 7, unguessable and in the
// order of time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

func (s *App) path(parts ...string) string {
	return filepath.Join(append([]string{s.cfg.State}, parts...)...)
}

// open opens the log, telemetry and the state, with nothing that uses them. On
// an error everything that was opened is closed again.
func open(ctx context.Context, cfg *config.Config, o Options, unsafe []string, level slog.Level) (_ *App, err error) {
	s := &App{
		cfg: cfg, version: o.Version, getenv: o.Getenv, transport: o.Transport, clock: o.Clock, steps: o.Steps, sending: o.sending, patience: o.patience,
		unsafe: unsafe, broken: upkeep.NewSignal(), noticed: upkeep.NewSignal(),
	}
	s.edits = &edits{App: s, inForce: cfg}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.log, err = telemetry.NewLogger(o.Log, telemetry.LogOptions{Format: cfg.Log.Format, Level: level}); err != nil {
		return nil, err
	}
	s.group = group.New(ctx, group.Options{Stages: stages, Loops: stageLoops, Ticker: o.Ticker, Log: s.log, Patience: o.patience})
	defer func() {
		if err != nil {
			s.abort()
		}
	}()
	s.jobs = upkeep.New(upkeep.Options{Begin: s.group.Go, Ticker: o.Ticker, Clock: s.clock, Log: s.log})
	if err = s.openTelemetry(ctx); err != nil {
		return nil, err
	}
	return s, s.openState()
}

func (s *App) openTelemetry(ctx context.Context) error {
	headers := telemetry.Headers{}
	for name, v := range s.cfg.Telemetry.Headers {
		headers[name] = v.Reveal()
	}
	host, _ := os.Hostname() // an unnamed host is an unnamed instance
	opt := telemetry.Options{
		ServiceName: s.cfg.Telemetry.Service, Version: s.version, Instance: host,
		OTLP: telemetry.OTLP{Endpoint: s.cfg.Telemetry.OTLP, Headers: headers}, Log: s.log,
	}
	if r := s.cfg.Telemetry.Sample; r != nil {
		if opt.SampleRatio = *r; *r == 0 {
			opt.SampleRatio = -1
		}
	}
	t, err := telemetry.Start(ctx, opt)
	if err != nil {
		return err
	}
	s.telemetry = t
	s.group.Own(stageTelemetry, t.Shutdown)
	return nil
}

// journalReserve holds a bundle of records of ordinary size.
const journalReserve = 256 << 10

// openState opens what must survive: the audit log and the ledger.
func (s *App) openState() error {
	if err := os.MkdirAll(s.path("keys"), 0o700); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	key, err := s.auditKey()
	if err != nil {
		return err
	}
	opt := audit.Options{Dir: s.path("audit"), Key: key, Origin: s.cfg.Audit.Origin, Unsafe: s.unsafe, OnRecord: s.telemetry.OnRecord, Reserve: journalReserve}
	if opt.Origin == "" {
		opt.Origin = "memproxy/" + Fingerprint(key)
	}
	opt.Retention = s.cfg.Audit.Retention.Time()
	if s.audit, err = audit.Open(opt); err != nil {
		return err
	}
	s.group.Own(stageStores, s.audit.Close)
	keys, err := ledger.LoadOrCreateVaultKeys(s.path("keys"), rand.Reader)
	if err != nil {
		return err
	}
	vault, err := ledger.NewVault(keys, rand.Reader)
	if err != nil {
		return err
	}
	if s.ledger, err = ledger.Open(s.ledgerOptions(vault)); err != nil {
		return err
	}
	s.group.Own(stageStores, func(context.Context) error { return s.ledger.Close() })
	if s.keys, err = ledger.LoadOrCreateKey(s.path("keys"), rand.Reader); err != nil {
		return err
	}
	s.signer, err = ledger.NewSigner(s.keys)
	return err
}

// auditKey is the log's key: one that is made elsewhere, or the state's own.
func (s *App) auditKey() (ed25519.PrivateKey, error) {
	if path := s.cfg.Audit.KeyFile; path != "" {
		return audit.LoadKey(path)
	}
	return audit.LoadOrCreateKey(s.path("keys"))
}

// ledgerOptions are a file of one's own, or a database that replicas share.
func (s *App) ledgerOptions(vault *ledger.Vault) ledger.Options {
	opt := ledger.Options{Timeout: ledger.DefaultTimeout * max(1, s.patience), Path: s.path("ledger.db"), Clock: s.clock, Lost: s.lost, Told: s.chronicled, Broken: s.broken.Send, Vault: vault, Locks: s.lockLimits(), MaxHolds: s.cfg.Review.MaxHeldAll, MaxPrincipalHolds: s.cfg.Review.MaxHeld, MaxUserHolds: s.cfg.Review.MaxHeldUser}
	if s.cfg.Review.Webhook != nil {
		opt.Noticed = s.noticed.Send
	}
	if u := s.cfg.Ledger.URL.Reveal(); u != "" {
		opt.Path, opt.URL = "", u
	}
	return opt
}

// lockLimits are how many rejections lock writes. They hold for what was
// counted before this start, too.
func (s *App) lockLimits() *memproxy.LockLimits { return lockLimits(s.cfg) }

func lockLimits(cfg *config.Config) *memproxy.LockLimits {
	c, limits := cfg.Sessions, memproxy.DefaultLockLimits()
	limits.Session, limits.User, limits.Principal = *c.MaxRejections, *c.MaxUserRejections, *c.MaxPrincipalRejections
	limits.For = c.LockFor.Time()
	return &limits
}

// lost is told of ownership that could not be written: its memories are asked
// for upstream again.
func (s *App) lost(rows int, err error) {
	s.telemetry.Instruments().LedgerFailed(context.Background())
	s.log.Error("the ledger lost rows", "rows", rows, "error", err)
}

// openBudget counts in this process, or in Redis with this process as what is
// left when Redis is away.
func (s *App) openBudget(context.Context) (gate.Budget, error) {
	r := s.cfg.Budgets.Redis
	path := s.path("budgets.jsonl")
	if r != nil {
		path = "" // the totals are Redis's; the local share is for an outage
	}
	local, err := budgets.NewMemory(budgets.MemoryOptions{Path: path})
	if err != nil {
		return nil, err
	}
	s.group.Own(stageStores, func(context.Context) error { return local.Close() })
	if r == nil {
		return local, nil
	}
	shared, err := redisstore.New(redisstore.Options{URL: r.URL.Reveal()})
	if err != nil {
		return nil, err
	}
	s.sharedBudget = shared
	s.group.Own(stageStores, func(context.Context) error { return shared.Close() })
	opt := budgets.DegradingOptions{
		Shared: shared, Local: local, Deadline: r.Timeout.Time(), Clock: time.Now,
		Changed: func(err error) {
			if err != nil {
				s.log.Warn("the shared budget store is away; a local share of the limits applies", "error", err)
			} else {
				s.log.Info("the shared budget store is back")
			}
		},
	}
	if r.Share != nil {
		opt.Share = memproxy.PerMille(*r.Share * 1000)
	}
	both, err := budgets.NewDegrading(opt)
	if err != nil {
		return nil, err
	}
	s.degraded = both.Degraded
	s.group.Own(stageStores, both.Close)
	return both, nil
}

// record writes an event that is about the process, not about a request.
func (s *App) record(t memproxy.EventType, detail string) {
	ev := memproxy.Event{Type: t, Time: time.Now(), Policy: s.rules.current().Version, Claimed: -1, Confidence: -1, Detail: detail}
	if err := s.audit.Note(ev); err != nil {
		s.log.Error("audit note lost", "type", string(t), "error", err)
	}
}

// namesAtOnce is how many names are bound in one transaction.
const namesAtOnce = 256
