package ledger

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger/circuit"
)

// maxText is the longest string of a row, in bytes. Backends' ids are UUIDs or
// short slugs; a longer one is somebody trying something.
const maxText = 1024

const (
	columns = `backend, kind, id, tenant, "user", agent, app, run, actor, trust, confidence, source, decision, sha256, written, deleted`

	insertRow = `INSERT INTO ownership (` + columns + `) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`

	// A tombstone keeps the time of the first deletion.
	updateRow = `UPDATE ownership SET tenant=?4, "user"=?5, agent=?6, app=?7, run=?8, actor=?9, trust=?10, confidence=?11,
		source=?12, decision=?13, sha256=?14, written=?15,
		deleted = CASE WHEN CAST(?16 AS BIGINT) > 0 AND deleted > 0 THEN deleted ELSE CAST(?16 AS BIGINT) END
		WHERE backend=?1 AND kind=?2 AND id=?3`
)

type key = memproxy.MemoryKey

func keyOf(row *memproxy.Ownership) key {
	return key{Backend: row.Backend, Kind: row.Kind, ID: row.ID}
}

// scanner is a *sql.Row or *sql.Rows.
type scanner interface{ Scan(...any) error }

// scanOne reads rows of one column.
func scanOne[T any](s scanner) (v T, err error) {
	err = s.Scan(&v)
	return v, err
}

func scanKey(s scanner) (k key, err error) {
	err = s.Scan(&k.Backend, &k.Kind, &k.ID)
	return k, err
}

// when reads a time that was written by micros.
type when time.Time

func (w *when) Scan(column any) error {
	at, ok := column.(int64)
	if !ok {
		return fmt.Errorf("%T is no time", column)
	}
	*w = when(moment(at))
	return nil
}

// flag reads a number that is over zero, such as count's or the time of a deletion.
type flag bool

func (f *flag) Scan(column any) error {
	n, ok := column.(int64)
	if !ok {
		return fmt.Errorf("%T is no number", column)
	}
	*f = n > 0
	return nil
}

// parsed reads what was written by asJSON.
type parsed struct{ to any }

func (p parsed) Scan(column any) error {
	switch text := column.(type) {
	case string:
		return json.Unmarshal([]byte(text), p.to)
	case []byte:
		return json.Unmarshal(text, p.to)
	}
	return fmt.Errorf("%T is no JSON", column)
}

func scan(s scanner) (row memproxy.Ownership, err error) {
	err = s.Scan(&row.Backend, &row.Kind, &row.ID,
		&row.Scope.Tenant, &row.Scope.User, &row.Scope.Agent, &row.Scope.App, &row.Scope.Run,
		&row.Actor, &row.Trust, &row.Confidence, &row.Source, &row.Decision, &row.SHA256, (*when)(&row.Written), (*flag)(&row.Deleted))
	return row, err
}

func arguments(row *memproxy.Ownership, now time.Time) []any {
	var deleted int64
	if row.Deleted {
		deleted = max(1, micros(now))
	}
	return []any{row.Backend, string(row.Kind), row.ID,
		row.Scope.Tenant, row.Scope.User, row.Scope.Agent, row.Scope.App, row.Scope.Run,
		row.Actor, string(row.Trust), int64(row.Confidence), string(row.Source), row.Decision, row.SHA256,
		micros(row.Written), deleted}
}

// stored is the row as it will be read back.
func stored(row memproxy.Ownership) memproxy.Ownership {
	if !row.Written.IsZero() {
		row.Written = row.Written.UTC().Truncate(time.Microsecond)
	}
	return row
}

// storable says why a string cannot be part of a row. NUL and broken UTF-8
// are refused because stores differ in what they make of them, and two ids
// that are one in the store would be one owner for two memories.
func storable(s string) error {
	switch {
	case len(s) > maxText:
		return fmt.Errorf("longer than %d bytes", maxText)
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("has a NUL")
	case !utf8.ValidString(s):
		return errors.New("is not UTF-8")
	}
	return nil
}

