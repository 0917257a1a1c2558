package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/ledger/redo"
)

// Commit applies an entry, whole or not at all, in one transaction that it may share
// with others. Later calls of this ledger see the entry at once. Other processes on the
// same store see it when Commit returns, or up to 0.5 s later if the entry is queued
// for a file, because a transaction costs much more than its contents. A queued entry
// that cannot be written is lost and reported to Options.OnLost. Commit waits while too
// many entries are queued.
//
// An entry about more than maxPart objects is applied in parts, one transaction each.
// It becomes visible, and is logged if it is queued, part by part. Commit waits for all
// parts. An entry with ExpectedOwners, Dissents, Corrections or Retractions is never
// divided.
//
// An entry whose ExpectedOwners were replaced by others is refused with memproxy.ErrStale;
// see Entry.ExpectedOwners. An entry with a part that cannot be stored is refused with
// ErrRow: a key without backend, kind or id, or a string that is longer than 1,024 bytes,
// contains NUL or is not UTF-8. Nothing is written in either case. After the error of a
// context it is unknown whether the entry was applied. Times are kept to the microsecond.
func (l *Ledger) Commit(ctx context.Context, c memproxy.Entry) error {
	if c.Empty() || ctx.Err() != nil {
		return ctx.Err()
	}
	own, err := ownEntry(&l.opt, &c)
	if err != nil {
		return err
	}
	var secret []byte
	if len(own.Retractions) > 0 {
		if secret, err = l.sketchKey(ctx); err != nil {
			return err
		}
	}
	var at int64 // of deletions
	if slices.ContainsFunc(own.Owners, func(o memproxy.Ownership) bool { return o.Deleted }) {
		at = toMicros(l.opt.Clock())
	}
	apply := func(t *transaction) { applyEntry(t, own, at, secret) }
	if all := parts(own); len(all) > 1 {
		return commitParts(ctx, l.store, all, at)
	}
	if own.Queued && l.opt.URL == "" {
		queued, logged, err := l.enqueue(own, apply)
		if queued && !logged && l.Sync(ctx) != nil { // such as on a full disk
			return memproxy.ErrKept
		}
		if queued || err != nil {
			return err
		}
	}
	return commitNow(ctx, l.store, own, apply)
}

// commitNow waits until an entry is in the database. If the database is unavailable, an
// entry that may be queued is kept (ErrKept), so that an acknowledged write is recorded
// once the database answers again.
func commitNow(ctx context.Context, s *store, e *memproxy.Entry, apply func(*transaction)) error {
	err := s.do(ctx, &job{size: size(e), entry: e, run: apply})
	if e.Queued && retryable(err) {
		if queued, _, _ := s.enqueue(e, apply); queued {
			return memproxy.ErrKept
		}
	}
	return err
}

// commitParts commits the parts of a large entry. The parts of all large entries wait
// for the writer one at a time, so that another write waits for at most one of them,
// and large entries take turns. Parts that are kept stop no others.
func commitParts(ctx context.Context, s *store, all []*memproxy.Entry, at int64) (kept error) {
	done := make(chan struct{})
	for _, part := range all {
		for i := range part.Owners {
			s.parted.Store(part.Owners[i].Decision, done)
			defer s.parted.CompareAndDelete(part.Owners[i].Decision, done)
		}
	}
	defer close(done)
	for _, part := range all {
		select {
		case s.large <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("ledger: wait to write: %w", ctx.Err())
		}
		err := commitNow(ctx, s, part, func(t *transaction) { applyEntry(t, part, at, nil) })
		<-s.large
		kept = cmp.Or(kept, err)
		if !errors.Is(err, memproxy.ErrKept) && err != nil {
			return err
		}
	}
	return kept
}

const maxPart = 128 // maximum number of objects of one entry in one transaction

