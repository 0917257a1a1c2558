package memories

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/tamper"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/proxy"
)

// maxUnconfirmed bounds the changes that wait to be asked about, and the number of
// their targets together.
const maxUnconfirmed = 1 << 16

// Unconfirmed is a queue of changes and deletions that the backend did not confirm,
// oldest first. It is safe for concurrent use.
type Unconfirmed struct {
	Log *slog.Logger

	mu      sync.Mutex
	waiting []memproxy.Event
	size    int
}

// Add queues a change for the next round. If the queue is full, the change is left to
// the next process, which finds it in the audit log.
func (u *Unconfirmed) Add(ev memproxy.Event) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.size += 1 + len(ev.Targets); u.size > maxUnconfirmed {
		u.size -= 1 + len(ev.Targets)
		u.Log.Warn("too many unanswered changes are pending: this one is checked at the next start", "decision", ev.Decision)
		return
	}
	// Names are cloned because they may be slices of a request's body, which they would
	// keep in memory.
	of := memproxy.Event{
		Decision: ev.Decision, Kind: ev.Kind, Backend: ev.Backend,
		Principal: memproxy.Principal{ID: ev.Principal.ID, Tenant: ev.Principal.Tenant, Trust: ev.Principal.Trust},
		Scope:     memproxy.Scope{User: strings.Clone(ev.Scope.User), Agent: strings.Clone(ev.Scope.Agent), App: strings.Clone(ev.Scope.App), Run: strings.Clone(ev.Scope.Run)},
	}
	for _, id := range ev.Targets {
		of.Targets = append(of.Targets, strings.Clone(id))
	}
	u.waiting = append(u.waiting, of)
}

func (u *Unconfirmed) next() (ev memproxy.Event, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.waiting) == 0 {
		return ev, false
	}
	ev, u.waiting = u.waiting[0], u.waiting[1:]
	u.size -= 1 + len(ev.Targets)
	return ev, true
}

func (u *Unconfirmed) len() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.waiting)
}

// maxFailures is the number of consecutive failures that ends a round, so that an
// unavailable backend is not asked about every change.
const maxFailures = 4

// outcomes asks the backends for the outcome of changes and deletions without an
// answer, including those that an earlier process sent and could not record because it
// was killed. Otherwise a deleted text would stay readable in the backend's history,
// and a sweep would report the change as one that bypassed memproxy. A change waits for
// the next round while the backend does not answer or the ledger is unavailable.
func (k *Maintainer) outcomes(ctx context.Context, now time.Time) error {
	if !k.auditSearched {
		lost, err := integrity.UnansweredChanges(ctx, k.Integrity, k.before)
		if err != nil {
			return fmt.Errorf("list the changes without an outcome: %w", err)
		}
		for i := range lost {
			k.Unconfirmed.Add(lost[i])
		}
		k.auditSearched = true
	}
	var failed error
	for n, failures := k.Unconfirmed.len(), 0; n > 0 && failures < maxFailures; n-- {
		ev, _ := k.Unconfirmed.next()
		if err := k.outcome(ctx, &ev, now); err != nil {
			k.Unconfirmed.Add(ev) // at the end of the queue, so that one change cannot block the others
			failed, failures = err, failures+1
		} else {
			failures = 0
		}
	}
	if failed != nil {
		return fmt.Errorf("not all unanswered changes could be checked: %w", failed)
	}
	return nil
}

