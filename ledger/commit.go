package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/memproxy/memproxy/ledger/circuit"
	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"
)

// maxTries is how often a transaction is tried that another proxy's undid.
const maxTries = 5

// persist commits a group, again where another proxy's transaction was in the
// way.
func (s *store) persist(group []*job) error {
	for try := 1; ; try++ {
		err := s.commit(group)
		if err == nil || try == maxTries || !transient(err) {
			return err
		}
	}
}

// commit does a group in one transaction. It is bounded by a deadline of its
// own, not by the callers' contexts: one caller's hurry must not undo the
// others.
func (s *store) commit(group []*job) (err error) {
	ctx, cancel := s.writing()
	defer cancel()
	restore, err := s.harden(ctx, group)
	if err != nil {
		return err
	}
	defer func() {
		if rerr := restore(); err == nil {
			err = rerr
		}
	}()
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	t := &transaction{store: s, ctx: ctx, tx: tx, records: map[key]*recordRow{}, fresh: map[string]*sql.Stmt{}, counted: map[account]int64{}, breached: map[string]bool{}}
	defer s.makeReady(t)
	defer func() { _ = tx.Rollback() }() // first of all; after a commit that succeeded it does nothing
	for _, j := range group {
		if j.ctx.Err() != nil || j.also == nil {
			continue
		}
		if err := j.also(t); t.err != nil || err != nil {
			return cmp.Or(t.err, err)
		}
	}
	t.save()
	t.putHeads()
	putNumber(t, group)
	if putCounts(t); t.err != nil {
		return t.err
	}
	s.recent.begin(t.records)
	if err := tx.Commit(); err != nil {
		s.recent.end(nil)
		return err
	}
	s.recent.end(t.records)
	s.seen.seal(t.sealed...)
	if len(t.steps) > 0 {
		s.opt.Told(t.steps)
	}
	if t.broken {
		s.opt.Broken()
	}
	if t.noticed {
		s.opt.Noticed()
	}
	return nil
}

// putNumber notes which entries of the redo log need not be applied again.
func putNumber(t *transaction, group []*job) {
	var last uint64
	for _, j := range group {
		last = max(last, j.number)
	}
	if last > 0 {
		t.run(`UPDATE redo SET applied = ?1 WHERE applied < ?1`, int64(last))
	}
}

// writing is the context of one transaction. SQLite's is bounded by the busy
// timeout and needs none, which saves a goroutine a statement.
func (s *store) writing() (context.Context, context.CancelFunc) {
	if s.dialect == sqliteDialect {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), s.opt.Timeout)
}

// harden makes the next transaction of SQLite wait for the disk, or overwrite
// what it removes, where a job of the group needs it. Both are settings of
// the connection, and the writer has one.
func (s *store) harden(ctx context.Context, group []*job) (restore func() error, err error) {
	if s.dialect != sqliteDialect {
		return func() error { return nil }, nil
	}
	erase := slices.ContainsFunc(group, func(j *job) bool { return j.erase })
	durable := !s.opt.Durable && (erase || slices.ContainsFunc(group, func(j *job) bool { return j.durable }))
	var before, after []string
	if durable {
		before, after = append(before, "synchronous=FULL"), append(after, "synchronous=NORMAL")
	}
	if erase {
		// The log keeps old pages until it is taken over. Readers may keep it from
		// being cut now; then the next one does it.
		before, after = append(before, "secure_delete=ON"), append(after, "secure_delete=FAST", "wal_checkpoint(TRUNCATE)")
	}
	set := func(pragmas []string) error {
		for _, pragma := range pragmas {
			if _, err := s.writer.ExecContext(ctx, "PRAGMA "+pragma); err != nil {
				return err
			}
		}
		return nil
	}
	return func() error { return set(after) }, set(before)
}

