package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

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

// prepareNew keeps the statements that a transaction ran for the second time as prepared
// statements for later transactions. This prepares them once more, which would be lost on
// what a start and rare jobs run once. Only the writer uses them, and their number is
// bounded by the statements in this package.
func (s *store) prepareNew(t *transaction) {
	for text := range t.ready {
		kept, ran := s.ready[text]
		s.ready[text] = kept
		if kept != nil || !ran {
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
		total += n
		if err != nil || n < step {
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

// scanner is a *sql.Row or *sql.Rows.
type scanner interface{ Scan(...any) error }

func scanOne[T any](s scanner) (v T, err error) {
	err = s.Scan(&v)
	return v, err
}

func scanKey(s scanner) (k key, err error) {
	err = s.Scan(&k.Backend, &k.Kind, &k.ID)
	return k, err
}

// sqlTime reads a time in the form of toMicros.
type sqlTime time.Time

func (w *sqlTime) Scan(column any) error {
	at, ok := column.(int64)
	if !ok {
		return fmt.Errorf("%T is not a time", column)
	}
	*w = sqlTime(fromMicros(at))
	return nil
}

// sqlFlag reads a positive number, such as a count or the time of a deletion, as true.
type sqlFlag bool

func (f *sqlFlag) Scan(column any) error {
	n, ok := column.(int64)
	if !ok {
		return fmt.Errorf("%T is not a number", column)
	}
	*f = n > 0
	return nil
}

// sqlJSON reads JSON that asJSON wrote.
type sqlJSON struct{ to any }

func (p sqlJSON) Scan(column any) error {
	switch text := column.(type) {
	case string:
		return json.Unmarshal([]byte(text), p.to)
	case []byte:
		return json.Unmarshal(text, p.to)
	}
	return fmt.Errorf("%T is not JSON", column)
}