// outcome fetches the targets of a change from the backend and records what became of
// them.
func (k *Maintainer) outcome(ctx context.Context, ev *memproxy.Event, now time.Time) error {
	own := k.Backend(ev.Backend)
	if own == nil {
		return nil
	}
	return k.targets(ctx, ev, func(row *memproxy.Ownership) error {
		if row.Deleted || row.Decision == ev.Decision || memproxy.Inert(row.Scope.Tenant) != memproxy.Inert(ev.Principal.Tenant) {
			return nil // the outcome is recorded, or the change was refused
		}
		m, err := own.CurrentMemory(ctx, row.Key())
		switch {
		case errors.Is(err, proxy.ErrUnanswered):
			return err
		case errors.Is(err, proxy.ErrNoRestore):
			return nil
		case err != nil: // such as a credential without permission to read it
			k.Log.Warn("the outcome of an unanswered change remains unknown", "decision", ev.Decision, "error", err)
			return nil
		}
		if err = k.recordChange(ctx, ev, row, &m, now); errors.Is(err, memproxy.ErrStale) {
			return nil // another change of the memory is recorded
		}
		return err
	})
}

// targets calls f with the ledger's row of each memory that a change names, or that is
// in the scope of a bulk deletion.
func (k *Maintainer) targets(ctx context.Context, ev *memproxy.Event, f func(*memproxy.Ownership) error) error {
	if len(ev.Targets) > 0 {
		records, err := ledger.ByID(ctx, k.Ledger, ev.Backend, memproxy.TargetMemory, ev.Targets...)
		if err != nil {
			return err
		}
		for _, id := range ev.Targets {
			if rec := records[id]; rec.HasOwner() {
				if err := f(&rec.Owner); err != nil {
					return err
				}
			}
		}
		return nil
	}
	of := memproxy.InertScope(ev.Scope)
	if !of.HasOwner() {
		return nil
	}
	return k.Ledger.Backends.Inventory(ctx, ev.Backend, func(page []memproxy.Ownership) error {
		for i := range page {
			if memproxy.InertScope(page[i].Scope).Within(of) {
				if err := f(&page[i]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// recordChange records the change if the backend's memory shows that the change was made.
func (k *Maintainer) recordChange(ctx context.Context, ev *memproxy.Event, row *memproxy.Ownership, m *memproxy.Memory, now time.Time) error {
	if !tamper.IsAsLeftBy(k.Integrity.Signer, row.Scope.Tenant, ev.Decision, ev.Kind, m) {
		return nil
	}
	e := integrity.Deletion(ev, row)
	after, v := &e.Owners[0], &e.Versions[0]
	v.Field = m.Field
	if s := m.Stamp; ev.Kind != memproxy.Forget {
		after.Deleted, after.Decision = false, ev.Decision
		v.Op, v.Actor, v.Trust, v.Confidence, v.Attestation, v.Text, v.Metadata = memproxy.OpUpdate, s.Actor, s.Trust, s.Confidence, s.Attestation, m.Text, m.Metadata
		if hash := memproxy.TextSHA256(m.Text); m.Text != "" && hash != row.SHA256 {
			after.SHA256, after.Confidence = hash, s.Confidence
			if row.Actor != "" && row.Actor != s.Actor {
				e.Corrections = []memproxy.Correction{corrected(row, ev, s, now)}
			}
		} else {
			e.Versions = nil // only the metadata changed
		}
	}
	if err := k.Ledger.Commit(ctx, e); err != nil {
		return err
	}
	k.Log.Info("the outcome of an unanswered change was recorded", "decision", ev.Decision, "memory", row.ID, "deleted", after.Deleted)
	if after.Deleted {
		k.creditTotals(ctx, row, now, "lost/", "a deletion without an answer")
	}
	return nil
}

// corrected returns the correction of another author's text by an unanswered change. If
// a person approved the change, the correction is that person's.
func corrected(row *memproxy.Ownership, ev *memproxy.Event, s *memproxy.Stamp, now time.Time) memproxy.Correction {
	c := memproxy.Correction{
		MemoryKey: row.Key(), Tenant: row.Scope.Tenant, Author: row.Actor,
		Corrector: s.Actor, Trust: s.Trust, Decision: ev.Decision, Reason: "a change without an answer", Time: now,
	}
	if s.Attestation == memproxy.HumanConfirmed {
		c.Trust = memproxy.TrustHuman
	}
	return c
}
