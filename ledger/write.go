package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
)

// maxGroup is how many rows share one transaction. More would make the first
// of them wait; the gain is flat from about a hundred on.
const maxGroup = 512

// job is one write on its way to the writer.
type job struct {
	ctx  context.Context // a job whose caller gave up before its turn is not done
	rows []memproxy.Ownership
	// also is done in the same transaction, after rows; nil: nothing. What it
	// removed it adds to gone.
	also func(*transaction) error
	done chan error // nil: nobody waits
}

// transaction is the writer's, with what it changed.
type transaction struct {
	l    *Ledger
	tx   *sql.Tx
	put  []memproxy.Ownership
	gone []key
}

func (t *transaction) exec(s *sql.Stmt, args ...any) (int64, error) {
	res, err := t.tx.Stmt(s).Exec(args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Put inserts or replaces rows by (Backend, Kind, ID), in one transaction that
// it may share with other callers, and returns when they are committed. A row
// without backend, kind or id, or with a string that is longer than 1,024
// bytes, has a NUL or is not UTF-8, is ErrRow and nothing is written. The
// error of a context leaves open whether the rows were written. Times are kept
// to the microsecond.
func (l *Ledger) Put(ctx context.Context, rows ...memproxy.Ownership) error {
	if len(rows) == 0 {
		return ctx.Err()
	}
	own, err := take(rows)
	if err != nil {
		return err
	}
	return l.do(ctx, &job{rows: own})
}

// Note queues rows like Put without waiting for them. They are found once they
// are committed; Sync waits for that. ErrFull when too many are waiting.
func (l *Ledger) Note(rows ...memproxy.Ownership) error {
	own, err := take(rows)
	if err != nil || len(own) == 0 {
		return err
	}
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.closed {
		return ErrClosed
	}
	select {
	case l.jobs <- &job{ctx: context.Background(), rows: own}:
		return nil
	default:
		return ErrFull
	}
}

// Sync returns when everything that was noted before is committed or lost.
func (l *Ledger) Sync(ctx context.Context) error { return l.do(ctx, &job{}) }

// take checks rows and copies them: the caller may reuse its slice.
func take(rows []memproxy.Ownership) ([]memproxy.Ownership, error) {
	own := slices.Clone(rows)
	for i := range own {
		if err := validate(&own[i]); err != nil {
			return nil, err
		}
		own[i] = stored(own[i])
	}
	return own, nil
}

// do hands a job to the writer and waits for it.
func (l *Ledger) do(ctx context.Context, j *job) error {
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	if err := ctx.Err(); err != nil { // a dead context must not be let in by chance
		return fmt.Errorf("ledger: write: %w", err)
	}
	j.ctx, j.done = ctx, make(chan error, 1)
	if err := l.send(ctx, j); err != nil {
		return err
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("ledger: write: %w", ctx.Err())
	}
}

func (l *Ledger) send(ctx context.Context, j *job) error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.closed {
		return ErrClosed
	}
	select {
	case l.jobs <- j:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("ledger: wait to write: %w", ctx.Err())
	}
}

// write is the one writer. While it commits, others queue; the next
// transaction takes all of them.
func (l *Ledger) write() {
	defer close(l.stopped)
	group := make([]*job, 0, 64)
	for first := range l.jobs {
		group = l.gather(append(group[:0], first))
		err := l.commit(group)
		if err != nil && len(group) > 1 {
			// One of them may be to blame: let each stand for itself.
			for _, j := range group {
				l.answer(j, l.commit([]*job{j}))
			}
			continue
		}
		for _, j := range group {
			l.answer(j, err)
		}
	}
}

func (l *Ledger) gather(group []*job) []*job {
	for n := len(group[0].rows); n < maxGroup; {
		select {
		case j, ok := <-l.jobs:
			if !ok {
				return group
			}
			group = append(group, j)
			n += max(1, len(j.rows))
		default:
			return group
		}
	}
	return group
}

func (l *Ledger) answer(j *job, err error) {
	if err == nil {
		err = j.ctx.Err() // not done, or done for nobody
	}
	if err != nil {
		err = fmt.Errorf("ledger: write: %w", damaged(err))
	}
	switch {
	case j.done != nil:
		j.done <- err
	case err != nil:
		l.opt.Lost(len(j.rows), err)
	}
}

// commit does a group in one transaction. It is bounded by the busy timeout,
// not by the callers' contexts: one caller's hurry must not undo the others.
func (l *Ledger) commit(group []*job) (err error) {
	tx, err := l.writer.Begin()
	if err != nil {
		return err
	}
	t := &transaction{l: l, tx: tx}
	for _, j := range group {
		if j.ctx.Err() != nil {
			continue
		}
		if err := t.apply(j); err != nil {
			_ = tx.Rollback() // the first error is the one to report
			return err
		}
	}
	l.hot.begin(t.put, t.gone)
	if err := tx.Commit(); err != nil {
		l.hot.end(nil)
		_ = tx.Rollback() // a commit that failed may have left it open
		return err
	}
	l.hot.end(t.put)
	return nil
}

func (t *transaction) apply(j *job) error {
	now := t.l.opt.Clock()
	for i := range j.rows {
		row := &j.rows[i]
		args := arguments(row, now)
		n, err := t.exec(t.l.insert, args...)
		if err != nil {
			return err
		}
		if n == 0 {
			if _, err := t.exec(t.l.update, args...); err != nil {
				return err
			}
		} else if row.Kind == memproxy.TargetMemory && row.Actor != "" && !row.Deleted {
			if _, err := t.exec(t.l.count, row.Scope.Tenant, row.Actor); err != nil {
				return err
			}
		}
		t.put = append(t.put, *row)
	}
	if j.also == nil {
		return nil
	}
	return j.also(t)
}