// parts divides an entry so that all changes of an object are in one part. It does not
// divide an entry that applies only if nothing else was changed, or corrections of
// others' texts.
func parts(e *memproxy.Entry) (all []*memproxy.Entry) {
	if size(e) <= maxPart || len(e.ExpectedOwners)+len(e.Dissents)+len(e.Corrections)+len(e.Retractions) > 0 {
		return []*memproxy.Entry{e}
	}
	at := map[key]*memproxy.Entry{}
	of := func(k key) *memproxy.Entry {
		if at[k] == nil {
			if len(at)%maxPart == 0 {
				all = append(all, &memproxy.Entry{Queued: e.Queued})
			}
			at[k] = all[len(all)-1]
		}
		return at[k]
	}
	distribute(e.Found, func(v *memproxy.Version) *[]memproxy.Version { return &of(v.MemoryKey).Found })
	distribute(e.Versions, func(v *memproxy.Version) *[]memproxy.Version { return &of(v.MemoryKey).Versions })
	distribute(e.States, func(c *memproxy.StateChange) *[]memproxy.StateChange { return &of(c.MemoryKey).States })
	distribute(e.Renewed, func(r *memproxy.Renewal) *[]memproxy.Renewal { return &of(r.MemoryKey).Renewed })
	distribute(e.Owners, func(o *memproxy.Ownership) *[]memproxy.Ownership { return &of(o.Key()).Owners })
	return all
}

// distribute appends each element to the list that to returns for it.
func distribute[T any](all []T, to func(*T) *[]T) {
	for i := range all {
		list := to(&all[i])
		*list = append(*list, all[i])
	}
}

// ownEntry returns a validated copy of an entry, so that the caller may reuse its slices.
func ownEntry(opt *Options, c *memproxy.Entry) (*memproxy.Entry, error) {
	if opt.Vault == nil && len(c.Found)+len(c.Versions)+len(c.Dissents) > 0 {
		return nil, ErrNoVault
	}
	var err error
	own := &memproxy.Entry{
		Versions: slices.Clone(c.Versions), States: slices.Clone(c.States), Renewed: slices.Clone(c.Renewed),
		Dissents: slices.Clone(c.Dissents), Corrections: slices.Clone(c.Corrections), Retractions: slices.Clone(c.Retractions),
		Queued: c.Queued && len(c.Dissents)+len(c.Corrections)+len(c.Retractions) == 0,
	}
	if own.Found, err = asSealVersions(c.Found); err != nil {
		return nil, err
	}
	if own.Owners, err = copyOwners(c.Owners); err != nil {
		return nil, err
	}
	if !own.Queued || opt.URL != "" { // queued changes of a single writer are applied in order, so ExpectedOwners are not needed
		own.ExpectedOwners = slices.Clone(c.ExpectedOwners)
	}
	return own, errors.Join(
		valid(own.Versions, validVersion), valid(own.States, validChange), valid(own.Renewed, func(r *memproxy.Renewal) error { return validKey(r.MemoryKey) }),
		valid(own.Dissents, validDissent), valid(own.Corrections, validCorrection), valid(own.Retractions, validRetraction))
}

