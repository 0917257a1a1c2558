package integrity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/upkeep"
)

const (
	// maxChecks limits the memories that wait for a check. The next read or sweep finds
	// those above it again.
	maxChecks = 1024
	// checkSettle is how long the ledger may take, after the end of an agent's turn, to
	// record what the agent edited.
	checkSettle = 5 * time.Second
)

// checks are the memories that the sweep checks first, because a read returned another
// text than the recorded one. A Letta agent edits its blocks inside the backend, and
// the ledger records that after the turn. So each check waits until every turn that was
// running has ended; a text that is not recorded by then is an out-of-band change.
type checks struct {
	c    *Checker
	mu   sync.Mutex
	open map[check]waiting
	wake upkeep.Signal
}

// check identifies a memory, with the hash of its recorded text or "".
type check struct {
	memproxy.MemoryKey
	tenant, recorded string
}

type waiting struct {
	seen     time.Time
	underway func() bool
	quiet    time.Time // when its turns were first found to have ended
}

// QueueCheck asks the sweep to check a memory first, because a read returned another text
// than the one in row. It returns false if the backend's agents do not write such
// memories, which need no wait.
func (c *Checker) QueueCheck(row memproxy.Ownership) bool {
	b, err := c.Config.Backend(row.Backend)
	t := c.Turns(row.Backend)
	if err != nil || t == nil || !c.Traits(b, row.ID).AgentsAdd {
		return false
	}
	q := &c.checks
	q.mu.Lock()
	defer q.mu.Unlock()
	k := check{row.Key(), row.Scope.Tenant, row.SHA256}
	if _, known := q.open[k]; !known && len(q.open) < maxChecks {
		q.open[k] = waiting{seen: c.Clock(), underway: t.TurnsBegun()}
		q.wake.Send()
	}
	return true
}

// Differs reports that the backend holds another text of a memory than row: at once or,
// if an agent may be writing it, after the agent's turn.
func (c *Checker) Differs(ctx context.Context, row memproxy.Ownership) error {
	b, err := c.Config.Backend(row.Backend)
	if err != nil || c.QueueCheck(row) || !c.Traits(b, row.ID).Listed {
		return err
	}
	return c.reportFinding(ctx, differs(row.Key(), row.Scope.Tenant))
}

// runDue runs the checks that are due. It returns upkeep.Due while others wait.
func (q *checks) runDue(ctx context.Context, now time.Time) error {
	due, waiting := q.due(now)
	var errs []error
	for _, k := range due {
		if err := q.check(ctx, k); err != nil {
			errs = append(errs, fmt.Errorf("memory %s, which differs from what was recorded, was not reported; the next read checks it again: %w", k.ID, err))
		}
	}
	if len(errs) == 0 && waiting > 0 {
		return upkeep.Due{In: checkSettle / 2}
	}
	return errors.Join(errs...)
}

// due removes and returns the checks whose turns ended long ago, and counts the rest.
func (q *checks) due(now time.Time) (due []check, waiting int) {
	c := q.c
	q.mu.Lock()
	defer q.mu.Unlock()
	for k, w := range q.open {
		if t := c.Turns(k.Backend); t != nil && now.Sub(w.seen) < t.LongestTurn() && (shared(c.Config) || w.underway()) {
			continue
		}
		if w.quiet.IsZero() {
			w.quiet = now
			q.open[k] = w
		}
		if now.Sub(w.quiet) >= checkSettle {
			delete(q.open, k)
			due = append(due, k)
		}
	}
	return due, len(q.open)
}

// check reports and flags a memory, unless something was recorded of it since the read.
func (q *checks) check(ctx context.Context, k check) error {
	c := q.c
	ctx, cancel := context.WithTimeout(ctx, c.RecordTime)
	defer cancel()
	records, err := c.Ledger.Lookup(ctx, k.MemoryKey)
	if err != nil {
		return err
	}
	rec := records.Of(k.MemoryKey)
	f := differs(k.MemoryKey, k.tenant)
	switch row, known := rec.Owner, rec.HasOwner(); {
	case !known && k.recorded == "":
		f.Class, f.Code, f.Detail = memproxy.FaultInsert, memproxy.IntegrityUnknown, "it was not written through memproxy"
	case !known || row.Deleted || row.SHA256 != k.recorded:
		return nil
	}
	return c.reportFinding(ctx, f)
}

// differs returns the finding that a text differs from the recorded one.
func differs(k memproxy.MemoryKey, tenant string) *memproxy.Discrepancy {
	return &memproxy.Discrepancy{
		MemoryKey: k, Tenant: tenant, Class: memproxy.FaultTamper, Code: memproxy.IntegrityMismatch,
		Detail: "a read returned a different text than the one written through memproxy",
	}
}

// shared reports whether other processes may have the ledger open.
func shared(cfg *config.Config) bool { return cfg.Ledger.URL.Reveal() != "" }
