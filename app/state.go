package app

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/budgets/redisstore"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/group"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/keys"
	"github.com/memproxy/memproxy/telemetry"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/upkeep"
)

// state is what a process has open: the log, telemetry, and the persistent stores.
type state struct {
	cfg    *config.Config
	opt    Options
	unsafe []string // settings that weaken production
	log    *slog.Logger
	clock  func() time.Time
	group  *group.Group

	telemetry *telemetry.Telemetry
	audit     *audit.Log
	logGone   string // the warning that the state's audit log was missing at the start, or ""
	ledger    *ledger.Ledger
	keys      keys.Set
	signer    *keys.Signer // signs stamps
	budget    gate.Budget
	stores    *readiness
	broken    upkeep.Signal // sent when a version differs from what was written
	noticed   upkeep.Signal // sent when a notice was queued
}

// openState opens the log, telemetry and the stores. On an error it closes everything
// that it opened. factor multiplies the timeouts of the ledger, like TimeoutFactor.
func openState(ctx context.Context, cfg *config.Config, o Options, unsafe []string, level slog.Level, factor time.Duration) (*state, error) {
	s, err := openRecords(ctx, cfg, o, unsafe, level)
	if err != nil {
		return nil, err
	}
	s.opt.TimeoutFactor = max(factor, o.TimeoutFactor)
	if err := s.openLedger(); err != nil {
		s.abort()
		return nil, err
	}
	return s, nil
}

