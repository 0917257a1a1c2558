package app

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/telemetry"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/telemetry/audit/query"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
	"github.com/memproxy/memproxy/upkeep"
)

// custodian compares what backends hold, and the chains of the ledger, with
// what went through memproxy. Of each kind of work it does one at a time.
type Custodian struct {
	cfg    *config.Config
	audit  *audit.Log
	dir    string // of the log
	ledger *ledger.Ledger
	signer *ledger.Signer
	log    *slog.Logger
	clock  func() time.Time
	// settle is how long what looks wrong may take to come right: a write that
	// is in the backend and on its way into the ledger.
	settle time.Duration
	// patience is how long a sweep waits for turns of agents that are under way.
	patience time.Duration
	// rate is pages a second at most, of what a person waits for; slow is of
	// what goes on by itself.
	rate, slow float64
	// turns takes down which turns of a backend's agents are under way, and
	// returns what tells whether they are over.
	turns func(backend string) (over func() bool)
	// later has something looked at again once turns in other processes must be
	// over, and reports false where there are no others.
	later func(gate.Suspicion) bool

	working sync.Mutex
	// naming is held while a finding is looked up, recorded and marked: a sweep
	// and the validation may come upon the same memory at the same moment.
	naming  sync.Mutex
	anchors anchors
}

// The pace of a sweep.
const (
	settleTime  = time.Second
	turnsWaited = time.Minute
	sweepRate   = 20.0
	slowRate    = 2.0
)

func (s *App) newCustodian() (*Custodian, error) {
	keys, err := ledger.LoadOrCreateKey(s.path("keys"), rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ledger.NewSigner(keys)
	if err != nil {
		return nil, err
	}
	return &Custodian{
		cfg: s.cfg, audit: s.audit, dir: s.path("audit"), ledger: s.ledger, signer: signer, log: s.log, clock: s.clock,
		settle: settleTime, patience: turnsWaited, rate: sweepRate, slow: slowRate, turns: s.turns, later: s.elsewhere,
	}, nil
}

// OpenCustody opens the state of a sidecar that does not run.
func OpenCustody(ctx context.Context, cfg *config.Config, o Options) (_ *Custodian, done func(context.Context) error, err error) {
	s := newSidecar(ctx, cfg, o.Version)
	defer func() {
		if err != nil {
			s.abort()
		}
	}()
	if s.log, err = telemetry.NewLogger(o.Log, telemetry.LogOptions{Format: cfg.Log.Format, Level: slog.LevelWarn}); err != nil {
		return nil, nil, err
	}
	if err = s.openTelemetry(ctx); err != nil {
		return nil, nil, err
	}
	if err = s.openState(); err != nil {
		return nil, nil, err
	}
	c, err := s.newCustodian()
	if err != nil {
		return nil, nil, err
	}
	return c, s.Close, nil
}

// event is one about the stores, not about a request.
func (c *Custodian) event(t memproxy.EventType, tenant, backend, detail string, targets ...string) memproxy.Event {
	return memproxy.Event{
		Type: t, Time: c.clock(), Backend: backend, Targets: targets, Claimed: -1, Confidence: -1, Detail: detail,
		Principal: memproxy.Principal{ID: "system:custodian", Kind: memproxy.KindService, Tenant: tenant, Trust: memproxy.TrustSystem, Method: "default"},
	}
}

// recordTime bounds a record of the custodian's.
const recordTime = 10 * time.Second

func (c *Custodian) record(ctx context.Context, ev memproxy.Event) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	_, err := c.audit.Record(ctx, ev)
	return err
}

