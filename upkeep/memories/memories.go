// Package memories runs the time-based work on memories. It judges memories that the
// rules in force have not judged, expires memories, promotes pending ones that were not
// changed for long enough, and purges what is past its retention.
package memories

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/upkeep"
)

// Options are the dependencies of a Maintainer. All are required.
type Options struct {
	Config *config.Config
	Ledger *ledger.Ledger
	Log    *slog.Logger
	// Rules returns the rules in force.
	Rules func() *gate.Rules
	// Budget has the totals, which are reduced when memories are purged.
	Budget gate.Budget
	// Backend returns memproxy's own access to the backend of a name, or nil if there is
	// none.
	Backend   func(name string) *proxy.BackendClient
	Integrity *integrity.Checker
	// ClockGuard reports whether the clock can be trusted.
	ClockGuard *upkeep.ClockGuard
	// Unconfirmed has the changes whose outcome is unknown.
	Unconfirmed *Unconfirmed
	// Note records an event about the process.
	Note func(t memproxy.EventType, detail string)
}

// A Maintainer maintains the memories of a process.
type Maintainer struct {
	Options
	before        uint64 // index of this process's first record
	auditSearched bool   // the changes of earlier processes were added to Unconfirmed
	// stopped is the memory at which the last pass over each state stopped.
	stopped map[memproxy.MemoryState]memproxy.MemoryKey
	purged  memproxy.MemoryKey // memory at which the last round of purging stopped: some cannot be deleted
}

// New returns a Maintainer. It does nothing until its jobs run.
func New(opt Options) *Maintainer {
	return &Maintainer{Options: opt, stopped: map[memproxy.MemoryState]memproxy.MemoryKey{}, before: opt.Integrity.Audit.Size()}
}

// maintainEvery is how often items past their retention are deleted. The first round is
// an hour after the start, because not every process runs for a day.
const maintainEvery = 24 * time.Hour

// Jobs returns the background jobs of the Maintainer. With memories.validate: 0 the job
// upkeep runs only on request.
func (k *Maintainer) Jobs() []upkeep.Job {
	every := k.Config.Memories.Validate.Std()
	var start upkeep.Signal
	if every > 0 {
		start = upkeep.NewPendingSignal() // the process may not run for a whole interval
	}
	return []upkeep.Job{
		{Name: "upkeep", Every: every, Wake: start, Once: k.upkeep},
		{Name: "outcomes", Every: time.Minute, Wake: upkeep.NewPendingSignal(), Once: k.outcomes},
		{Name: "retention", Every: maintainEvery, Wake: upkeep.NewPendingSignal(), Once: k.maintain},
	}
}