func valid[T any](all []T, check func(*T) error) error {
	for i := range all {
		if err := check(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// size estimates how many rows an entry writes.
func size(c *memproxy.Entry) int {
	return max(1, len(c.Found)+len(c.Versions)+len(c.States)+len(c.Renewed)+len(c.Owners))
}

// enqueue queues an entry, which is then visible at once. queued is false if the queue
// is full. logged reports whether the entry survives the death of the process.
func (s *store) enqueue(e *memproxy.Entry, apply func(*transaction)) (queued, logged bool, err error) {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return false, false, ErrClosed
	}
	if s.kept.Load() > int64(s.opt.Queue) {
		return false, false, nil // too many entries are kept: Commit waits for the database instead
	}
	j := &job{ctx: context.Background(), size: size(e), entry: e, run: apply}
	queue := func(number uint64) bool {
		j.number = number
		return s.recent.addWaiting(e, func() bool {
			select {
			case s.jobs <- j:
				return true
			default:
				return false
			}
		})
	}
	if s.redo == nil {
		return queue(0), true, nil
	}
	text, err := encodeEntry(e)
	if err != nil {
		return false, false, err
	}
	queued, logged = s.redo.Append(text, queue)
	return queued, logged, nil
}

// openRedo opens the redo log and returns its entries that the database does not have yet.
func openRedo(ctx context.Context, s *store) (left []*job, err error) {
	if s.opt.Path == "" || s.opt.Vault == nil {
		return nil, nil
	}
	var applied uint64
	if err := s.writer.QueryRowContext(ctx, `SELECT applied FROM redo`).Scan(&applied); err != nil {
		return nil, err
	}
	file, err := durable.Open(s.opt.Path+redo.Suffix, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	s.redo, err = redo.Open(file, s.opt.Vault, applied, func(number uint64, plain []byte) error {
		e, err := decodeEntry(plain)
		if err == nil {
			left = append(left, &job{
				ctx: context.Background(), size: size(e), number: number,
				run: func(t *transaction) { applyEntry(t, e, toMicros(s.opt.Clock()), nil) },
			})
		}
		return err
	}, func(err error) { s.opt.OnLost(1, fmt.Errorf("ledger: %w", err)) })
	return left, err
}

// resume applies the entries in the redo log of the last process, before the ledger is
// used.
func resume(s *store, left []*job) error {
	if s.redo == nil {
		return nil
	}
	last := &job{ctx: context.Background(), done: make(chan error, 1)}
	for _, j := range append(left, last) {
		s.jobs <- j
	}
	if err := <-last.done; err != nil {
		return err
	}
	return s.redo.Applied(0, true)
}

// loggedVersion is a version with the members that its JSON omits.
type loggedVersion struct {
	memproxy.Version
	Text     string `json:"text,omitempty"`
	Metadata []byte `json:"metadata,omitempty"`
}

// loggedEntry is the form of an entry in the redo log.
type loggedEntry struct {
	Found, Versions []loggedVersion        `json:",omitempty"`
	States          []memproxy.StateChange `json:",omitempty"`
	Renewed         []memproxy.Renewal     `json:",omitempty"`
	Owners          []memproxy.Ownership   `json:",omitempty"`
}

func encodeEntry(e *memproxy.Entry) ([]byte, error) {
	all := func(versions []memproxy.Version) (out []loggedVersion) {
		for i := range versions {
			v := &versions[i]
			out = append(out, loggedVersion{*v, v.Text, v.Metadata})
		}
		return out
	}
	return json.Marshal(loggedEntry{all(e.Found), all(e.Versions), e.States, e.Renewed, e.Owners})
}

func decodeEntry(text []byte) (*memproxy.Entry, error) {
	var in loggedEntry
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	all := func(versions []loggedVersion) (out []memproxy.Version) {
		for _, v := range versions {
			v.Version.Text, v.Version.Metadata = v.Text, v.Metadata
			out = append(out, v.Version)
		}
		return out
	}
	return &memproxy.Entry{Found: all(in.Found), Versions: all(in.Versions), States: in.States, Renewed: in.Renewed, Owners: in.Owners}, nil
}

// historyKeys returns the memories of an entry of which more than the owner changes.
func historyKeys(e *memproxy.Entry) []key {
	keys := make([]key, 0, len(e.Found)+len(e.Versions)+len(e.States)+len(e.Renewed))
	for i := range e.Found {
		keys = append(keys, e.Found[i].MemoryKey)
	}
	for i := range e.Versions {
		keys = append(keys, e.Versions[i].MemoryKey)
	}
	for i := range e.States {
		keys = append(keys, e.States[i].MemoryKey)
	}
	for i := range e.Renewed {
		keys = append(keys, e.Renewed[i].MemoryKey)
	}
	return keys
}

// applyEntry applies an entry. States come before owners, so that a memory's initial
// state does not count for or against its author. Counting begins with the memory's
// first review. Deletions have the time at which the entry was committed, not that at which
// it leaves the queue: an export that was made in between cannot contain the memories.
func applyEntry(t *transaction, e *memproxy.Entry, at int64, secret []byte) {
	for i := range e.ExpectedOwners {
		seen := &e.ExpectedOwners[i]
		if r := t.record(seen.Key()); !r.HasOwner() || r.Owner.Decision != seen.Decision || r.Owner.Deleted != seen.Deleted {
			t.fail(memproxy.ErrStale)
			return
		}
	}
	each(t, e.Found, keepFound)
	each(t, e.Versions, func(t *transaction, v *memproxy.Version) { t.append(*v) })
	each(t, e.States, func(t *transaction, c *memproxy.StateChange) { t.setState(c) })
	each(t, e.Renewed, renew)
	each(t, e.Owners, func(t *transaction, row *memproxy.Ownership) { putOwner(t, row, at) })
	each(t, e.Dissents, addDissent)
	each(t, e.Corrections, addCorrection)
	addRetractions(t, secret, e.Retractions)
}

func each[T any](t *transaction, all []T, f func(*transaction, *T)) {
	for i := range all {
		f(t, &all[i])
	}
}
