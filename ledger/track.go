package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/memproxy/memproxy"
)

// Track is the root's; the name is kept for callers of before.
type Track = memproxy.Track

// Correction is the root's; the name is kept for callers of before.
type Correction = memproxy.Correction

// Record returns the record of an actor of a tenant; zeros for one who is not
// known.
func (l *Ledger) Record(ctx context.Context, tenant, actor string) (Track, error) {
	var t Track
	if storable(tenant) != nil || storable(actor) != nil {
		return t, ctx.Err()
	}
	if err := l.settle(ctx); err != nil {
		return t, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	err := ignoreNone(scanTrack(l.byActor.QueryRowContext(ctx, tenant, actor), &t))
	if err != nil {
		return Track{}, l.wrap("look up an actor", err)
	}
	return t, nil
}

func validCorrection(c *memproxy.Correction) error {
	for _, s := range [...]string{c.Backend, c.ID, c.Tenant, c.Author, c.Corrector, c.Decision, c.Reason, string(c.Kind), string(c.Trust)} {
		if err := storable(s); err != nil {
			return refused("a part of the correction %v", err)
		}
	}
	if c.Backend == "" || c.ID == "" || c.Decision == "" {
		return refused("backend, id and decision are required")
	}
	if c.Kind == "" {
		c.Kind = memproxy.TargetMemory
	}
	return nil
}

// correct counts a correction against the author, once per memory and decision,
// and remembers who corrected whom and why, until Prune.
func correct(t *transaction, c *memproxy.Correction) error {
	if c.Author == "" || c.Author == c.Corrector {
		return nil
	}
	n, err := t.exec(t.l.correct, c.Backend, c.ID, c.Decision, t.l.opt.Clock().UnixMicro(),
		string(c.Kind), c.Tenant, c.Author, c.Corrector, string(c.Trust), c.Reason)
	if err != nil || n == 0 {
		return err
	}
	_, err = t.exec(t.l.receive, c.Tenant, memproxy.Account(c.Author), max(1, micros(t.l.opt.Clock())))
	return err
}

// pruneStep is how many tombstones one transaction removes, so that other
// writes get their turn.
const pruneStep = 500

// Prune removes the tombstones of memories that were deleted before a time,
// with their standings, dissent and votes, what was retracted before, and the notes by which corrections
// of before are counted once only. It
// returns how many tombstones it removed, also along with an error. A memory
// whose tombstone is gone is unknown: its owner is asked upstream, which says
// that there is none.
func (l *Ledger) Prune(ctx context.Context, before time.Time) (int, error) {
	if before.IsZero() {
		return 0, errors.New("ledger: prune: no time given")
	}
	return inSteps(ctx, l, job{}, pruneStep, func(t *transaction) (int, error) {
		gone, err := t.prune(before)
		t.changes.reread(gone...)
		return len(gone), err
	})
}

// inSteps repeats what does at most a step in one transaction until there is less
// to do, and returns how much it did, also along with an error.
func inSteps(ctx context.Context, l *Ledger, j job, step int, f func(*transaction) (int, error)) (int, error) {
	for total := 0; ; {
		n, one := 0, j
		one.also = func(t *transaction) (err error) {
			n, err = f(t)
			return err
		}
		if err := l.do(ctx, &one); err != nil {
			return total, err
		}
		if total += n; n < step {
			return total, nil
		}
	}
}

func (t *transaction) prune(before time.Time) ([]key, error) {
	if _, err := t.exec(t.l.pruneNotes, before.UnixMicro()); err != nil {
		return nil, err
	}
	found, err := t.tx.StmtContext(t.ctx, t.l.pruneRows).QueryContext(t.ctx, before.UnixMicro(), pruneStep)
	if err != nil {
		return nil, err
	}
	gone, err := drain(found, scanKey)
	if err != nil {
		return nil, err
	}
	if _, err := t.run(`DELETE FROM retraction WHERE at < ?`, before.UnixMicro()); err != nil {
		return nil, err
	}
	// Agreement that led to nothing for so long is forgotten too.
	if _, err := t.run(`DELETE FROM vote WHERE at < ?`, before.UnixMicro()); err != nil {
		return nil, err
	}
	return gone, t.forgetStatuses(gone)
}

// Len returns how many rows of a kind a backend has, without tombstones. It
// counts them one by one and is meant for people.
func (l *Ledger) Len(ctx context.Context, backend string, kind memproxy.TargetKind) (int64, error) {
	if err := l.settle(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	var n int64
	err := l.reader.QueryRowContext(ctx, l.dialect.sql(`SELECT count(*) FROM ownership WHERE backend = ? AND kind = ? AND deleted = 0`), backend, string(kind)).Scan(&n)
	if err != nil {
		return 0, l.wrap("count", err)
	}
	return n, nil
}

// PeekLock returns the lock that is in force on one of some records of
// rejections, out of a store that another process may have open, and changes
// nothing. Options.Locks say what locks.
func PeekLock(ctx context.Context, opt Options, tenant string, ids ...string) (memproxy.Lock, error) {
	if opt.URL != "" {
		l, err := Open(opt)
		if err != nil {
			return memproxy.Lock{}, err
		}
		lock, err := l.SessionLocked(ctx, tenant, ids...)
		return lock, errors.Join(err, l.Close())
	}
	db, err := peeking(opt)
	if err != nil || db == nil || opt.Locks == nil {
		return memproxy.Lock{}, err
	}
	defer db.Close()
	found, err := db.QueryContext(ctx, withStrikes, tenant, asJSON(ids))
	if err != nil {
		return memproxy.Lock{}, fmt.Errorf("ledger: %s: %w", opt.Path, damaged(err))
	}
	all, err := drain(found, scanSession)
	return opt.last(all), err
}

// peeking opens the file of a store for reading; nil where there is none.
func peeking(opt Options) (*sql.DB, error) {
	path, err := filepath.Abs(opt.Path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || opt.Path == "" {
		return nil, nil
	}
	dsn := (&url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "mode=ro&_pragma=busy_timeout(2000)"}).String()
	return sql.Open("sqlite", dsn)
}

// Peek returns the record of an actor out of a store that another process may
// have open, and changes nothing. A file that is not there knows nobody.
func Peek(ctx context.Context, opt Options, tenant, actor string) (Track, error) {
	var t Track
	if opt.URL != "" {
		l, err := Open(opt)
		if err != nil {
			return t, err
		}
		t, err = l.Record(ctx, tenant, actor)
		return t, errors.Join(err, l.Close())
	}
	db, err := peeking(opt)
	if err != nil || db == nil {
		return t, err
	}
	defer db.Close()
	err = scanTrack(db.QueryRowContext(ctx, `SELECT `+actorColumns+` FROM actor WHERE tenant = ? AND actor = ?`, tenant, actor), &t)
	if err = ignoreNone(err); err != nil {
		return Track{}, fmt.Errorf("ledger: %s: %w", opt.Path, damaged(err))
	}
	return t, nil
}
