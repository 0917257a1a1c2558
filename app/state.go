package app

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
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

// state is what a process has open: its log, its telemetry, and the persistent
// stores.
type state struct {
	cfg    *config.Config
	opt    Options
	unsafe []string // settings that weaken production
	log    *slog.Logger
	clock  func() time.Time
	group  *group.Group

	telemetry *telemetry.Telemetry
	audit     *audit.Log
	ledger    *ledger.Ledger
	keys      keys.Set
	signer    *keys.Signer // of stamps
	budget    gate.Budget
	stores    *readiness
	broken    upkeep.Signal // a version is not as it was written
	noticed   upkeep.Signal // a notice was queued
}

// openState opens the log, telemetry and the stores, without their users. On an
// error everything that was opened is closed again.
func openState(ctx context.Context, cfg *config.Config, o Options, unsafe []string, level slog.Level) (*state, error) {
	s, err := openRecords(ctx, cfg, o, unsafe, level)
	if err != nil {
		return nil, err
	}
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
	if s.log, err = telemetry.NewLogger(o.Log, cfg.Log.Format, level); err != nil {
		return nil, err
	}
	s.group = group.New(ctx, group.Options{Stages: stages, Loops: stageLoops, Ticker: o.Ticker, Log: s.log, Patience: o.Patience})
	defer func() {
		if err != nil {
			s.abort()
		}
	}()
	if err = s.openTelemetry(ctx); err != nil {
		return nil, err
	}
	// An empty directory that was made for the state, often with mode 0755, becomes as one
	// that is made here; the root of a volume may belong to another user and stays.
	if entries, err := os.ReadDir(s.path()); err == nil && len(entries) == 0 {
		_ = os.Chmod(s.path(), 0o700)
	}
	if err = os.MkdirAll(s.path("keys"), 0o700); err != nil {
		return nil, fmt.Errorf("state: %w", err)
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
	host, _ := os.Hostname() // an unnamed host is an unnamed instance
	opt := telemetry.Options{
		ServiceName: s.cfg.Telemetry.Service, Version: s.opt.Version, Instance: host,
		OTLP: telemetry.OTLP{Endpoint: s.cfg.Telemetry.OTLP, Headers: headers}, SampleRatio: *s.cfg.Telemetry.Sample, Log: s.log,
	}
	if opt.SampleRatio == 0 {
		opt.SampleRatio = -1
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

func (s *state) openAudit() error {
	key, err := s.auditKey()
	if err != nil {
		return err
	}
	opt := audit.Options{Dir: s.path("audit"), Key: key, Origin: s.cfg.Audit.Origin, Unsafe: s.unsafe, OnRecord: s.telemetry.OnRecord, Reserve: journalReserve}
	if opt.Origin == "" {
		opt.Origin = "memproxy/" + Fingerprint(key)
	}
	if s.audit, err = audit.Open(opt); err != nil {
		return err
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
	if s.keys, err = keys.LoadOrCreate(s.path("keys"), rand.Reader); err != nil {
		return err
	}
	s.signer, err = keys.NewSigner(s.keys)
	return err
}

func (s *state) vault() (*keys.Vault, error) {
	set, err := keys.LoadOrCreateVault(s.path("keys"), rand.Reader)
	if err != nil {
		return nil, err
	}
	return keys.NewVault(set, rand.Reader)
}

// auditKey is the log's key: one that is made elsewhere, or the state's own.
func (s *state) auditKey() (ed25519.PrivateKey, error) {
	if path := s.cfg.Audit.KeyFile; path != "" {
		return audit.LoadKey(path)
	}
	return audit.LoadOrCreateKey(s.path("keys"))
}

// ledgerOptions are a file of one's own, or a database that replicas share.
func (s *state) ledgerOptions(vault *keys.Vault) ledger.Options {
	opt := ledger.Options{Timeout: s.opt.within(ledger.DefaultTimeout), Path: s.path("ledger.db"), Clock: s.opt.Clock, OnLost: s.lost, OnSteps: s.chronicled, OnBroken: s.broken.Send, Vault: vault, Locks: lockLimits(s.cfg), MaxHolds: s.cfg.Review.MaxHeldAll, MaxPrincipalHolds: s.cfg.Review.MaxHeld, MaxUserHolds: s.cfg.Review.MaxHeldUser}
	opt.Progress = func(part string) { s.log.Info("the ledger is migrated", "part", part) }
	if s.cfg.Review.Webhook != nil {
		opt.OnNotice = s.noticed.Send
	}
	if u := s.cfg.Ledger.URL.Reveal(); u != "" {
		opt.Path, opt.URL = "", u
	}
	return opt
}

// lockLimits are the numbers of rejections that lock writes. They also apply to
// rejections counted before this start.
func lockLimits(cfg *config.Config) *memproxy.LockLimits {
	c, limits := cfg.Sessions, memproxy.DefaultLockLimits()
	limits.Session, limits.User, limits.Principal = *c.MaxRejections, *c.MaxUserRejections, *c.MaxPrincipalRejections
	limits.For = c.LockFor.Time()
	return &limits
}

// lost is notified of ownership that could not be written: its memories are asked
// for upstream again.
func (s *state) lost(rows int, err error) {
	s.telemetry.Instruments().LedgerFailed(context.Background())
	s.log.Error("the ledger lost rows", "rows", rows, "error", err)
}

// openBudget opens the budgets: in this process, or in Redis, with this process as
// the fallback when Redis is unavailable.
func (s *state) openBudget() (gate.Budget, error) {
	r := s.cfg.Budgets.Redis
	path := s.path("budgets.jsonl")
	if r != nil {
		path = "" // the totals are Redis's; the local share is for an outage
	}
	local, err := budgets.NewMemory(path)
	if err != nil {
		return nil, err
	}
	s.group.Own(stageStores, func(context.Context) error { return local.Close() })
	if r == nil {
		s.stores.add(probe{name: "budgets", needed: true, well: func() string { return "a file" }, ask: local.Ping})
		return local, nil
	}
	shared, err := redisstore.New(sharedOptions(r))
	if err != nil {
		return nil, err
	}
	s.group.Own(stageStores, func(context.Context) error { return shared.Close() })
	opt := budgets.DegradingOptions{
		Shared: shared, Local: local, Share: memproxy.PerMille(*r.Share * 1000), Deadline: r.Timeout.Time(), Clock: time.Now,
		Changed: func(err error) {
			if err != nil {
				s.log.Warn("the shared budget store is away; a local share of the limits applies", "error", err)
			} else {
				s.log.Info("the shared budget store is back")
			}
		},
	}
	both, err := budgets.NewDegrading(opt)
	if err != nil {
		return nil, err
	}
	s.stores.add(probe{name: "budgets", well: func() string { return "shared store" }, ask: func(ctx context.Context) error {
		err := shared.Ping(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("the shared store is away; a local share of the limits applies: %w", err)
		case both.Degraded():
			return errors.New("the shared store was away and answers again; the next write is counted there")
		}
		return nil
	}})
	s.group.Own(stageStores, both.Close)
	s.group.Go("shared budgets", func(ctx context.Context) {
		if err := shared.Ping(ctx); err != nil && ctx.Err() == nil {
			opt.Changed(err)
		}
	})
	return both, nil
}

// sharedOptions give one dial, read or write the time of a charge, if that is more
// than the default: it must not fail while the charge may still wait.
func sharedOptions(r *config.Redis) redisstore.Options {
	return redisstore.Options{URL: r.URL.Reveal(), Timeout: max(r.Timeout.Time(), redisstore.DefaultTimeout)}
}

// Flush returns once all that was recorded so far is on disk.
func (s *state) Flush(ctx context.Context) error { return s.audit.Flush(ctx) }

// The stages of stopping, first to last.
const (
	// stageListeners: nothing is accepted any more, and requests in flight are
	// finished; those that remain at the end of the drain are cut off and waited
	// for.
	stageListeners = iota
	// stageSending: the results of approved writes and rollbacks under way are
	// recorded; those that take longer are cut off, and the next process asks the
	// backend for their outcome.
	stageSending
	// stageLoops: all background work has returned.
	stageLoops
	// stageProxies: work that outlives its request (settling runs, polling for the
	// outcome of writes) has returned, and connections to backends are closed.
	stageProxies
	// stageLater: work that callers did not wait for is done.
	stageLater
	// stageNotes: what is known only at the end is recorded.
	stageNotes
	// stageStores: budgets, ledger and audit log are flushed and closed, the
	// newest first, so that the log, which all others write to, is the last.
	stageStores
	// stageTelemetry: pending metrics and traces are sent.
	stageTelemetry
)

// stages are those of the process. Together they stay within the 30 s that
// Kubernetes gives by default.
var stages = []group.Stage{
	stageListeners: {Name: "listeners", Time: group.DrainTime + group.CutTime, Drain: true},
	stageSending:   {Name: "sending", Time: 3 * time.Second},
	stageLoops:     {Name: "loops", Time: 2 * time.Second},
	stageProxies:   {Name: "proxies", Time: 2 * time.Second},
	stageLater:     {Name: "later", Time: 2 * time.Second},
	stageNotes:     {Name: "notes", Time: time.Second},
	stageStores:    {Name: "stores", Time: 3 * time.Second},
	stageTelemetry: {Name: "telemetry", Time: time.Second},
}

// begin starts background work, as group.Group.Go does.
type begin = func(name string, f func(context.Context))

// unowned begins work that is not waited for: a command's, which ends with its process.
func unowned(ctx context.Context) begin {
	return func(_ string, f func(context.Context)) { go f(ctx) }
}

// Close stops everything. ctx bounds requests in flight. After it has returned
// nothing of the process runs, or the error says what does.
func (s *state) Close(ctx context.Context) error { return s.group.Close(ctx) }

// closeTime bounds the closing of a state that was opened for one question.
const closeTime = 20 * time.Second

// closeSoon closes a state that was opened for one question, also if that was broken off.
func (s *state) closeSoon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return s.Close(ctx)
}

// abort closes what a failed assembly had opened.
func (s *state) abort() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.Close(ctx) // the error that led here is the one to show
}

// chronicled records the changes of memories' histories: every version, with its
// predecessor, and every text that was dropped or destroyed. The changes of one
// decision are one event.
func (s *state) chronicled(steps []ledger.Step) {
	for len(steps) > 0 {
		n := 1
		for n < len(steps) && together(&steps[0], &steps[n]) {
			n++
		}
		ev := stepEvent(steps[:n])
		ev.Time = s.clock()
		if err := s.audit.Note(ev); err != nil {
			s.log.Error("audit note lost", "type", string(ev.Type), "decision", ev.Decision, "error", err)
		}
		steps = steps[n:]
	}
}

func together(a, b *ledger.Step) bool {
	return stepType(a.Op) == stepType(b.Op) && a.Decision == b.Decision && a.Actor == b.Actor && a.Tenant == b.Tenant && a.Backend == b.Backend
}

func stepType(op memproxy.VersionOp) memproxy.EventType {
	switch op {
	case memproxy.OpCompact:
		return memproxy.EventCompaction
	case memproxy.OpPurge:
		return memproxy.EventPurge
	}
	return memproxy.EventVersion
}

func stepEvent(steps []ledger.Step) memproxy.Event {
	first := &steps[0]
	ev := memproxy.Event{
		Type: stepType(first.Op), Decision: first.Decision, Backend: first.Backend, Claimed: -1, Confidence: -1,
		Principal: memproxy.Principal{ID: first.Actor, Tenant: first.Tenant, Trust: first.Trust},
	}
	if first.Actor == memproxy.SystemActor {
		ev.Principal.Kind, ev.Principal.Trust = memproxy.KindService, memproxy.TrustSystem
	}
	for i := range steps {
		ev.Versions = append(ev.Versions, steps[i].VersionChange)
	}
	return ev
}
