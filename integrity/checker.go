// Package integrity finds out-of-band changes. It compares the content of a backend and
// the hash chains of the ledger with what was recorded, and flags and reports the
// differences. It seals what a backend held before memproxy and anchors the heads of
// the chains in the audit log. It repairs nothing.
package integrity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/keys"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/screen/hunt"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/telemetry/audit/query"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
	"github.com/memproxy/memproxy/upkeep"
)

// Traits describe how objects of one sort are compared.
type Traits struct {
	// Listed: the backend's pages contain objects of this sort.
	Listed bool
	// AgentsAdd and AgentsEdit: the backend's own agents add such objects, and change
	// their texts, during a turn.
	AgentsAdd, AgentsEdit bool
}

// Turns gives access to the turns of a backend's agents that run through this process.
type Turns interface {
	// TurnsBegun returns a function that reports whether any of the turns running now is
	// still running.
	TurnsBegun() (underway func() bool)
	// LongestTurn returns the maximum duration of a turn.
	LongestTurn() time.Duration
}

// Options are the dependencies of a Checker. All are required.
type Options struct {
	Config   *config.Config
	Audit    *audit.Log
	AuditDir string
	Ledger   *ledger.Ledger
	Signer   *keys.Signer
	Log      *slog.Logger
	Clock    func() time.Time
	NewID    func() string
	// Open opens a backend for reading. With scopes, only objects in them are read.
	Open func(ctx context.Context, b config.Backend, scopes []memproxy.Scope) (backend.Locator, hunt.Pager, error)
	// Traits returns the traits of an object, by its id.
	Traits func(b config.Backend, id string) Traits
	// Callers returns the names that callers can have by the configuration in force.
	Callers func() memproxy.CallerNames
	// Turns returns the turns of a backend, or nil if it runs no agents.
	Turns func(backend string) Turns
	Pace  Pace // zero: DefaultPace
	// RecordTime limits the time to write an audit record, and to look up one memory. 0
	// means DefaultRecordTime.
	RecordTime time.Duration
}

// DefaultRecordTime is RecordTime in production.
const DefaultRecordTime = 10 * time.Second

// Pace is the speed of reading backends, and how long to wait for writes.
type Pace struct {
	// Settle is how long a write that has reached the backend may take to reach the
	// ledger. Differences that are gone by then are not reported.
	Settle time.Duration
	// Patience is how long a sweep waits for running turns of agents.
	Patience time.Duration
	// Rate is the maximum of pages per second while a person waits, Slow in the background.
	Rate, Slow float64
}

// DefaultPace is the pace in production.
var DefaultPace = Pace{Settle: time.Second, Patience: time.Minute, Rate: 20, Slow: 2}

// A Checker compares what backends hold, and the chains of the ledger, with what was
// recorded. It runs one sweep or seal at a time.
type Checker struct {
	Options

	busy sync.Mutex
	// reporting is held while a finding is looked up, recorded and flagged, because a
	// sweep and the validation may find the same memory at the same time.
	reporting sync.Mutex
	anchoring sync.Mutex        // guards anchors
	anchors   map[string]anchor // last recorded heads of chains, by the tenant's hash; nil until the log was read
	checks    checks
	adopted   sync.Map // whether a backend is sealed (bool), by the name of each that is sealed in the background
}

// New returns a Checker. It starts nothing; see Jobs.
func New(opt Options) *Checker {
	if opt.Pace == (Pace{}) {
		opt.Pace = DefaultPace
	}
	opt.RecordTime = cmp.Or(opt.RecordTime, DefaultRecordTime)
	c := &Checker{Options: opt}
	c.checks = checks{c: c, open: map[check]waiting{}, wake: upkeep.NewSignal()}
	return c
}

// event returns an event about a store, as opposed to a request.
func (c *Checker) event(t memproxy.EventType, tenant, backend, detail string, targets ...string) memproxy.Event {
	return memproxy.Event{
		Type: t, Time: c.Clock(), Backend: backend, Targets: targets, Claimed: -1, Confidence: -1, Detail: detail,
		Principal: memproxy.Principal{ID: "system:custodian", Kind: memproxy.KindService, Tenant: tenant, Trust: memproxy.TrustSystem, Method: "default"},
	}
}

func (c *Checker) record(ctx context.Context, ev memproxy.Event) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.RecordTime)
	defer cancel()
	return c.Audit.Record(ctx, ev)
}