// upkeep expires memories, promotes pending ones that were not changed for long
// enough, and judges those that the present rules have not judged. Whatever depends on
// elapsed time uses a time that has certainly passed (ClockGuard.SafeTime); reads use the
// clock in any case.
func (k *Maintainer) upkeep(ctx context.Context, now time.Time) error {
	m := &k.Config.Memories
	errs := []error{k.validate(ctx)}
	for _, part := range [...]struct {
		after time.Duration // 0: never
		do    func(context.Context, time.Time) error
	}{{shortest(m), k.expire}, {m.UncorrectedFor.Std(), k.promote}, {m.Archive.Std(), k.purge}, {m.Deleted.Std(), k.shred}} {
		if part.after <= 0 {
			continue
		}
		came, err := k.ClockGuard.SafeTime(ctx, now, part.after)
		if err == nil && !came.IsZero() {
			err = part.do(ctx, came)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("not all memories were maintained: %w", err)
	}
	return nil
}

// shortest returns the shortest configured time to live, or a day if there is none.
func shortest(m *config.Memories) time.Duration {
	least := 24 * time.Hour
	for _, ttl := range m.TTL {
		least = min(least, cmp.Or(ttl.Std(), least))
	}
	for _, layer := range [...]memproxy.Layer{memproxy.Episodic, memproxy.Semantic, memproxy.Task} {
		least = min(least, cmp.Or(m.LayerTTL(layer), least))
	}
	return least
}

func (k *Maintainer) expire(ctx context.Context, now time.Time) error {
	for total := 0; ; {
		gone, err := k.Ledger.Upkeep.Expire(ctx, now)
		total += len(gone)
		if err == nil && len(gone) > 0 {
			continue
		}
		if total > 0 {
			k.Log.Info("memories expired", "memories", total)
		}
		return err
	}
}

// promote makes pending memories readable that nobody changed for memories.quiet.
func (k *Maintainer) promote(ctx context.Context, now time.Time) error {
	list, err := k.Ledger.ListStatuses(ctx, memproxy.StatusFilter{State: memproxy.StatePending, QuietSince: now.Add(-k.Config.Memories.UncorrectedFor.Std()), Limit: 100})
	if err != nil {
		return err
	}
	var changes []memproxy.StateChange
	for i := range list {
		changes = append(changes, memproxy.StateChange{
			MemoryKey: list[i].MemoryKey, Tenant: list[i].Tenant, State: memproxy.StateUntrusted,
			From: []memproxy.MemoryState{memproxy.StatePending}, Reason: "it was not changed for long enough", Decision: list[i].Decision,
		})
	}
	_, err = k.Ledger.SetState(ctx, changes...)
	return err
}

// purge deletes memories that expired long ago, in the backend and then in the ledger.
func (k *Maintainer) purge(ctx context.Context, now time.Time) error {
	list, err := k.Ledger.Upkeep.Purgeable(ctx, k.purged, now.Add(-k.Config.Memories.Archive.Std()), 100)
	k.purged = (memproxy.MemoryKey{})
	if len(list) == 100 {
		k.purged = list[99].MemoryKey
	}
	if err != nil {
		return err
	}
	for i := range list {
		p := k.Backend(list[i].Backend)
		if p == nil {
			continue
		}
		if err := k.purgeOne(ctx, p, &list[i], now); err != nil {
			return err
		}
	}
	return nil
}

// purgeOne deletes one memory, in its turn, unless it was written again since it was
// listed.
func (k *Maintainer) purgeOne(ctx context.Context, p *proxy.BackendClient, st *memproxy.Status, now time.Time) error {
	leave, err := p.LockMemory(ctx, st.MemoryKey)
	if errors.Is(err, gate.ErrInUse) {
		return nil // it is being written; the next round looks again
	} else if err != nil {
		return err
	}
	defer leave()
	records, err := k.Ledger.Lookup(ctx, st.MemoryKey)
	if err != nil {
		return err
	}
	if is := records.Of(st.MemoryKey).Status; is.State != memproxy.StateExpired || is.Pinned {
		return nil
	}
	if err := p.Remove(ctx, st.MemoryKey); err != nil {
		k.Log.Warn("deleting an expired memory failed; it will be retried", "memory", st.ID, "error", err)
		return nil
	}
	if err := k.Ledger.Upkeep.Purge(ctx, st.MemoryKey, memproxy.SystemActor, st.Decision); err != nil {
		return err
	}
	row := records.Of(st.MemoryKey).Owner
	k.creditTotals(ctx, &row, now, "purge/", "an expired memory was deleted")
	return nil
}

// creditTotals reduces the totals by a deleted memory.
func (k *Maintainer) creditTotals(ctx context.Context, row *memproxy.Ownership, now time.Time, charge, after string) {
	if !gate.CountsInTotals(row) {
		return
	}
	who := gate.AuthorCountOf(ctx, k.Ledger, row)
	who.Memories = 1
	if err := gate.CreditTotals(ctx, k.Budget, k.Rules(), charge+row.Backend+"/"+row.ID, now, who); err != nil {
		k.Log.Warn("total not lowered after "+after, "memory", row.ID, "error", err)
	}
}

func (k *Maintainer) shred(ctx context.Context, now time.Time) error {
	gone, err := k.Ledger.Upkeep.DeletedBefore(ctx, now.Add(-k.Config.Memories.Deleted.Std()), 100)
	if err != nil {
		return err
	}
	for _, key := range gone {
		if err := k.Ledger.Upkeep.Purge(ctx, key, memproxy.SystemActor, ""); err != nil {
			return err
		}
	}
	return nil
}

// maintain deletes items past their retention, and again once the clock can be trusted.
func (k *Maintainer) maintain(ctx context.Context, now time.Time) error {
	const least = time.Hour // no retention is shorter
	var gone ledger.Removed
	came, err := k.ClockGuard.SafeTime(ctx, now, least)
	if keep := k.Config.Ledger.Retention; err == nil && !came.IsZero() {
		gone, err = k.Ledger.Upkeep.Maintain(ctx, came, ledger.Retention{
			Holds: keep.Holds.Std(), Sessions: keep.Sessions.Std(), Tombstones: keep.Deleted.Std(), Records: keep.Records.Std(),
		})
	}
	if gone != (ledger.Removed{}) {
		k.Note(memproxy.EventPurge, fmt.Sprintf("past their retention: %d held writes with their contents, %d sessions, %d tombstones of deleted memories and %d records of versions were removed",
			gone.Holds, gone.Sessions, gone.Tombstones, gone.Records))
	}
	if err != nil {
		return fmt.Errorf("not everything past its retention was removed: %w", err)
	}
	if wait := k.ClockGuard.Wait(least); wait > 0 {
		return upkeep.Due{In: wait}
	}
	return nil
}
