package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
)

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
	t.save()
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

// prepareNew keeps the statements that a transaction ran for the second time as prepared
// statements for later transactions. This prepares them once more, which would be lost on
// what a start and rare jobs run once. Only the writer uses them, and their number is
// bounded by the statements in this package.
func (s *store) prepareNew(t *transaction) {
	for text := range t.ready {
		kept, ran := s.ready[text]
		if s.ready[text] = kept; kept != nil || !ran {
			continue
		}
		if stmt, err := s.writer.PrepareContext(t.ctx, s.dialect.sql(text)); err == nil {
			s.ready[text] = stmt
		}
	}
}

// stmt returns the prepared statement for a text, or nil for Postgres, whose driver
// prepares statements by itself.
func (t *transaction) stmt(text string) *sql.Stmt {
	if t.err != nil || t.store.dialect != sqliteDialect {
		return nil
	}
	stmt := t.ready[text]
	if stmt == nil {
		if kept := t.store.ready[text]; kept != nil {
			stmt = t.tx.StmtContext(t.ctx, kept)
		} else {
			stmt, t.err = t.tx.PrepareContext(t.ctx, t.store.dialect.sql(text))
		}
		t.ready[text] = stmt
	}
	return stmt
}

// ofKey is the condition that selects a key, which is passed as one argument.
const ofKey = ` WHERE backend = ? AND kind = ? AND id = ?`

// columns replaces a key among the arguments of a statement by its three columns.
func columns(args []any) []any {
	for i, arg := range args {
		if k, is := arg.(key); is {
			return slices.Replace(slices.Clone(args), i, i+1, any(k.Backend), any(string(k.Kind)), any(k.ID))
		}
	}
	return args
}

// run executes a statement, and returns how many rows it changed.
func (t *transaction) run(text string, args ...any) (n int64) {
	stmt := t.stmt(text)
	if t.err != nil {
		return 0
	}
	var res sql.Result
	if stmt != nil {
		res, t.err = stmt.ExecContext(t.ctx, columns(args)...)
	} else {
		res, t.err = t.tx.ExecContext(t.ctx, t.store.dialect.sql(text), columns(args)...)
	}
	if t.err == nil {
		n, t.err = res.RowsAffected()
	}
	return n
}

// one scans the only row of a query into to and reports whether there is one.
func (t *transaction) one(text string, args []any, to ...any) bool {
	found := rows(t, func(s scanner) (struct{}, error) { return struct{}{}, s.Scan(to...) }, text, args...)
	return len(found) > 0
}

func rows[T any](t *transaction, scan func(scanner) (T, error), text string, args ...any) (all []T) {
	stmt := t.stmt(text)
	if t.err != nil {
		return nil
	}
	var found *sql.Rows
	if stmt != nil {
		found, t.err = stmt.QueryContext(t.ctx, columns(args)...)
	} else {
		found, t.err = t.tx.QueryContext(t.ctx, t.store.dialect.sql(text), columns(args)...)
	}
	if t.err == nil {
		all, t.err = collect(found, scan)
	}
	return all
}

// row returns the first row of a query in the transaction, if there is one.
func row[T any](t *transaction, scan func(scanner) (T, error), text string, args ...any) (found T, there bool) {
	found, there, _ = first(rows(t, scan, text, args...), nil)
	return found, there
}

// querySettled is queryRows after a flush, so that it sees all queued entries.
func querySettled[T any](ctx context.Context, s *store, call string, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	if err := s.flush(ctx); err != nil {
		return nil, err
	}
	return queryRows(ctx, s, call, scan, text, args...)
}

// queryRows returns rows that are committed, outside of any transaction and without queued
// entries. A text that no row can contain and that Postgres refuses matches nothing.
func queryRows[T any](ctx context.Context, s *store, call string, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.Timeout)
	defer cancel()
	args = columns(args)
	if s.dialect == postgresDialect && slices.ContainsFunc(args, func(arg any) bool {
		text, is := arg.(string)
		return is && len(text) <= maxText && storable(text) != nil
	}) {
		return nil, ctx.Err()
	}
	all, err := fetch(ctx, s, scan, text, args...)
	if err != nil {
		return nil, s.wrap(call, err)
	}
	return all, nil
}

func fetch[T any](ctx context.Context, s *store, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	found, err := s.query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	return collect(found, scan)
}

// query keeps a prepared statement for each of the few texts: SQLite takes longer to
// parse a statement than to execute it. Postgres's driver does the same by itself.
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

func collect[T any](found *sql.Rows, scan func(scanner) (T, error)) ([]T, error) {
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

// first returns the first of the found rows, if there is one.
func first[T any](found []T, err error) (row T, there bool, _ error) {
	if err != nil || len(found) == 0 {
		return row, false, err
	}
	return found[0], true, nil
}

// oneOrUnknown is first, with the error ErrUnknown if there is no row.
func oneOrUnknown[T any](found []T, err error, what string) (T, error) {
	row, there, err := first(found, err)
	if err == nil && !there {
		err = fmt.Errorf("%w: %s", ErrUnknown, what)
	}
	return row, err
}

// change runs f in a transaction that is on disk when change returns. If bad is set, it
// is returned and nothing is done. f may run twice, and may still be running when
// change returns because its context ended.
func (s *store) change(ctx context.Context, bad error, f func(*transaction)) error {
	return s.do(ctx, &job{bad: bad, durable: true, run: f})
}

// exec is change with one statement.
func (s *store) exec(ctx context.Context, text string, args ...any) error {
	return s.change(ctx, nil, func(t *transaction) { t.run(text, args...) })
}

// changeResult is change with a result.
func changeResult[T any](ctx context.Context, s *store, bad error, f func(*transaction) T) (T, error) {
	return doResult(ctx, s, job{bad: bad, durable: true}, f)
}

// doResult does a job that has a result. With an error the result is zero, because f may
// still be writing to its own.
func doResult[T any](ctx context.Context, s *store, j job, f func(*transaction) T) (T, error) {
	var out, none T
	j.run = func(t *transaction) { out = f(t) }
	if err := s.do(ctx, &j); err != nil {
		return none, err
	}
	return out, nil
}

// countEach runs f for all elements in one transaction if all pass the check, and
// returns the number of calls that reported a change. The caller may reuse the slice.
func countEach[T any](ctx context.Context, s *store, all []T, check func(*T) error, f func(*transaction, *T) bool) (int, error) {
	own := slices.Clone(all)
	if len(own) == 0 {
		return 0, ctx.Err()
	}
	return doResult(ctx, s, job{bad: valid(own, check)}, func(t *transaction) (n int) {
		for i := range own {
			n += int(count(f(t, &own[i])))
		}
		return n
	})
}

// inSteps repeats f, which handles at most step rows in one transaction, until fewer
// than that are left. It returns how many rows were handled, also along with an error.
func inSteps(ctx context.Context, s *store, j job, step int, f func(*transaction) int) (int, error) {
	for total := 0; ; {
		n, err := doResult(ctx, s, j, f)
		if total += n; err != nil || n < step {
			return total, err
		}
	}
}

// invalidArgument returns an error about the arguments of a call, as opposed to one of the store.
func invalidArgument(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRow}, args...)...)
}

// require returns an error about the arguments of a call if a requirement is not met.
func require(met bool, format string, args ...any) error {
	if met {
		return nil
	}
	return invalidArgument(format, args...)
}
