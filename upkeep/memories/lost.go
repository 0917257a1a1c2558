package memories

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/integrity"
	"github.com/memproxy/memproxy/proxy"
)

// lost are the changes of earlier processes without a recorded outcome.
type lost struct {
	before uint64 // index of this process's first record
	read   bool
	open   []memproxy.Event
}

// outcomes asks the backends for the outcome of changes and deletions that an earlier
// process sent and did not record because it was killed. Otherwise a deleted text would
// stay readable in the backend's history, and a sweep would report the change as one that
// bypassed memproxy. The job is repeated while a backend does not answer.
func (k *Keeper) outcomes(ctx context.Context, now time.Time) error {
	if !k.lost.read {
		open, err := integrity.Lost(ctx, k.Integrity, k.lost.before)
		if err != nil {
			return fmt.Errorf("it is not known which changes have no outcome: %w", err)
		}
		k.lost.open, k.lost.read = open, true
	}
	for len(k.lost.open) > 0 {
		ev := &k.lost.open[0]
		err := k.outcome(ctx, ev, now)
		switch {
		case errors.Is(err, proxy.ErrUnanswered) || ctx.Err() != nil:
			return fmt.Errorf("changes that were under way when a process was killed are not recorded yet: %w", err)
		case err != nil:
			k.Log.Warn("the outcome of a change that was under way when a process was killed stays unknown", "decision", ev.Decision, "error", err)
		}
		k.lost.open = k.lost.open[1:]
	}
	return nil
}

// outcome fetches the targets of one change and records what it did.
func (k *Keeper) outcome(ctx context.Context, ev *memproxy.Event, now time.Time) error {
	own := k.Backend(ev.Backend)
	if own == nil {
		return nil
	}
	rows, err := k.targets(ctx, ev)
	if err != nil {
		return err
	}
	for i := range rows {
		row := &rows[i]
		if row.Deleted || row.Decision == ev.Decision || memproxy.Inert(row.Scope.Tenant) != memproxy.Inert(ev.Principal.Tenant) {
			continue // it is recorded, or was refused
		}
		key := memproxy.MemoryKey{Backend: row.Backend, Kind: row.Kind, ID: row.ID}
		m, err := own.Look(ctx, key)
		if errors.Is(err, proxy.ErrNoRestore) {
			continue
		}
		if err == nil {
			err = k.became(ctx, ev, row, &m, now)
		}
		if err != nil && !errors.Is(err, memproxy.ErrStale) { // another change of it is recorded
			return err
		}
	}
	return nil
}

// targets returns the ledger's rows of the memories that a change names, or that are in
// the scope of a bulk deletion.
func (k *Keeper) targets(ctx context.Context, ev *memproxy.Event) (rows []memproxy.Ownership, err error) {
	if len(ev.Targets) > 0 {
		var keys []memproxy.MemoryKey
		for _, id := range ev.Targets {
			keys = append(keys, memproxy.MemoryKey{Backend: ev.Backend, Kind: memproxy.TargetMemory, ID: id})
		}
		records, err := k.Ledger.Lookup(ctx, keys...)
		for _, key := range keys {
			if rec := records[key]; rec.Owned() {
				rows = append(rows, rec.Owner)
			}
		}
		return rows, err
	}
	of := ev.Scope
	if !of.Owned() {
		return nil, nil
	}
	within := func(asked, has string) bool { return asked == "" || asked == memproxy.Inert(has) }
	for after := ""; ; {
		page, err := k.Ledger.Backends.Inventory(ctx, ev.Backend, memproxy.TargetMemory, after, 500)
		if err != nil || len(page) == 0 {
			return rows, err
		}
		after = page[len(page)-1].ID
		for _, row := range page {
			if s := row.Scope; within(of.User, s.User) && within(of.Agent, s.Agent) && within(of.App, s.App) && within(of.Run, s.Run) {
				rows = append(rows, row)
			}
		}
	}
}

// became records the change if the backend's memory shows that it was made.
func (k *Keeper) became(ctx context.Context, ev *memproxy.Event, row *memproxy.Ownership, m *memproxy.Memory, now time.Time) error {
	e := memproxy.Entry{Seen: []memproxy.Ownership{*row}}
	v := memproxy.Version{
		MemoryKey: memproxy.MemoryKey{Backend: row.Backend, Kind: row.Kind, ID: row.ID}, Tenant: row.Scope.Tenant, Op: memproxy.OpDelete,
		Actor: ev.Principal.ID, Trust: ev.Principal.Trust, Attestation: memproxy.AttestationUnknown, Decision: ev.Decision, Before: row.SHA256, Field: m.Field,
	}
	after, changed := *row, true
	switch s := m.Stamp; {
	case m.Missing && ev.Kind == memproxy.Forget:
		after.Deleted = true
	case ev.Kind == memproxy.Correct && integrity.Wrote(k.Integrity, ev.Decision, row.Scope.Tenant, m):
		after.Decision = ev.Decision
		v.Op, v.Actor, v.Trust, v.Confidence, v.Attestation, v.Text, v.Metadata = memproxy.OpUpdate, s.Actor, s.Trust, s.Confidence, s.Attestation, m.Text, m.Metadata
		if hash := memproxy.TextSHA256(m.Text); m.Text != "" && hash != row.SHA256 {
			after.SHA256, after.Confidence = hash, s.Confidence
		} else {
			changed = false // only its metadata
		}
	default:
		return nil
	}
	if changed {
		e.Versions = []memproxy.Version{v}
	}
	e.Owners = []memproxy.Ownership{after}
	if err := k.Ledger.Commit(ctx, e); err != nil {
		return err
	}
	k.Log.Info("a change that was under way when a process was killed is recorded", "decision", ev.Decision, "memory", row.ID, "deleted", after.Deleted)
	if !after.Deleted || !gate.Counts(row) {
		return nil
	}
	who := gate.TallyOf(ctx, k.Ledger, row)
	who.Memories = 1
	return gate.Lower(ctx, k.Budget, k.Rules(), "lost/"+row.Backend+"/"+row.ID, now, who)
}