// makeReady prepares the statements that a transaction ran for the first time,
// for the next one: the writer alone uses them. There are as many as there are
// statements in this package. Postgres's driver does the same by itself.
func (s *store) makeReady(t *transaction) {
	for text := range t.fresh {
		if stmt, err := s.writer.PrepareContext(t.ctx, s.dialect.sql(text)); err == nil {
			s.ready[text] = stmt
		}
	}
}

// stmt is the prepared statement of a text, if there is one by now.
func (t *transaction) stmt(text string) (*sql.Stmt, bool) {
	if t.store.dialect != sqliteDialect {
		return nil, false
	}
	stmt, ready := t.store.ready[text]
	if !ready {
		fresh, again := t.fresh[text]
		if again && fresh == nil {
			fresh, _ = t.tx.PrepareContext(t.ctx, t.store.dialect.sql(text)) // or it is executed as a text
		}
		t.fresh[text] = fresh
		return fresh, fresh != nil
	}
	return t.tx.StmtContext(t.ctx, stmt), true
}

// run executes a statement, and returns how many rows it changed.
func (t *transaction) run(text string, args ...any) (n int64) {
	if t.err != nil {
		return 0
	}
	var res sql.Result
	if stmt, ready := t.stmt(text); ready {
		res, t.err = stmt.ExecContext(t.ctx, args...)
	} else {
		res, t.err = t.tx.ExecContext(t.ctx, t.store.dialect.sql(text), args...)
	}
	if t.err == nil {
		n, t.err = res.RowsAffected()
	}
	return n
}

// one scans the row of a query for one into to, if there is one.
func (t *transaction) one(text string, args []any, to ...any) bool {
	found := rows(t, func(s scanner) (struct{}, error) { return struct{}{}, s.Scan(to...) }, text, args...)
	return len(found) > 0
}

// rows collects rows in a transaction.
func rows[T any](t *transaction, scan func(scanner) (T, error), text string, args ...any) (all []T) {
	if t.err != nil {
		return nil
	}
	var found *sql.Rows
	if stmt, ready := t.stmt(text); ready {
		found, t.err = stmt.QueryContext(t.ctx, args...)
	} else {
		found, t.err = t.tx.QueryContext(t.ctx, t.store.dialect.sql(text), args...)
	}
	if t.err == nil {
		all, t.err = drain(found, scan)
	}
	return all
}

// row is the row of a query for one, if there is one.
func row[T any](t *transaction, scan func(scanner) (T, error), text string, args ...any) (found T, there bool) {
	found, there, _ = first(rows(t, scan, text, args...), nil)
	return found, there
}

// look collects rows outside of any transaction.
func look[T any](ctx context.Context, s *store, call string, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	return glance(ctx, s, call, scan, text, args...)
}

// glance is look where what is on its way is none of the rows. Nothing is found by a
// text that no row can have, and which Postgres refuses.
func glance[T any](ctx context.Context, s *store, call string, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.Timeout)
	defer cancel()
	if slices.ContainsFunc(args, func(arg any) bool {
		text, is := arg.(string)
		return is && len(text) <= maxText && storable(text) != nil
	}) {
		return nil, ctx.Err()
	}
	found, err := s.query(ctx, text, args...)
	if err != nil {
		return nil, s.wrap(call, err)
	}
	all, err := drain(found, scan)
	if err != nil {
		return nil, s.wrap(call, err)
	}
	return all, nil
}

// query asks with a statement that is prepared once for each text, of which there are
// few: SQLite takes longer to parse one than to answer it. Postgres's driver does the
// same by itself.
func (s *store) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if s.dialect != sqliteDialect {
		return s.reader.QueryContext(ctx, s.dialect.sql(text), args...)
	}
	kept, known := s.queries.Load(text)
	if !known {
		stmt, err := s.reader.PrepareContext(ctx, s.dialect.sql(text))
		if err != nil {
			return nil, err
		}
		if kept, known = s.queries.LoadOrStore(text, stmt); known {
			_ = stmt.Close()
		}
	}
	return kept.(*sql.Stmt).QueryContext(ctx, args...)
}