// tenants returns all known tenants: those of the configuration and those with a chain.
func (c *Checker) tenants(ctx context.Context) ([]string, error) {
	heads, err := c.Ledger.Chains.Heads(ctx)
	if err != nil {
		return nil, err
	}
	out := append([]string{""}, c.Callers().Tenants...)
	for _, h := range heads {
		out = append(out, h.Tenant)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// tenantHash is the name of a tenant in an anchor, so that readers of the log do not
// learn the names of customers.
func tenantHash(tenant string) string { return memproxy.TextSHA256("memproxy tenant\x00" + tenant) }

// anchored returns the newest anchors in the log, by the hash of the tenant.
func (c *Checker) anchored(ctx context.Context) (map[string]anchor, error) {
	if err := c.Audit.Flush(ctx); err != nil {
		return nil, err
	}
	out := map[string]anchor{}
	err := query.Query(ctx, c.AuditDir, query.Filter{Type: string(memproxy.EventAnchor)}, func(r *verify.Record) error {
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

// chains verifies all chains and their anchors in the log, and reports and stores
// breaches.
func (c *Checker) chains(ctx context.Context, texts bool, count func(int)) ([]memproxy.ChainReport, error) {
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
		opt := ledger.VerifyOptions{Texts: texts, Count: count}
		if a, known := anchors[tenantHash(tenant)]; known {
			a.Tenant, opt.Anchor = tenant, &a.ChainHead
			delete(anchors, tenantHash(tenant))
		}
		report, err := c.Ledger.Chains.Verify(ctx, tenant, opt)
		if err != nil {
			return nil, err
		}
		if report.Checked > 0 || len(report.Faults) > 0 {
			out = append(out, report)
		}
	}
	for hash, a := range anchors { // of tenants that are no longer known
		if a.Position == 0 { // a reviewer accepted that it is gone
			continue
		}
		out = append(out, memproxy.ChainReport{Tenant: hashedTenant + hash, Faults: []memproxy.ChainFault{missingChain(hashedTenant + hash)}, Head: a.ChainHead})
	}
	if texts {
		edited, _, err := c.Ledger.Backends.VerifyRecords(ctx, nil, count)
		if err != nil {
			return nil, err
		}
		for _, f := range edited {
			i := slices.IndexFunc(out, func(r memproxy.ChainReport) bool { return r.Tenant == f.Tenant })
			if i < 0 {
				i, out = len(out), append(out, memproxy.ChainReport{Tenant: f.Tenant})
			}
			out[i].Faults = append(out[i].Faults, f)
		}
	}
	slices.SortFunc(out, func(a, b memproxy.ChainReport) int { return strings.Compare(a.Tenant, b.Tenant) })
	for i := range out {
		for _, f := range out[i].Faults {
			if f.Accepted {
				continue
			}
			if err := c.reportBreach(ctx, f); err != nil {
				return nil, err
			}
		}
	}
	return out, recordEdits(ctx, c)
}

// recordEdits reports the rows of the ledger that were found changed outside of memproxy.
func recordEdits(ctx context.Context, c *Checker) error {
	return c.Ledger.Backends.ReportEdits(func(d memproxy.Discrepancy) error {
		if err := recordFinding(ctx, c, &d); err != nil {
			return err
		}
		c.Log.Error("a row of the ledger was changed outside of memproxy",
			"backend", d.Backend, "kind", string(d.Kind), "id", d.ID, "detail", d.Detail)
		return nil
	})
}

// breakPause is the minimum time between two verifications that a changed version
// triggers, because every further write of that memory finds the change again.
const breakPause = time.Minute

// verifying returns the job that reports changed rows, and verifies all chains after a
// write found a changed version, since others may have been changed too. Such a breach
// is recorded in the same way as one that a sweep finds.
func (c *Checker) verifying(found upkeep.Signal) upkeep.Job {
	var next time.Time
	return upkeep.Job{Name: "breaks", Wake: found, Once: func(ctx context.Context, now time.Time) error {
		if now.Before(next) {
			if err := recordEdits(ctx, c); err != nil {
				return err
			}
			return upkeep.Due{In: next.Sub(now)}
		}
		defer func() { next = c.Clock().Add(breakPause) }()
		c.busy.Lock()
		defer c.busy.Unlock()
		if _, err := c.chains(ctx, false, nil); err != nil {
			return fmt.Errorf("the chains were not verified: %w", err)
		}
		return nil
	}}
}

// reportBreach reports a fault of a chain once, and flags the memories that have
// records at or after it. It repairs nothing.
func (c *Checker) reportBreach(ctx context.Context, f memproxy.ChainFault) error {
	known, err := c.reported(ctx, f)
	if known || err != nil || f.Class == memproxy.FaultRow { // recordEdits reports rows
		return err
	}
	ev := c.event(memproxy.EventChainBreak, f.Tenant, f.Backend, string(f.Class)+": "+f.Detail)
	ev.Items = int(f.Position)
	if f.ID != "" {
		ev.Targets = []string{f.ID}
	}
	ev.Reasons = []memproxy.Reason{{Code: memproxy.IntegrityChain, Detail: string(f.Class)}}
	if err := c.record(ctx, ev); err != nil {
		return err
	}
	c.Log.Error("the chain of versions is broken", "class", string(f.Class), "position", f.Position, "detail", f.Detail)
	if f.Class == memproxy.FaultText { // only this memory is affected, and later versions are not
		_, err := c.Ledger.Backends.Flag(ctx, memproxy.Discrepancy{MemoryKey: f.MemoryKey, Tenant: f.Tenant, Code: memproxy.IntegrityChain})
		return err
	}
	_, err = c.Ledger.Chains.NoteBreach(ctx, f)
	return err
}

func (c *Checker) reported(ctx context.Context, f memproxy.ChainFault) (bool, error) {
	if f.Class == memproxy.FaultText {
		records, err := c.Ledger.Lookup(ctx, f.MemoryKey)
		return records.Of(f.MemoryKey).Status.Unverified == memproxy.IntegrityChain, err
	}
	known, err := c.Ledger.Chains.Breaches(ctx, f.Tenant)
	return slices.ContainsFunc(known, func(b memproxy.Breach) bool { return b.Position == f.Position && b.Class == f.Class }), err
}

// reportFinding reports a finding and flags its memory, unless that was done before.
func (c *Checker) reportFinding(ctx context.Context, f *memproxy.Discrepancy) error {
	c.reporting.Lock()
	defer c.reporting.Unlock()
	records, err := c.Ledger.Lookup(ctx, f.MemoryKey)
	if err != nil {
		return err
	}
	if now := records.Of(f.MemoryKey).Status.Unverified; now == f.Code || now == memproxy.IntegrityChain {
		return nil
	}
	if err := recordFinding(ctx, c, f); err != nil {
		return err
	}
	c.Log.Warn("a memory differs from what was written through memproxy", "backend", f.Backend, "memory", f.ID, "class", string(f.Class), "reason", string(f.Code))
	_, err = c.Ledger.Backends.Flag(ctx, *f)
	return err
}

func recordFinding(ctx context.Context, c *Checker, f *memproxy.Discrepancy) error {
	ev := c.event(memproxy.EventIntegrity, f.Tenant, f.Backend, string(f.Class)+": "+f.Detail, f.ID)
	ev.Reasons = []memproxy.Reason{{Code: f.Code, Rule: f.ID, Detail: string(f.Class)}}
	return c.record(ctx, ev)
}

// errBusy means that an operation of the Checker is running; only one runs at a time.
var errBusy = fmt.Errorf("%w: a sweep, a seal or an acceptance is running", memproxy.ErrState)

// Sweep implements review.Integrity.
func (c *Checker) Sweep(ctx context.Context, q review.SweepRequest) (review.SweepReport, error) {
	return c.sweepAt(ctx, q, c.Pace.Rate)
}

// sweepAt is Sweep with a limit of pages per second. If a backend cannot be read, the
// report says so, and has the others; without any it is an error.
func (c *Checker) sweepAt(ctx context.Context, q review.SweepRequest, rate float64) (review.SweepReport, error) {
	if !c.busy.TryLock() {
		return review.SweepReport{}, errBusy
	}
	defer c.busy.Unlock()
	var report review.SweepReport
	backends, err := c.backends(q.Backend)
	if err != nil {
		return report, err
	}
	count := q.Progress.Counting()
	if report.Chains, err = c.chains(ctx, true, count); err != nil {
		return report, err
	}
	var errs, unread []error
	for _, b := range backends {
		w := &storeSweep{
			c: c, backend: b, scopes: q.Scopes, begun: c.Clock(), report: review.BackendSweep{Backend: b.Name},
			seed: maphash.MakeSeed(), seenIDs: map[uint64]struct{}{},
			lost: sync.OnceValues(func() ([]memproxy.Event, error) { return UnansweredChanges(ctx, c, math.MaxUint64) }),
		}
		err := w.run(ctx, rate, count)
		if errors.As(err, new(*review.UnreadableError)) {
			unread = append(unread, err)
			w.report = review.BackendSweep{Backend: b.Name, Unread: err.Error()}
		} else if err != nil {
			errs = append(errs, err)
			continue
		}
		report.Backends = append(report.Backends, w.report)
	}
	if len(unread) == len(backends) {
		errs = append(errs, unread...)
	}
	return report, errors.Join(errs...)
}

// backends returns the named backend, or all if name is "".
func (c *Checker) backends(name string) ([]config.Backend, error) {
	if name == "" {
		return c.Config.Backends, nil
	}
	b, err := c.Config.Backend(name)
	if err != nil {
		return nil, err
	}
	return []config.Backend{b}, nil
}