// tenants are all that are known: of the configuration and of the chains.
func (c *Custodian) tenants(ctx context.Context) ([]string, error) {
	heads, err := c.ledger.ChainHeads(ctx)
	if err != nil {
		return nil, err
	}
	out := []string{""}
	for _, h := range heads {
		out = append(out, h.Tenant)
	}
	for _, k := range c.cfg.Identity.Keys {
		out = append(out, k.Tenant)
	}
	if d := c.cfg.Identity.Default; d != nil {
		out = append(out, d.Tenant)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// tenantHash names a tenant in an anchor: the log may be shown to people who
// are not to know the customers.
func tenantHash(tenant string) string {
	sum := sha256.Sum256([]byte("memproxy tenant\x00" + tenant))
	return hex.EncodeToString(sum[:])
}

// anchored are the newest ends of chains that the log tells of, by the hash of
// the tenant.
func (c *Custodian) anchored(ctx context.Context) (map[string]anchor, error) {
	if err := c.audit.Flush(ctx); err != nil {
		return nil, err
	}
	out := map[string]anchor{}
	err := query.Query(ctx, c.dir, query.Filter{Type: string(memproxy.EventAnchor)}, func(r *verify.Record) error {
		op := r.Operation
		if op == nil || len(op.Targets) != 1 {
			return nil
		}
		at, err := r.At()
		out[op.Targets[0]] = anchor{memproxy.ChainHead{Position: int64(op.Items), Link: r.ContentSHA256}, at}
		return err
	})
	return out, err
}

// chains verifies all chains against themselves and against what the log tells
// of where they reached, names the breaks, and keeps them.
func (c *Custodian) chains(ctx context.Context, texts bool) ([]memproxy.ChainReport, error) {
	anchors, err := c.anchored(ctx)
	if err != nil {
		return nil, err
	}
	tenants, err := c.tenants(ctx)
	if err != nil {
		return nil, err
	}
	var out []memproxy.ChainReport
	for _, tenant := range tenants {
		opt := ledger.VerifyOptions{Texts: texts}
		if a, known := anchors[tenantHash(tenant)]; known {
			a.Tenant, opt.Anchor = tenant, &a.ChainHead
			delete(anchors, tenantHash(tenant))
		}
		report, err := c.ledger.Verify(ctx, tenant, opt)
		if err != nil {
			return nil, err
		}
		if report.Checked > 0 || len(report.Faults) > 0 {
			out = append(out, report)
		}
	}
	for hash, a := range anchors { // of nobody who is known any more
		if a.Position == 0 { // a person accepted that it is gone
			continue
		}
		out = append(out, memproxy.ChainReport{Tenant: hashed + hash, Faults: []memproxy.ChainFault{gone(hashed + hash)}, Head: a.ChainHead})
	}
	slices.SortFunc(out, func(a, b memproxy.ChainReport) int { return strings.Compare(a.Tenant, b.Tenant) })
	for i := range out {
		for _, f := range out[i].Faults {
			if f.Accepted {
				continue
			}
			if err := c.broke(ctx, f); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// breakPause is how long the chains are left alone after they were verified
// because a version was found that is not as it was written: every further
// write of that memory finds it again.
const breakPause = time.Minute

// verifying verifies the chains, all of them, when a version was found that is
// not as it was written: who changed one may have changed others. So a break
// that comes to light in passing is named as one that a sweep finds.
func (c *Custodian) verifying(found upkeep.Signal) upkeep.Job {
	var next time.Time
	return upkeep.Job{Name: "breaks", Wake: found, Once: func(ctx context.Context, now time.Time) error {
		if now.Before(next) {
			return upkeep.Due{In: next.Sub(now)}
		}
		defer func() { next = c.clock().Add(breakPause) }()
		if err := c.verify(ctx); err != nil {
			return fmt.Errorf("the chains were not verified: %w", err)
		}
		return nil
	}}
}

// verify names the breaks of all chains, as a sweep does.
func (c *Custodian) verify(ctx context.Context) error {
	c.working.Lock()
	defer c.working.Unlock()
	_, err := c.chains(ctx, false)
	return err
}

// broke names a fault of a chain in the log, once, and marks what stands
// behind it as unverified. Nothing is repaired.
func (c *Custodian) broke(ctx context.Context, f memproxy.ChainFault) error {
	if known, err := c.told(ctx, f); known || err != nil {
		return err
	}
	ev := c.event(memproxy.EventChainBreak, f.Tenant, f.Backend, string(f.Class)+": "+f.Detail)
	if ev.Items = int(f.Position); f.ID != "" {
		ev.Targets = []string{f.ID}
	}
	ev.Reasons = []memproxy.Reason{{Code: memproxy.IntegrityChain, Detail: string(f.Class)}}
	if err := c.record(ctx, ev); err != nil {
		return err
	}
	c.log.Error("the chain of versions is broken", "class", string(f.Class), "position", f.Position, "detail", f.Detail)
	var err error
	if f.Class == memproxy.FaultText { // of this memory; what came later stands
		_, err = c.ledger.Cast(ctx, memproxy.Doubt{MemoryKey: f.MemoryKey, Tenant: f.Tenant, Code: memproxy.IntegrityChain})
	} else {
		_, err = c.ledger.NoteBreach(ctx, f)
	}
	return err
}

// told reports whether a fault was named before.
func (c *Custodian) told(ctx context.Context, f memproxy.ChainFault) (bool, error) {
	if f.Class == memproxy.FaultText {
		standings, err := c.ledger.Standings(ctx, f.Backend, f.Kind, []string{f.ID})
		return standings[f.ID].Unverified == memproxy.IntegrityChain, err
	}
	known, err := c.ledger.Breaches(ctx, f.Tenant)
	return slices.ContainsFunc(known, func(b memproxy.Breach) bool { return b.Position == f.Position && b.Class == f.Class }), err
}

// name puts a finding into the log and marks its memory, unless that was done
// before.
func (c *Custodian) name(ctx context.Context, f *memproxy.Discrepancy) error {
	c.naming.Lock()
	defer c.naming.Unlock()
	standings, err := c.ledger.Standings(ctx, f.Backend, f.Kind, []string{f.ID})
	if err != nil {
		return err
	}
	if now := standings[f.ID].Unverified; now == f.Code || now == memproxy.IntegrityChain {
		return nil
	}
	ev := c.event(memproxy.EventIntegrity, f.Tenant, f.Backend, string(f.Class)+": "+f.Detail, f.ID)
	ev.Reasons = []memproxy.Reason{{Code: f.Code, Rule: f.ID, Detail: string(f.Class)}}
	if err := c.record(ctx, ev); err != nil {
		return err
	}
	c.log.Warn("a memory is not what went through memproxy", "backend", f.Backend, "memory", f.ID, "class", string(f.Class), "reason", string(f.Code))
	_, err = c.ledger.Cast(ctx, memproxy.Doubt{MemoryKey: f.MemoryKey, Tenant: f.Tenant, Code: f.Code})
	return err
}

// errWorking: one at a time.
var errWorking = errors.Join(memproxy.ErrState, errors.New("a sweep or a seal is under way"))

// Sweep implements review.Custodian.
func (c *Custodian) Sweep(ctx context.Context, q review.SweepRequest) (review.SweepReport, error) {
	return c.sweepAt(ctx, q, c.rate)
}

// sweepAt is Sweep at a pace. A backend that cannot be read keeps none of the
// others from being looked through.
func (c *Custodian) sweepAt(ctx context.Context, q review.SweepRequest, rate float64) (review.SweepReport, error) {
	if !c.working.TryLock() {
		return review.SweepReport{}, errWorking
	}
	defer c.working.Unlock()
	var report review.SweepReport
	backends, err := c.backends(q.Backend)
	if err != nil {
		return report, err
	}
	if report.Chains, err = c.chains(ctx, true); err != nil {
		return report, err
	}
	var errs []error
	for _, b := range backends {
		found, err := c.sweep(ctx, b, q.Scopes, rate)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		report.Backends = append(report.Backends, found)
	}
	return report, errors.Join(errs...)
}

// backends are the named one, or all.
func (c *Custodian) backends(name string) ([]config.Backend, error) {
	if name == "" {
		return c.cfg.Backends, nil
	}
	b, err := c.cfg.Backend(name)
	if err != nil {
		return nil, errors.Join(memproxy.ErrUnknown, err)
	}
	return []config.Backend{b}, nil
}
