package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
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
	s.closing.RLock()
	defer s.closing.RUnlock()
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

const maxTries = 5 // how often a transaction that conflicts with that of another proxy is tried

// persist commits a group. It retries after a conflict with the transaction of another
// proxy.
func (s *store) persist(group []*job) error {
	for try := 1; ; try++ {
		err := s.commit(group)
		if err == nil || try == maxTries || !transient(err) {
			return err
		}
	}
}

// commit runs the jobs of a group in one transaction. The transaction has its own
// deadline instead of the callers', because one caller's short deadline must not undo
// the jobs of the others.
func (s *store) commit(group []*job) error {
	if s.file != nil { // a removed file stays open, and what is written to it is lost
		if now, err := os.Stat(s.opt.Path); err != nil || !os.SameFile(s.file, now) {
			return errors.Join(errMoved, err)
		}
	}
	ctx, cancel := s.writing()
	defer cancel()
	restore, err := s.setDurability(ctx, group)
	defer func() { // if it fails, what was committed is committed: no job runs again
		left := restore()
		for _, j := range group {
			j.left = left
		}
	}()
	if err != nil {
		return err
	}
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	t := &transaction{
		store: s, ctx: ctx, tx: tx, records: make(map[key]*recordRow, len(group)), heads: map[string]*head{},
		ready: map[string]*sql.Stmt{}, counted: map[account]int64{}, breached: map[string]bool{},
	}
	defer s.prepareNew(t)
	defer func() { _ = tx.Rollback() }() // runs before the other deferred calls, and does nothing after a successful commit
	lockChains(t, group)
	for _, j := range group {
		if j.ctx.Err() != nil || j.run == nil {
			continue
		}
		j.run(t)
		if t.err != nil {
			return t.err
		}
	}
	t.saveRecords()
	t.putHeads()
	if last := lastNumber(group); last > 0 {
		t.run(`UPDATE redo SET applied = ?1 WHERE applied < ?1`, int64(last))
	}
	if putCounts(t); t.err != nil {
		return t.err
	}
	s.recent.begin(t.records)
	if err := tx.Commit(); err != nil {
		s.recent.end(nil)
		return err
	}
	s.recent.end(t.records)
	s.filter.seal(t.sealed...)
	if len(t.steps) > 0 {
		s.opt.OnSteps(t.steps)
	}
	if t.broken {
		s.opt.OnBroken()
	}
	if t.noticed {
		s.opt.OnNotice()
	}
	return nil
}

// lockChains locks the chains that a group extends, before any record: proxies that locked
// what they share in different orders would wait for each other until Postgres ends one
// of the transactions, after a second.
func lockChains(t *transaction, group []*job) {
	var tenants []string
	for _, j := range group {
		if j.entry != nil && t.store.dialect == postgresDialect {
			for _, v := range slices.Concat(j.entry.Found, j.entry.Versions) {
				tenants = append(tenants, v.Tenant)
			}
		}
	}
	slices.Sort(tenants)
	for _, tenant := range slices.Compact(tenants) {
		t.head(tenant)
	}
}

// lastNumber returns the number of a group's last entry in the redo log, or 0.
func lastNumber(group []*job) (last uint64) {
	for _, j := range group {
		last = max(last, j.number)
	}
	return last
}

// writing returns the context of one transaction. SQLite's needs no deadline, because
// the busy timeout bounds it; this saves a goroutine for each statement.
func (s *store) writing() (context.Context, context.CancelFunc) {
	if s.dialect == sqliteDialect {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), s.opt.Timeout)
}

// setDurability makes SQLite's next transaction wait for the disk, or overwrite what it
// removes, if a job of the group needs that. Both are settings of the writer's only
// connection. restore resets them.
func (s *store) setDurability(ctx context.Context, group []*job) (restore func() error, err error) {
	set := func(pragmas ...string) error {
		for _, pragma := range pragmas {
			if _, err := s.writer.ExecContext(ctx, "PRAGMA "+pragma); err != nil {
				return err
			}
		}
		return nil
	}
	switch {
	case s.dialect != sqliteDialect:
	case slices.ContainsFunc(group, func(j *job) bool { return j.erase }):
		// The WAL keeps old pages until a checkpoint truncates it. Readers may prevent the
		// truncation now; then the next group does it.
		restore = func() error { return set("synchronous=NORMAL", "secure_delete=FAST", "wal_checkpoint(TRUNCATE)") }
		return restore, set("synchronous=FULL", "secure_delete=ON")
	case slices.ContainsFunc(group, func(j *job) bool { return j.durable }):
		return func() error { return set("synchronous=NORMAL") }, set("synchronous=FULL")
	}
	return func() error { return nil }, nil
}
