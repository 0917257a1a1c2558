package ledger

import (
	"context"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

// Claim reports whether something that one process at a time does is the
// holder's from now on, for as long as lease. It is where nobody has it, where
// the lease is over, and where the holder has it already: then for a lease from
// now.
func (l *Ledger) Claim(ctx context.Context, name, holder string, lease time.Duration) (bool, error) {
	if name == "" || storable(name) != nil || storable(holder) != nil || lease <= 0 {
		return false, refused("a claim needs a name and a lease")
	}
	return changed(ctx, l, func(t *transaction) (bool, error) {
		now := t.l.opt.Clock()
		n, err := t.run(`INSERT INTO claim (name, holder, until) VALUES (?1, ?2, ?3)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
			WHERE claim.holder = excluded.holder OR claim.until <= ?4`, name, holder, micros(now.Add(lease)), micros(now))
		return n > 0, err
	})
}

// Sealing returns how far a backend's memories are taken down, and false where
// that has not begun or is over.
func (l *Ledger) Sealing(ctx context.Context, backend string) (memproxy.Sealing, bool, error) {
	if storable(backend) != nil {
		return memproxy.Sealing{}, false, ctx.Err()
	}
	list, err := look(ctx, l, "look up a seal", func(s scanner) (at memproxy.Sealing, err error) {
		return at, s.Scan(&at.Backend, &at.Cursor, &at.Pass, &at.Fresh, &at.Found)
	}, `SELECT backend, cursor, pass, fresh, found FROM sealing WHERE backend = ?`, backend)
	if err != nil || len(list) == 0 {
		return memproxy.Sealing{}, false, err
	}
	return list[0], true, nil
}

// TakeDown keeps memories that a backend holds and nobody is known to have
// written, together with how far that is: at, of which it returns the counts
// with those that were not known before. What is known stays as it is.
func (l *Ledger) TakeDown(ctx context.Context, at memproxy.Sealing, found ...memproxy.Found) (memproxy.Sealing, error) {
	for i := range found {
		if err := validKey(found[i].MemoryKey); err != nil {
			return at, err
		}
		if found[i].Backend != at.Backend || storable(found[i].SHA256) != nil {
			return at, refused("a part of what was found cannot be stored")
		}
	}
	if at.Backend == "" || storable(at.Backend) != nil || storable(at.Cursor) != nil {
		return at, refused("a backend is required")
	}
	own := slices.Clone(found)
	next, err := changed(ctx, l, func(t *transaction) (memproxy.Sealing, error) {
		next := at
		for i := range own {
			f := &own[i]
			n, err := t.run(`INSERT INTO found (backend, kind, id, sha256) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
				f.Backend, string(f.Kind), f.ID, f.SHA256)
			if err != nil {
				return next, err
			}
			t.changes.reread(f.MemoryKey)
			next.Fresh, next.Found = next.Fresh+int(n), next.Found+int(n)
		}
		_, err := t.run(`INSERT INTO sealing (backend, cursor, pass, fresh, found) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (backend) DO UPDATE SET cursor = excluded.cursor, pass = excluded.pass, fresh = excluded.fresh, found = excluded.found`,
			next.Backend, next.Cursor, next.Pass, next.Fresh, next.Found)
		return next, err
	})
	if err != nil {
		return at, err
	}
	return next, nil
}