func drain[T any](found *sql.Rows, scan func(scanner) (T, error)) ([]T, error) {
	defer found.Close()
	var all []T
	for found.Next() {
		v, err := scan(found)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, found.Err()
}

// first is the row of a query for one, if there is one.
func first[T any](found []T, err error) (row T, there bool, _ error) {
	if err != nil || len(found) == 0 {
		return row, false, err
	}
	return found[0], true, nil
}

// only is first where none is ErrUnknown, with what is missing.
func only[T any](found []T, err error, what string) (T, error) {
	row, there, err := first(found, err)
	if err == nil && !there {
		err = fmt.Errorf("%w: %s", ErrUnknown, what)
	}
	return row, err
}

// change does f in a transaction that is on the disk when it returns. F may
// run twice, and may still run when a dead context makes change return.
func (s *store) change(ctx context.Context, f func(*transaction) error) error {
	return s.do(ctx, &job{durable: true, also: f})
}

// exec executes one statement as change does.
func (s *store) exec(ctx context.Context, text string, args ...any) error {
	return s.change(ctx, func(t *transaction) error { t.run(text, args...); return nil })
}

// changed is change with a result.
func changed[T any](ctx context.Context, s *store, f func(*transaction) (T, error)) (T, error) {
	return result(ctx, s, job{durable: true}, f)
}

// result does a job that has a result, which is zero with an error: f may still
// be writing to its own then.
func result[T any](ctx context.Context, s *store, j job, f func(*transaction) (T, error)) (T, error) {
	var out, none T
	j.also = func(t *transaction) (err error) {
		out, err = f(t)
		return err
	}
	if err := s.do(ctx, &j); err != nil {
		return none, err
	}
	return out, nil
}

// countEach does f for all in one transaction and returns how often f reports
// that it changed something. The caller may use the slice again.
func countEach[T any](ctx context.Context, s *store, all []T, f func(*transaction, *T) bool) (int, error) {
	own := slices.Clone(all)
	return result(ctx, s, job{}, func(t *transaction) (n int, _ error) {
		for i := range own {
			n += int(count(f(t, &own[i])))
		}
		return n, nil
	})
}

// inSteps repeats what does at most a step in one transaction until there is less
// to do, and returns how much it did, also along with an error.
func inSteps(ctx context.Context, s *store, j job, step int, f func(*transaction) (int, error)) (int, error) {
	for total := 0; ; {
		n, err := result(ctx, s, j, f)
		if total += n; err != nil || n < step {
			return total, err
		}
	}
}

// refused is an error that is about the call, not about the store.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRow}, args...)...)
}

// damaged adds ErrDamaged and what to do to the errors with which SQLite says
// that a file is broken.
func damaged(err error) error {
	var se *sqlite.Error
	if !errors.As(err, &se) || errors.Is(err, ErrDamaged) {
		return err
	}
	switch se.Code() & 0xff {
	case sqlitelib.SQLITE_CORRUPT, sqlitelib.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w; %s", ErrDamaged, err, advice)
	}
	return err
}

// canWait reports whether an error is the store's (no room on its disk, a lock, no answer),
// and not of what was to be written: the same entry can be written later.
func canWait(err error) bool {
	var se *sqlite.Error
	var pe *pgconn.PgError
	var ne net.Error
	switch {
	case errors.As(err, &se):
		switch se.Code() & 0xff {
		case sqlitelib.SQLITE_FULL, sqlitelib.SQLITE_IOERR, sqlitelib.SQLITE_READONLY, sqlitelib.SQLITE_CANTOPEN, sqlitelib.SQLITE_NOMEM, sqlitelib.SQLITE_BUSY, sqlitelib.SQLITE_LOCKED:
			return true
		}
		return false
	case errors.As(err, &pe): // it is out of something, stops, breaks or is read-only
		return slices.Contains([]string{"53", "57", "58", "08", "40", "25"}, pe.Code[:min(2, len(pe.Code))])
	}
	return errors.Is(err, circuit.ErrAway) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &ne) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, net.ErrClosed)
}
