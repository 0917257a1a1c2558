package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/memproxy/memproxy"
)

// Record returns the record of an actor of a tenant; zeros for one who is not
// known.
func (l *Ledger) Record(ctx context.Context, tenant, actor string) (memproxy.Track, error) {
	t, _, err := first(look(ctx, l.store, "look up an actor", scanTrack, byActor, tenant, actor))
	return t, err
}

func validCorrection(c *memproxy.Correction) error {
	if err := storableParts("correction", c.Backend, c.ID, c.Tenant, c.Author, c.Corrector, c.Decision, c.Reason, string(c.Kind), string(c.Trust)); err != nil {
		return err
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
func correct(t *transaction, c *memproxy.Correction) {
	if c.Author == "" || c.Author == c.Corrector {
		return
	}
	n := t.run(`INSERT INTO correction (backend, id, decision, at, kind, tenant, author, corrector, trust, reason)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, c.Backend, c.ID, c.Decision, t.store.opt.Clock().UnixMicro(),
		string(c.Kind), c.Tenant, c.Author, c.Corrector, string(c.Trust), c.Reason)
	if n > 0 {
		t.run(`INSERT INTO actor (tenant, actor, facts, corrections, since) VALUES (?, ?, 0, 1, ?)
			ON CONFLICT (tenant, actor) DO UPDATE SET corrections = actor.corrections + 1`, c.Tenant, memproxy.Account(c.Author), t.now())
	}
}

// PeekLock returns the lock that is in force on one of some records of
// rejections, out of a store that another process may have open, and changes
// nothing. Options.Locks say what locks.
func PeekLock(ctx context.Context, opt Options, tenant string, ids ...string) (lock memproxy.Lock, err error) {
	err = peek(opt, func(l *Ledger) (err error) {
		lock, err = l.SessionLocked(ctx, tenant, ids...)
		return err
	})
	return lock, err
}

// Peek returns the record of an actor out of a store that another process may
// have open, and changes nothing. A file that is not there knows nobody.
func Peek(ctx context.Context, opt Options, tenant, actor string) (t memproxy.Track, err error) {
	err = peek(opt, func(l *Ledger) (err error) {
		t, err = l.Record(ctx, tenant, actor)
		return err
	})
	return t, err
}

// peek looks into a database as into any ledger, and into a file that is there
// without opening it as one.
func peek(opt Options, f func(*Ledger) error) error {
	if opt.URL != "" {
		l, err := Open(opt)
		if err != nil {
			return err
		}
		return errors.Join(f(l), l.Close())
	}
	if _, err := os.Stat(opt.Path); errors.Is(err, fs.ErrNotExist) {
		return nil // without a name there is none, either
	}
	err := opt.complete()
	if err == nil {
		err = with(opt.Path, "ro", func(db *sql.DB) error { return f(&Ledger{store: &store{opt: opt, reader: db, recent: &recent{}}}) })
	}
	if err != nil {
		return fmt.Errorf("ledger: %s: %w", opt.Path, damaged(err))
	}
	return nil
}

const byActor = `SELECT facts, corrections, accepted, validated, since FROM actor WHERE tenant = ? AND actor = ?`

func scanTrack(s scanner) (t memproxy.Track, err error) {
	err = s.Scan(&t.Facts, &t.Corrections, &t.Accepted, &t.Validated, (*when)(&t.Since))
	return t, err
}

// countAccepted counts a memory for its author that waited for review and was let
// out, or that a person vouched for.
func countAccepted(t *transaction, r *recordRow, was, is memproxy.MemoryState, person bool) {
	out := was == memproxy.StatePending && (is == memproxy.StateUntrusted || is == memproxy.StateValidated)
	if (out || person && is == memproxy.StateValidated) && r.Owner.Actor != "" {
		t.run(`UPDATE actor SET accepted = accepted + 1 WHERE tenant = ? AND actor = ?`, r.Owner.Scope.Tenant, memproxy.Account(r.Owner.Actor))
	}
}

// countValidated counts a memory for its author, once, when it was found sound, and
// no more when it was flagged or quarantined. That it waits, expires or is
// written anew changes nothing: it is looked at again.
func countValidated(t *transaction, r *recordRow, is memproxy.MemoryState) {
	var by int64
	switch is {
	case memproxy.StateValidated:
		by = 1
	case memproxy.StateFlagged, memproxy.StateQuarantined:
		by = -1
	default:
		return
	}
	if !r.Owned() || r.Owner.Deleted || r.validated == (by > 0) {
		return
	}
	if r.validated, r.dirty = by > 0, r.dirty|ownerPart; r.Kind == memproxy.TargetMemory && r.Owner.Actor != "" {
		t.run(`UPDATE actor SET validated = validated + ? WHERE tenant = ? AND actor = ?`, by, r.Owner.Scope.Tenant, memproxy.Account(r.Owner.Actor))
	}
}
