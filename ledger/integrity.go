package ledger

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

// Backends is what is known of each backend as a whole: what it should hold, how
// far that is recorded, and what a comparison of the two found.
type Backends struct{ *store }

// Cast notes what speaks against memories, or that nothing does any more, and
// returns how many it changed. It says nothing of their states. What is recorded
// after a breach stays doubted.
func (bs Backends) Cast(ctx context.Context, doubts ...memproxy.Doubt) (int, error) {
	err := valid(doubts, func(d *memproxy.Doubt) error {
		return cmp.Or(validKey(d.MemoryKey), storableParts("doubt", d.Tenant, string(d.Code)))
	})
	if err != nil || len(doubts) == 0 {
		return 0, cmp.Or(err, ctx.Err())
	}
	return countEach(ctx, bs.store, doubts, (*transaction).cast)
}

func (t *transaction) cast(d *memproxy.Doubt) bool {
	r, st := t.status(d.MemoryKey)
	if st.Unverified == d.Code || st.Unverified == memproxy.IntegrityChain {
		return false
	}
	if st.Unverified = d.Code; d.Code == memproxy.IntegrityMismatch || d.Code == "" {
		st.Rules = "" // no rules have seen the text that is there now
	}
	st.Tenant = cmp.Or(st.Tenant, d.Tenant)
	t.putStatus(r, st, r.prior)
	return true
}

// settleDoubt settles what a new record means for the doubts about its memory: what
// is recorded behind a breach is not verified; else a text that went through
// the proxy takes the place of one that did not.
func settleDoubt(t *transaction, r *record) {
	if isBreached(t, r.Tenant) {
		t.cast(&memproxy.Doubt{MemoryKey: r.MemoryKey, Tenant: r.Tenant, Code: memproxy.IntegrityChain})
		return
	}
	if r.Number == 1 || r.textless() {
		return // nothing was known of it, or nothing is left
	}
	if row, st := t.status(r.MemoryKey); st.Unverified != "" && st.Unverified != memproxy.IntegrityChain {
		st.Unverified = ""
		t.putStatus(row, st, row.prior)
	}
}

// Inventory returns a page of the memories, or whatever of a kind, that a
// backend should have, in the order of their ids: those after one id, at most
// limit, without tombstones. What the backend lacks of them was deleted behind
// the proxy.
func (bs Backends) Inventory(ctx context.Context, backend string, kind memproxy.TargetKind, after string, limit int) ([]memproxy.Ownership, error) {
	limit = min(cmp.Or(max(0, limit), chunk), chunk)
	return look(ctx, bs.store, "list memories", scanOwner, `SELECT `+recordColumns+` FROM record
		WHERE backend = ? AND kind = ? AND id > ? AND owned = 1 AND deleted = 0 ORDER BY id LIMIT ?`, backend, string(kind), after, limit)
}

// Sealed reports whether everything that a backend holds was known once, so
// that what is unknown there was put there behind the proxy.
func (bs Backends) Sealed(ctx context.Context, backend string) (bool, error) {
	found, err := glance(ctx, bs.store, "look up a seal", scanOne[string], `SELECT backend FROM sealed WHERE backend = ?`, backend)
	return len(found) > 0, err
}

// Seal notes that everything that a backend holds is known.
func (bs Backends) Seal(ctx context.Context, backend string) error {
	if backend == "" || storable(backend) != nil {
		return refused("a backend is required")
	}
	return bs.change(ctx, func(t *transaction) error {
		t.run(`DELETE FROM sealing WHERE backend = ?`, backend)
		t.sealed = append(t.sealed, backend)
		t.reread(everything) // what has no record there is now known to be new
		t.run(`INSERT INTO sealed (backend, at) VALUES (?, ?) ON CONFLICT DO NOTHING`, backend, t.now())
		return nil
	})
}

// Claim reports whether something that one process at a time does is the
// holder's from now on, for as long as lease. It is where nobody has it, where
// the lease is over, and where the holder has it already: then for a lease from
// now.
func (bs Backends) Claim(ctx context.Context, name, holder string, lease time.Duration) (bool, error) {
	if name == "" || storable(name) != nil || storable(holder) != nil || lease <= 0 {
		return false, refused("a claim needs a name and a lease")
	}
	return changed(ctx, bs.store, func(t *transaction) (bool, error) {
		now := t.store.opt.Clock()
		return t.run(`INSERT INTO claim (name, holder, until) VALUES (?1, ?2, ?3)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
			WHERE claim.holder = excluded.holder OR claim.until <= ?4`, name, holder, micros(now.Add(lease)), micros(now)) > 0, nil
	})
}

// Sealing returns how far a backend's memories are recorded, and false where
// that has not begun or is over.
func (bs Backends) Sealing(ctx context.Context, backend string) (memproxy.Sealing, bool, error) {
	return first(look(ctx, bs.store, "look up a seal", func(s scanner) (at memproxy.Sealing, err error) {
		err = s.Scan(&at.Backend, &at.Cursor, &at.Pass, &at.Fresh, &at.Found)
		return at, err
	}, `SELECT backend, cursor, pass, fresh, found FROM sealing WHERE backend = ?`, backend))
}

// RecordFound keeps memories that a backend holds and nobody is known to have
// written, together with how far that is: at, of which it returns the counts
// with those that were not known before. What is known stays as it is.
func (bs Backends) RecordFound(ctx context.Context, at memproxy.Sealing, found ...memproxy.Found) (memproxy.Sealing, error) {
	err := valid(found, func(f *memproxy.Found) error { return cmp.Or(validKey(f.MemoryKey), storableParts("find", f.SHA256)) })
	if err == nil {
		err = storableParts("sealing", at.Backend, at.Cursor)
	}
	if err != nil {
		return at, err
	}
	if at.Backend == "" || slices.ContainsFunc(found, func(f memproxy.Found) bool { return f.Backend != at.Backend }) {
		return at, refused("one backend is required")
	}
	own := slices.Clone(found)
	next, err := changed(ctx, bs.store, func(t *transaction) (memproxy.Sealing, error) {
		next := at
		t.save()
		for i := range own {
			f := &own[i]
			n := t.run(`INSERT INTO record (backend, kind, id, listed, first_seen) VALUES (?, ?, ?, 1, ?)
				ON CONFLICT (backend, kind, id) DO UPDATE SET listed = 1, first_seen = excluded.first_seen WHERE record.listed = 0`,
				f.Backend, string(f.Kind), f.ID, f.SHA256)
			t.reread(f.MemoryKey)
			next.Fresh, next.Found = next.Fresh+int(n), next.Found+int(n)
		}
		t.run(`INSERT INTO sealing (backend, cursor, pass, fresh, found) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (backend) DO UPDATE SET cursor = excluded.cursor, pass = excluded.pass, fresh = excluded.fresh, found = excluded.found`,
			next.Backend, next.Cursor, next.Pass, next.Fresh, next.Found)
		return next, nil
	})
	if err != nil {
		return at, err
	}
	return next, nil
}