// storableParts is an error that names what a string belongs to that is not storable.
func storableParts(of string, parts ...string) error {
	for _, s := range parts {
		if err := storable(s); err != nil {
			return refused("a part of the %s %v", of, err)
		}
	}
	return nil
}

func validate(row *memproxy.Ownership) error {
	for _, f := range [...]struct{ name, value string }{
		{"backend", row.Backend}, {"kind", string(row.Kind)}, {"id", row.ID},
		{"tenant", row.Scope.Tenant}, {"user", row.Scope.User}, {"agent", row.Scope.Agent}, {"app", row.Scope.App}, {"run", row.Scope.Run},
		{"actor", row.Actor}, {"trust", string(row.Trust)}, {"source", string(row.Source)},
		{"decision", row.Decision}, {"sha256", row.SHA256},
	} {
		if err := storable(f.value); err != nil {
			return fmt.Errorf("%w: %s %v", ErrRow, f.name, err)
		}
	}
	if row.Backend == "" || row.Kind == "" || row.ID == "" {
		return fmt.Errorf("%w: backend, kind and id are required", ErrRow)
	}
	return nil
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

// Bind inserts rows of which there is none by (Backend, Kind, ID), and returns
// for each the one that then stands, tombstones too. They are in the file when
// it returns. Of proxies and callers that bind one id at once, one is the first,
// and all are told the same.
func (l *Ledger) Bind(ctx context.Context, bound ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	return bindRows(ctx, l.store, bound, func(*transaction, *memproxy.Ownership) (bool, error) { return false, nil })
}

// Assign is Bind for owners' names that an operator lists: a name that another
// tenant has, or nobody, comes to be the row's tenant's, unless there are memories
// under it that are another tenant's. What was deleted is not there.
func (l *Ledger) Assign(ctx context.Context, listed ...memproxy.Ownership) ([]memproxy.Ownership, error) {
	return bindRows(ctx, l.store, listed, func(t *transaction, row *memproxy.Ownership) (bool, error) {
		dim, name, _ := strings.Cut(row.ID, ":")
		var n int64
		carried, err := t.one(`SELECT 1 FROM ownership WHERE backend = ?1 AND kind = 'memory' AND deleted = 0 AND tenant <> ?2
			AND CASE ?3 WHEN 'user' THEN "user" WHEN 'agent' THEN agent WHEN 'app' THEN app WHEN 'run' THEN run ELSE ?4 END = ?4 LIMIT 1`,
			[]any{row.Backend, row.Scope.Tenant, dim, name}, &n)
		return err == nil && !carried, err
	})
}

// bindRows inserts rows. One of which there is another tenant's takes its place
// where free says so.
func bindRows(ctx context.Context, s *store, bound []memproxy.Ownership, free func(*transaction, *memproxy.Ownership) (bool, error)) ([]memproxy.Ownership, error) {
	own, err := take(bound)
	if err != nil || len(own) == 0 {
		return nil, err
	}
	return changed(ctx, s, func(t *transaction) ([]memproxy.Ownership, error) {
		bound := make([]memproxy.Ownership, 0, len(own))
		for i := range own {
			row := &own[i]
			args := arguments(row, t.store.opt.Clock())
			n, err := t.run(insertRow, args...)
			if err != nil {
				return nil, err
			}
			if n == 0 {
				there, err := rows(t, scan, `SELECT `+columns+` FROM ownership WHERE backend = ? AND kind = ? AND id = ?`, row.Backend, string(row.Kind), row.ID)
				if err != nil {
					return nil, err
				}
				taken := false
				if len(there) == 1 && there[0].Scope.Tenant != row.Scope.Tenant {
					if taken, err = free(t, row); err != nil {
						return nil, err
					}
				}
				if !taken {
					bound = append(bound, there...)
					continue
				}
				if _, err := t.run(updateRow, args...); err != nil {
					return nil, err
				}
			}
			t.changes.own(*row)
			bound = append(bound, *row)
		}
		return bound, nil
	})
}

// DeleteScope leaves tombstones for the memories of a backend within a scope, of
// whatever tenant, and returns whose they were, by author, also along with an
// error. An empty field of the scope matches everything; a scope without any owner
// is refused with ErrRow, because it would match every memory there is.
//
// Histories that are in the scope and do not end yet get a version like v, which
// says who deleted them and by which decision; none where it has no operation.
func (l *Ledger) DeleteScope(ctx context.Context, backend string, scope memproxy.Scope, v memproxy.Version) ([]memproxy.Tally, error) {
	args := []any{max(1, micros(l.opt.Clock())), backend, scope.User, scope.Agent, scope.App, scope.Run}
	if err := storableParts("scope", backend, scope.User, scope.Agent, scope.App, scope.Run); err != nil {
		return nil, err
	}
	if backend == "" || !scope.Owned() {
		return nil, refused("a backend and an owner are required")
	}
	tallies, err := result(ctx, l.store, job{}, func(t *transaction) ([]memproxy.Tally, error) {
		gone, by, err := sweepScope(t, args)
		t.changes.reread(gone...)
		return by, err
	})
	if err != nil || v.Op == "" {
		return tallies, err
	}
	return tallies, endHistories(ctx, l.store, backend, scope, v)
}

func sweepScope(t *transaction, args []any) (gone []key, by []memproxy.Tally, err error) {
	type swept struct {
		key
		by memproxy.Tally
	}
	found, err := rows(t, func(s scanner) (row swept, err error) {
		row.Kind = memproxy.TargetMemory
		err = s.Scan(&row.Backend, &row.ID, &row.by.Tenant, &row.by.Actor, &row.by.Trust, &row.by.User)
		return row, err
	}, `UPDATE ownership SET deleted = ?1
		WHERE backend = ?2 AND kind = 'memory' AND deleted = 0
		AND ?3 IN ('', "user") AND ?4 IN ('', agent) AND ?5 IN ('', app) AND ?6 IN ('', run)
		RETURNING backend, id, tenant, actor, trust, "user"`, args...)
	at := map[memproxy.Tally]int{}
	for _, row := range found {
		who := row.by
		gone = append(gone, row.key)
		if who.Actor == "" {
			continue
		}
		i, seen := at[who]
		if !seen {
			i = len(by)
			at[who] = i
			by = append(by, who)
		}
		by[i].Memories++
	}
	return gone, by, err
}

// endHistories appends a version like v to each memory within a scope that is
// deleted and whose history does not end yet.
func endHistories(ctx context.Context, s *store, backend string, scope memproxy.Scope, v memproxy.Version) error {
	if s.opt.Vault == nil {
		return ErrNoVault
	}
	after := ""
	for {
		ids, err := look(ctx, s, "list swept memories", scanOne[string], `SELECT o.id FROM ownership o
			WHERE o.backend = ?1 AND o.kind = 'memory' AND o.deleted > 0 AND o.id > ?2
				AND (?3 = '' OR o."user" = ?3) AND (?4 = '' OR o.agent = ?4) AND (?5 = '' OR o.app = ?5) AND (?6 = '' OR o.run = ?6)
				AND EXISTS (SELECT 1 FROM version v WHERE v.backend = o.backend AND v.kind = o.kind AND v.id = o.id)
			ORDER BY o.id LIMIT ?7`, backend, after, scope.User, scope.Agent, scope.App, scope.Run, expireStep)
		if err != nil || len(ids) == 0 {
			return err
		}
		after = ids[len(ids)-1]
		err = s.do(ctx, &job{also: func(t *transaction) error {
			for _, id := range ids {
				k := memproxy.MemoryKey{Backend: backend, Kind: memproxy.TargetMemory, ID: id}
				last, known, err := t.lastVersion(k)
				if err != nil {
					return err
				}
				if !known || last.Op == memproxy.OpDelete || last.Op == memproxy.OpPurge {
					continue
				}
				gone := v
				gone.MemoryKey, gone.Tenant, gone.Field, gone.Op = k, last.Tenant, last.Field, memproxy.OpDelete
				gone.Before, gone.SHA256, gone.Text, gone.Metadata = last.SHA256, "", "", nil
				if _, err := t.append(gone); err != nil {
					return err
				}
			}
			return nil
		}})
		if err != nil {
			return err
		}
	}
}
