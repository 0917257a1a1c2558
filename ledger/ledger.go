package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memproxy/memproxy"
)

// chunk is how many ids one query asks for.
const chunk = 1000

// Ledger is the store. It is safe for concurrent use.
type Ledger struct {
	opt            Options
	dialect        dialect
	writer, reader *sql.DB
	recent         *recent
	coming         coming
	absent         *absences              // nil where others write the store too
	similar        atomic.Pointer[[]byte] // the key of sketches, once it was read

	records, byDecision, byActor   *sql.Stmt // of reader
	insert, update, count, correct *sql.Stmt // of writer
	receive, pruneRows, pruneNotes *sql.Stmt
	sweepRows                      *sql.Stmt

	ready map[string]*sql.Stmt // of writer, by text; see makeReady

	gate    sync.RWMutex // held to send on jobs, locked to close it
	closed  bool
	jobs    chan *job
	stopped chan struct{}
}

func (l *Ledger) prepare(ctx context.Context) error {
	for _, s := range []struct {
		to  **sql.Stmt
		db  *sql.DB
		sql string
	}{
		{&l.records, l.reader, recordQuery()},
		// A receipt stands for the whole write, so it comes first; then what
		// is still there; then a fixed order.
		{&l.byDecision, l.reader, `SELECT ` + columns + ` FROM ownership
			WHERE backend = ? AND decision = ? AND decision <> ''
			ORDER BY kind <> 'event', deleted > 0, kind, id LIMIT 1`},
		{&l.byActor, l.reader, `SELECT ` + actorColumns + ` FROM actor WHERE tenant = ? AND actor = ?`},
		{&l.insert, l.writer, insertRow},
		{&l.update, l.writer, updateRow},
		{&l.count, l.writer, `INSERT INTO actor (tenant, actor, facts, corrections, since) VALUES (?, ?, 1, 0, ?)
			ON CONFLICT (tenant, actor) DO UPDATE SET facts = actor.facts + 1`},
		{&l.correct, l.writer, `INSERT INTO correction (backend, id, decision, at, kind, tenant, author, corrector, trust, reason)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`},
		{&l.receive, l.writer, `INSERT INTO actor (tenant, actor, facts, corrections, since) VALUES (?, ?, 0, 1, ?)
			ON CONFLICT (tenant, actor) DO UPDATE SET corrections = actor.corrections + 1`},
		{&l.pruneRows, l.writer, `DELETE FROM ownership WHERE (backend, kind, id) IN
			(SELECT backend, kind, id FROM ownership WHERE deleted > 0 AND deleted < ? LIMIT ?)
			RETURNING backend, kind, id`},
		{&l.sweepRows, l.writer, `UPDATE ownership SET deleted = ?1
			WHERE backend = ?2 AND kind = 'memory' AND deleted = 0
			AND ?3 IN ('', "user") AND ?4 IN ('', agent) AND ?5 IN ('', app) AND ?6 IN ('', run)
			RETURNING backend, id, tenant, actor, trust, "user"`},
		{&l.pruneNotes, l.writer, `DELETE FROM correction WHERE at < ?`},
	} {
		stmt, err := s.db.PrepareContext(ctx, l.dialect.sql(s.sql))
		if err != nil {
			return err
		}
		*s.to = stmt
	}
	return nil
}

// Decision returns a row that was recorded for the write of a decision: the
// receipt if there is one, else one of the memories. Scope and author are the
// same for all of them.
func (l *Ledger) Decision(ctx context.Context, backend, decision string) (memproxy.Ownership, bool, error) {
	if storable(decision) != nil {
		return memproxy.Ownership{}, false, ctx.Err()
	}
	if err := l.settle(ctx); err != nil {
		return memproxy.Ownership{}, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	row, err := scan(l.byDecision.QueryRowContext(ctx, backend, decision))
	if errors.Is(err, sql.ErrNoRows) {
		return memproxy.Ownership{}, false, nil
	}
	if err != nil {
		return memproxy.Ownership{}, false, l.wrap("look up a decision", err)
	}
	return row, true, nil
}

// wrap names the call that failed, and says ErrClosed where that is why.
func (l *Ledger) wrap(call string, err error) error {
	if closed := l.alive(); closed != nil {
		return closed
	}
	return fmt.Errorf("ledger: %s: %w", call, damaged(err))
}

// alive is ErrClosed once the ledger is closed.
func (l *Ledger) alive() error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.closed {
		return ErrClosed
	}
	return nil
}

func ignoreNone(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// micros is a time as it is stored: microseconds, zero for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}
