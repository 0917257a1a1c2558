package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

// maxGroup is the number of rows at which a transaction that a caller waits for is
// complete, and maxQueued that of a transaction of queued entries, which takes up to a
// fifth of a second. A larger group changes more rows on the same pages of the file,
// each of which is written once.
const maxGroup, maxQueued = 512, 4096

// linger is the maximum time that entries without a waiting caller wait for others to
// share a transaction with.
const linger = 500 * time.Millisecond

// job is one write for the writer.
type job struct {
	bad    error              // an error about the arguments of the call: nothing is done
	ctx    context.Context    // the job is skipped if its caller gave up before its turn
	size   int                // estimated number of rows that it writes
	number uint64             // number of its entry in the redo log, or 0
	entry  *memproxy.Entry    // that run applies, if any; without done it was queued
	run    func(*transaction) // nil: the job does nothing but wait for its turn
	done   chan error         // nil: no caller waits
	// durable jobs are on disk when they are done. erase jobs also overwrite what they
	// remove.
	durable, erase bool
	left           error // why the disk may still have what an erase job removed
}

// transaction is a transaction of the writer, with what it changed. After the first
// error, of a statement or given to fail, no further statement is executed, and nothing
// is committed.
type transaction struct {
	store   *store
	ctx     context.Context // bounds the whole group's commit
	tx      *sql.Tx
	err     error
	records map[key]*recordRow   // records that were read or changed; nil: changed, and to be read anew
	ready   map[string]*sql.Stmt // statements used in this transaction, by text
	heads   map[string]*head     // heads of chains, by tenant
	steps   []memproxy.Event     // changes of histories, for OnSteps
	sealed  []string             // backends that the transaction seals

	// counted is the number of memories that each author added: an author's row is written
	// once for the whole group.
	counted  map[account]int64
	breached map[string]bool // cached result of isBreached, by tenant

	broken  bool // a version differs from what was written
	noticed bool // a notice was queued
}

// fail ends the transaction with an error, unless it has one already.
func (t *transaction) fail(err error) { t.err = cmp.Or(t.err, err) }

// now returns the time in the form in which rows store it, never 0.
func (t *transaction) now() int64 { return max(1, toMicros(t.store.opt.Clock())) }

// account identifies an author whose memories are counted.
type account struct{ tenant, actor string }

// putCounts writes the numbers of memories that authors added.
func putCounts(t *transaction) {
	// All processes use the same order: two that wait for each other's rows would deadlock.
	for _, who := range slices.SortedFunc(maps.Keys(t.counted), func(a, b account) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.actor, b.actor))
	}) {
		changeTrack(t, who, func(of *memproxy.Track) { of.Facts += t.counted[who] })
	}
}

// flush waits until all queued entries are committed, so that a query sees them.
func (s *store) flush(ctx context.Context) error {
	if s.recent.idle() {
		return nil
	}
	return s.do(ctx, &job{})
}

// Sync waits until every entry that was queued before is committed or lost.
func (l *Ledger) Sync(ctx context.Context) error { return l.do(ctx, &job{}) }

// copyOwners validates and copies owners, so that the caller may reuse its slice.
func copyOwners(rows []memproxy.Ownership) ([]memproxy.Ownership, error) {
	own := slices.Clone(rows)
	for i := range own {
		if err := validOwner(&own[i]); err != nil {
			return nil, err
		}
		if at := &own[i].Written; !at.IsZero() { // as it will be read back
			*at = at.UTC().Truncate(time.Microsecond)
		}
	}
	return own, nil
}

// do hands a job to the writer and waits for it.
func (s *store) do(ctx context.Context, j *job) error {
	ctx, cancel := context.WithTimeout(ctx, s.opt.Timeout)
	defer cancel()
	if j.bad != nil {
		return j.bad
	}
	if err := ctx.Err(); err != nil { // the select below could choose to send although the context has ended
		return fmt.Errorf("ledger: write: %w", err)
	}
	j.ctx, j.done = ctx, make(chan error, 1)
	if err := s.send(ctx, j); err != nil {
		return err
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("ledger: write: %w", ctx.Err())
	}
}

func (s *store) send(ctx context.Context, j *job) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return ErrClosed
	}
	select {
	case s.jobs <- j:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ledger: wait to write: %w", ctx.Err())
	}
}

// write is the loop of the single writer. Jobs that arrive during a commit share the
// next transaction (group commit). Queued entries that the store cannot take now are
// kept, and come first in every later transaction until they are written.
func (s *store) write() {
	defer close(s.stopped)
	var kept []*job
	group := make([]*job, 0, 64)
	for first := range s.jobs {
		group = s.gather(append(append(group[:0], kept...), first))
		kept = commitOrKeep(s, group)
	}
	for _, j := range commitOrKeep(s, kept) {
		if j.number == 0 { // otherwise the next process finds it in the redo log
			s.answer(j, ErrClosed)
		}
	}
}

// commitOrKeep does jobs, together or, if that fails, one by one, and returns the queued
// entries that must be retried. Jobs after such an entry are kept too, or fail if a
// caller waits: the order is preserved, and no caller is answered as if the ledger were
// up to date. The number of kept entries is stored before any caller is answered.
func commitOrKeep(s *store, group []*job) (kept []*job) {
	if len(group) == 0 {
		return nil
	}
	err := s.persist(group)
	if err == nil {
		s.kept.Store(0)
		finish(s, group, nil)
		return nil
	}
	var full error            // why preceding entries are kept
	for i, j := range group { // one job may cause the failure: commit each on its own
		if len(group) > 1 {
			if err = full; err == nil {
				err = s.persist(group[i : i+1])
			}
		}
		if j.done == nil && retryable(err) {
			kept, full = append(kept, j), err
			s.kept.Store(int64(len(kept)))
			continue
		}
		if full == nil {
			s.kept.Store(0)
		}
		finish(s, group[i:i+1], err)
	}
	return kept
}