func openRecords(ctx context.Context, cfg *config.Config, o Options, unsafe []string, level slog.Level) (_ *state, err error) {
	s := &state{cfg: cfg, opt: o, unsafe: unsafe, clock: o.Clock, broken: upkeep.NewSignal(), noticed: upkeep.NewSignal()}
	if s.clock == nil {
		s.clock = time.Now
	}
	s.log = telemetry.NewLogger(o.Log, cfg.Log.Format, level)
	s.group = group.New(ctx, group.Options{Stages: stages, Loops: stageLoops, Ticker: o.Ticker, Log: s.log, Patience: o.TimeoutFactor})
	defer func() {
		if err != nil {
			s.abort()
		}
	}()
	if err = s.openTelemetry(ctx); err != nil {
		return nil, err
	}
	// An empty directory that was prepared for the state, often with mode 0755, gets the
	// mode of one that is created here. The root of a volume may belong to another user
	// and stays as it is.
	if entries, err := os.ReadDir(s.path()); err == nil && len(entries) == 0 {
		_ = os.Chmod(s.path(), 0o700)
	}
	if err = os.MkdirAll(s.path("keys"), 0o700); err != nil {
		return nil, fmt.Errorf("state: %w; set state to a directory that the user memproxy runs as may make and write to", err)
	}
	if err = s.openAudit(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *state) path(parts ...string) string {
	return filepath.Join(append([]string{s.cfg.State}, parts...)...)
}

func (s *state) openTelemetry(ctx context.Context) error {
	headers := telemetry.Headers{}
	for name, v := range s.cfg.Telemetry.Headers {
		headers[name] = v.Reveal()
	}
	host, _ := os.Hostname() // without a host name the instance has no name
	opt := telemetry.Options{
		ServiceName: s.cfg.Telemetry.Service, Version: s.opt.Version, Instance: host,
		OTLP: telemetry.OTLP{Endpoint: s.cfg.Telemetry.OTLP, Headers: headers}, SampleRatio: *s.cfg.Telemetry.Sample, Log: s.log,
	}
	t, err := telemetry.Start(ctx, opt)
	if err != nil {
		return err
	}
	s.telemetry = t
	s.group.Own(stageTelemetry, func(ctx context.Context) error { _ = t.Shutdown(ctx); return nil }) // telemetry may be lost
	return nil
}

const journalReserve = 256 << 10 // room for a batch of records of ordinary size

func (s *state) openAudit() error {
	key, err := s.auditKey()
	if err != nil {
		return err
	}
	opt := audit.Options{Dir: s.path("audit"), Key: key, Origin: s.cfg.Audit.Origin, Unsafe: s.unsafe, OnRecord: s.telemetry.OnRecord, Reserve: journalReserve}
	if opt.Origin == "" {
		opt.Origin = defaultOrigin(key)
	}
	exists := func(parts ...string) bool { _, err := os.Stat(s.path(parts...)); return err == nil }
	if exists(settingsFile) && !exists("audit", "checkpoint") { // each start leaves both
		opt.Earlier = "a new audit log begins: this state was in use before, and its log is not there; unless it was archived, restore it"
	}
	if s.audit, err = audit.Open(opt); err != nil {
		return err
	}
	if s.logGone = opt.Earlier; s.logGone != "" {
		s.log.Warn(s.logGone, "dir", opt.Dir)
	}
	s.group.Own(stageStores, s.audit.Close)
	return nil
}

func (s *state) openLedger() error {
	vault, err := s.vault()
	if err != nil {
		return err
	}
	if s.ledger, err = ledger.Open(s.ledgerOptions(vault)); err != nil {
		return err
	}
	s.group.Own(stageStores, func(context.Context) error { return s.ledger.Close() })
	if s.keys, err = keys.LoadOrCreate(s.path("keys")); err != nil {
		return err
	}
	s.signer, err = keys.NewSigner(s.keys)
	return err
}

func (s *state) vault() (*keys.Vault, error) {
	set, err := keys.LoadOrCreateVault(s.path("keys"))
	if err != nil {
		return nil, err
	}
	return keys.NewVault(set)
}

// auditKey returns the log's signing key: a configured one, or the state's own.
func (s *state) auditKey() (ed25519.PrivateKey, error) {
	if path := s.cfg.Audit.KeyFile; path != "" {
		key, err := audit.LoadKey(path)
		return key, s.cfg.Fault(err, "audit", "key_file")
	}
	return audit.LoadOrCreateKey(s.path("keys"))
}

// ledgerOptions returns the options of the ledger: a file of this process alone, or a
// database that replicas share.
func (s *state) ledgerOptions(vault *keys.Vault) ledger.Options {
	opt := ledger.Options{
		Timeout: s.opt.within(ledger.DefaultTimeout), Path: s.path("ledger.db"), Clock: s.opt.Clock,
		OnLost: s.logLostOwners, OnSteps: s.recordSteps, OnBroken: s.broken.Send, Vault: vault,
		Locks: lockLimits(s.cfg), MaxHolds: s.cfg.Review.MaxHeldTenant, MaxPrincipalHolds: s.cfg.Review.MaxHeld,
		MaxUserHolds: s.cfg.Review.MaxHeldUser,
	}
	opt.Progress = func(part string) { s.log.Info("ledger migration", "part", part) }
	if s.cfg.Review.Webhook != nil {
		opt.OnNotice = s.noticed.Send
	}
	if u := s.cfg.Ledger.URL.Reveal(); u != "" {
		opt.Path, opt.URL = "", u
	}
	return opt
}

// lockLimits returns the numbers of rejections that lock writes. They also apply to
// rejections counted before this start.
func lockLimits(cfg *config.Config) *memproxy.LockLimits {
	c, limits := cfg.Sessions, memproxy.DefaultLockLimits()
	limits.Session, limits.User, limits.Principal = *c.MaxRejections, *c.MaxUserRejections, *c.MaxPrincipalRejections
	limits.For = c.LockFor.Std()
	return &limits
}

// logLostOwners is called with ownership rows that could not be written. Their owners are
// fetched from the backend again when needed.
func (s *state) logLostOwners(rows int, err error) {
	s.telemetry.Instruments().LedgerFailed(context.Background())
	s.log.Error("the ledger lost rows", "rows", rows, "error", err)
}

// openBudget opens the budgets: in this process, or in Redis, with this process as the
// fallback when Redis is unavailable.
func (s *state) openBudget() (gate.Budget, error) {
	r := s.cfg.Budgets.Redis
	path := s.path("budgets.jsonl")
	if r != nil {
		path = "" // Redis has the totals; the local share is only for an outage
	}
	local, err := budgets.NewMemory(path)
	if err != nil {
		return nil, err
	}
	s.group.Own(stageStores, func(context.Context) error { return local.Close() })
	if r == nil {
		s.stores.add(probe{name: "budgets", needed: true, okDetail: func() string { return "a file" }, ask: local.Ping})
		return local, nil
	}
	shared, err := redisstore.New(sharedOptions(r))
	if err != nil {
		return nil, err
	}
	s.group.Own(stageStores, func(context.Context) error { return shared.Close() })
	both := budgets.NewDegrading(budgets.DegradingOptions{
		Shared: shared, Local: local, Share: memproxy.FromFraction(*r.Share), Deadline: r.Timeout.Std(), Clock: time.Now,
		Changed: func(err error) {
			if err != nil {
				s.log.Warn("the shared budget store is unavailable; a local share of the limits applies", "setting", "budgets.redis", "error", err)
			} else {
				s.log.Info("the shared budget store is available again")
			}
		},
	})
	s.stores.add(probe{name: "budgets", okDetail: func() string { return "shared store" }, ask: func(ctx context.Context) error {
		err := shared.Ping(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("the shared store is unavailable; a local share of the limits applies: %w", err)
		case both.Degraded():
			return errors.New("the shared store is available again; the next write is counted there")
		}
		return nil
	}})
	s.group.Own(stageStores, both.Close)
	s.group.Go("shared budgets", func(ctx context.Context) { both.Ask(ctx, shared.Ping) })
	return both, nil
}

// sharedOptions lets one dial, read or write take as long as a charge may, if that is
// more than the default. A connection must not time out while the charge may still wait.
func sharedOptions(r *config.Redis) redisstore.Options {
	return redisstore.Options{URL: r.URL.Reveal(), Timeout: max(r.Timeout.Std(), redisstore.DefaultTimeout)}
}

// Flush returns once everything recorded so far is on disk.
func (s *state) Flush(ctx context.Context) error { return s.audit.Flush(ctx) }

// The stages of a stop, in order.
const (
	// stageListeners: no connection is accepted, and requests in flight finish. Those
	// that remain at the end of the drain are cut off, and their handlers are waited for.
	stageListeners = iota
	// stageSending: the results of approved writes and rollbacks in progress are
	// recorded. Those that take longer are cut off, and the next process asks the backend
	// for their outcome.
	stageSending
	// stageLoops: all background jobs have returned.
	stageLoops
	// stageProxies: work that outlives its request (settling runs, polling for the
	// outcome of writes) has returned, and connections to backends are closed.
	stageProxies
	// stageNotes: what is known only at the end is recorded.
	stageNotes
	// stageStores: budgets, ledger and audit log are flushed and closed, in reverse order
	// of opening. The log is last, because all others write to it.
	stageStores
	// stageTelemetry: pending metrics and traces are sent.
	stageTelemetry
)

// stages are the stages with their timeouts. Together they stay within Kubernetes'
// default of 30 s.
var stages = []group.Stage{
	stageListeners: {Name: "listeners", Time: group.DrainTime + group.CutTime, Drain: true},
	stageSending:   {Name: "sending", Time: 3 * time.Second},
	stageLoops:     {Name: "loops", Time: 2 * time.Second},
	stageProxies:   {Name: "proxies", Time: 2 * time.Second},
	stageNotes:     {Name: "notes", Time: time.Second},
	stageStores:    {Name: "stores", Time: 3 * time.Second},
	stageTelemetry: {Name: "telemetry", Time: time.Second},
}

// begin starts background work, as group.Group.Go does.
type begin = func(name string, f func(context.Context))

// unmanaged returns a begin whose work is not waited for, for commands that end with their
// process.
func unmanaged(ctx context.Context) begin {
	return func(_ string, f func(context.Context)) { go f(ctx) }
}

// Close stops everything. ctx bounds requests in flight. When it returns, nothing of the
// process runs any more, or the error names what does.
func (s *state) Close(ctx context.Context) error { return s.group.Close(ctx) }

const closeTime = 20 * time.Second // timeout of closing a state that was opened for one operation

// closeSoon closes a state that was opened for one operation, even if ctx is cancelled.
func (s *state) closeSoon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return s.Close(ctx)
}

// abort closes what a failed New had opened.
func (s *state) abort() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.Close(ctx) // the error that led here is the one to report
}

// recordSteps records the changes of memories' histories: every version with its
// predecessor, and every text that was deleted or destroyed.
func (s *state) recordSteps(steps []memproxy.Event) {
	for _, ev := range steps {
		ev.Time = s.clock()
		if err := s.audit.RecordAsync(ev); err != nil {
			s.log.Error("audit note lost", "type", string(ev.Type), "decision", ev.Decision, "error", err)
		}
	}
}