// finish answers the callers of jobs that are done or have failed.
func finish(s *store, group []*job, err error) {
	erase := err == nil && slices.ContainsFunc(group, func(j *job) bool { return j.erase })
	left := s.redo.Applied(lastNumber(group), erase)
	for _, j := range group {
		if err == nil && j.erase {
			s.answer(j, errors.Join(j.left, left))
		} else {
			s.answer(j, err) // a redo log that was not truncated is truncated after the next group
		}
	}
}

// gather adds waiting jobs to a group. As long as no caller waits for an answer it
// waits for more, up to linger, because a transaction costs much more than a row.
func (s *store) gather(group []*job) []*job {
	n := 0
	for _, j := range group {
		n += max(1, j.size)
	}
	hurry := group[len(group)-1].done != nil
	var late <-chan time.Time
	for n < maxGroup || n < maxQueued && !hurry && s.redo != nil {
		var j *job
		var ok bool
		select {
		case j, ok = <-s.jobs:
		default:
			if hurry {
				return group
			}
			if late == nil {
				late = time.After(linger)
			}
			select {
			case j, ok = <-s.jobs:
			case <-late:
				return group
			}
		}
		if !ok {
			return group
		}
		hurry = hurry || j.done != nil
		group = append(group, j)
		n += max(1, j.size)
	}
	return group
}

func (s *store) answer(j *job, err error) {
	if j.done == nil && j.entry != nil {
		s.recent.removeWaiting(j.entry)
	}
	if err == nil {
		err = j.ctx.Err() // the job was skipped, or its caller is gone
	}
	if err != nil {
		err = fmt.Errorf("ledger: write: %w", damaged(err))
	}
	switch {
	case j.done != nil:
		j.done <- err
	case err != nil:
		s.opt.OnLost(max(1, j.size), err)
	}
}

func putOwner(t *transaction, owner *memproxy.Ownership, at int64) {
	r := t.record(owner.Key())
	if !r.HasOwner() && owner.Kind == memproxy.TargetMemory && owner.Actor != "" && !owner.Deleted {
		t.counted[account{owner.Scope.Tenant, memproxy.Account(owner.Actor)}]++
	}
	r.setOwner(owner, max(1, at))
}

// record returns an object's record, locked against other transactions until this one
// ends. save writes changes of it.
func (t *transaction) record(k key) *recordRow {
	if r := t.records[k]; r != nil {
		return r
	}
	r := recordRow{key: k}
	if r.Record, r.listingKnown = t.store.filter.absent(k); !r.listingKnown {
		text := oneRecord
		if t.store.dialect == postgresDialect {
			text = lockRecord
		}
		if found, there := row(t, rowScanner(t.store), text, k); there {
			r = found
		}
		if r.blank() {
			for _, k := range rows(t, scanKey, lostQuery, k.Backend, string(k.Kind), asJSON([]string{k.ID})) {
				r.Status, r.rowRemoved = lostStatus(t.store, k), true
			}
		}
	}
	t.records[k] = &r
	return &r
}

// lock returns at most limit records that match a condition, locked as by record.
func (t *transaction) lock(limit int, where string, args ...any) (all []*recordRow) {
	t.save()
	where += fmt.Sprintf(` LIMIT ?%d`, len(args)+1)
	text := `SELECT ` + recordColumns + ` FROM record WHERE ` + where
	if t.store.dialect == postgresDialect {
		text += ` FOR UPDATE`
	}
	found := rows(t, rowScanner(t.store), text, append(args, limit)...)
	for i := range found {
		r := &found[i]
		if old, known := t.records[r.key]; known { // nil: changed, and not in memory
			r.touched = old == nil || old.touched
		}
		t.records[r.key] = r
		all = append(all, r)
	}
	return all
}

// save writes changed records. It runs before the transaction ends, and before a
// statement that selects several records.
func (t *transaction) save() {
	var changed [len(upserts)][]*recordRow
	for _, r := range t.records {
		if r == nil || r.edited {
			continue
		}
		if r.historyBegun && r.blank() { // gives the history a record: a history without one would count as removed
			_, st := t.status(r.key)
			t.putStatus(r, st, "")
		}
		r.rowRemoved = r.rowRemoved && !r.dirty
		if (r.blank() || r.rowRemoved) && r.stored {
			t.run(`DELETE FROM record`+ofKey, r.key)
			r.stored = false
		} else if !r.blank() && r.dirty {
			r.findings = findingsOf(&r.Status)
			t.store.filter.add(r.key)
			changed[count(r.decided)] = append(changed[count(r.decided)], r)
			r.stored = true
		}
		r.touched, r.dirty, r.decided = r.touched || r.dirty, false, false
	}
	var f fields // reused for each row, like args
	var args []any
	for decided, left := range changed {
		slices.SortFunc(left, func(a, b *recordRow) int {
			return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
		})
		for len(left) > 0 {
			n, text := 1, upserts[decided].one
			if t.store.dialect == postgresDialect && len(left) >= bulkRows {
				n, text = bulkRows, upserts[decided].bulk
			}
			args = args[:0]
			for _, r := range left[:n] {
				f = r.fields()
				args = f.append(args, t.store.opt.Vault)
			}
			t.run(text, args...)
			left = left[n:]
		}
	}
}
