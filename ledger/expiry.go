package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/memproxy/memproxy"
)

// expireStep is how many memories one transaction lets expire.
const expireStep = 500

// Expire marks memories whose time is over as expired and returns them, at
// most some hundred; call it until it returns none. Pinned ones never expire,
// and quarantined ones stay quarantined.
func (l *Ledger) Expire(ctx context.Context) ([]memproxy.Status, error) {
	var gone []memproxy.Status
	err := l.do(ctx, &job{also: func(t *transaction) (err error) {
		now := micros(t.store.opt.Clock())
		gone, err = rows(t, scanStatus, `UPDATE standing SET prior = state, state = 'expired', reason = 'its time is over', changed = ?1
			WHERE (backend, kind, id) IN (SELECT backend, kind, id FROM standing
				WHERE expires > 0 AND expires <= ?1 AND pinned = 0 AND state NOT IN ('expired', 'quarantined') LIMIT ?2)
			RETURNING `+statusColumns, now, expireStep)
		for i := range gone {
			t.changes.rate(gone[i].MemoryKey, gone[i])
		}
		return err
	}})
	if err != nil {
		return nil, err
	}
	return gone, nil
}

// Pin keeps a memory from expiring and from being purged, or lets it go again.
func (l *Ledger) Pin(ctx context.Context, k memproxy.MemoryKey, pinned bool) error {
	if err := validKey(k); err != nil {
		return err
	}
	return l.do(ctx, &job{also: func(t *transaction) error {
		return live(t, k, func(st *memproxy.Status) { st.Pinned = pinned })
	}})
}

func renew(t *transaction, r *memproxy.Renewal) error {
	return live(t, r.MemoryKey, func(st *memproxy.Status) { st.Expires = r.Expires })
}

// live changes how long a memory lives. An expired one that lives on comes back
// in the state that it had.
func live(t *transaction, k memproxy.MemoryKey, change func(*memproxy.Status)) error {
	now := t.store.opt.Clock()
	st, prior, err := t.status(k)
	if err != nil {
		return err
	}
	change(&st)
	alive := st.Pinned || st.Expires.IsZero() || st.Expires.After(now)
	if st.State == memproxy.StateExpired && alive {
		st.State, st.Reason, st.Changed = prior, "confirmed", moment(max(1, micros(now)))
		if prior == "" {
			st.State = memproxy.StateUntrusted
		}
		prior = ""
	}
	if st.Changed.IsZero() {
		st.Changed = moment(max(1, micros(now)))
	}
	return t.putStatus(st, prior)
}

// Purgeable returns memories that expired before a time, at most limit. Who
// purges deletes them in the backend first, then calls Purge.
func (l *Ledger) Purgeable(ctx context.Context, before time.Time, limit int) ([]memproxy.Status, error) {
	return look(ctx, l.store, "list expired memories", scanStatus, `SELECT `+statusColumns+` FROM standing
		WHERE state = 'expired' AND pinned = 0 AND changed < ? ORDER BY backend, kind, id LIMIT ?`, micros(before), min(limit, 1000))
}

// DeletedBefore returns memories that were deleted before a time and whose
// history is still there, at most limit. Purge ends it.
func (l *Ledger) DeletedBefore(ctx context.Context, before time.Time, limit int) ([]memproxy.MemoryKey, error) {
	return look(ctx, l.store, "list deleted memories", func(s scanner) (k memproxy.MemoryKey, err error) {
		return k, s.Scan(&k.Backend, &k.Kind, &k.ID)
	}, `SELECT backend, kind, id FROM version v WHERE op = 'delete' AND at < ?1 AND NOT EXISTS
		(SELECT 1 FROM version n WHERE n.backend = v.backend AND n.kind = v.kind AND n.id = v.id AND n.number > v.number)
		UNION SELECT backend, kind, id FROM ownership o WHERE deleted > 0 AND deleted < ?1 AND EXISTS
		(SELECT 1 FROM version n WHERE n.backend = o.backend AND n.kind = o.kind AND n.id = o.id AND n.compacted = 0 AND n.op NOT IN ('delete', 'purge'))
		UNION SELECT o.backend, 'object', o.id FROM ownership o WHERE o.kind = 'memory' AND deleted > 0 AND deleted < ?1 AND EXISTS
		(SELECT 1 FROM version n WHERE n.backend = o.backend AND n.kind = 'object' AND n.id = o.id AND n.compacted = 0 AND n.op NOT IN ('delete', 'purge'))
		LIMIT ?2`, micros(before), min(limit, 1000))
}

// Purge destroys the texts of a memory's versions, pinned ones too, records
// that as a version, forgets its status and dissent, and leaves a tombstone.
// What happened to it stays known; what it said does not.
func (l *Ledger) Purge(ctx context.Context, k memproxy.MemoryKey, actor, decision string) error {
	if err := validKey(k); err != nil {
		return err
	}
	if storable(actor) != nil || storable(decision) != nil {
		return refused("a purge names its actor and decision")
	}
	if l.opt.Vault == nil {
		return ErrNoVault
	}
	return l.do(ctx, &job{durable: true, erase: true, also: func(t *transaction) error {
		last, known, err := t.lastVersion(k)
		if err != nil {
			return err
		}
		if known && last.Op != memproxy.OpPurge {
			_, err := t.append(memproxy.Version{
				MemoryKey: k, Tenant: last.Tenant, Field: last.Field, Op: memproxy.OpPurge, Actor: actor, Decision: decision,
				Trust: memproxy.TrustSystem, Attestation: memproxy.AttestationUnknown, Before: last.SHA256,
			})
			if err != nil {
				return err
			}
		}
		return errors.Join(forget(t, k), shredVersions(t, k))
	}})
}

// forget removes what is kept of a memory besides its versions, and leaves a
// tombstone of its owner.
func forget(t *transaction, k memproxy.MemoryKey) error {
	if err := forgetStatus(t, k); err != nil {
		return err
	}
	t.changes.reread(k)
	_, err := t.run(`UPDATE ownership SET deleted = ? WHERE backend = ? AND kind = ? AND id = ? AND deleted = 0`,
		max(1, micros(t.store.opt.Clock())), k.Backend, string(k.Kind), k.ID)
	return err
}

// forgetStatuses does forgetStatus for those of the memories that have one;
// most deleted ones do not.
func forgetStatuses(t *transaction, gone []key) error {
	groups := map[key][]string{}
	for _, k := range gone {
		group := key{Backend: k.Backend, Kind: k.Kind}
		groups[group] = append(groups[group], k.ID)
	}
	for g, ids := range groups {
		found, err := rows(t, scanText, `SELECT id FROM standing WHERE backend = ? AND kind = ? AND id IN (SELECT value FROM json_each(?))`,
			g.Backend, string(g.Kind), asJSON(ids))
		if err != nil {
			return err
		}
		for _, id := range found {
			if err := forgetStatus(t, key{Backend: g.Backend, Kind: g.Kind, ID: id}); err != nil {
				return err
			}
		}
	}
	return nil
}

// forgetStatus removes a memory's status, dissent and votes.
func forgetStatus(t *transaction, k memproxy.MemoryKey) error {
	args := []any{k.Backend, string(k.Kind), k.ID}
	const where = ` WHERE backend = ? AND kind = ? AND id = ?`
	t.changes.rate(k, memproxy.Status{})
	if _, err := t.run(`DELETE FROM standing`+where, args...); err != nil {
		return err
	}
	if _, err := t.run(`DELETE FROM vote WHERE subject = ?`, ref(refMemory, k.Backend, string(k.Kind), k.ID)); err != nil {
		return err
	}
	gone, err := rows(t, scanText, `DELETE FROM dissent`+where+` RETURNING decision`, args...)
	if err != nil {
		return err
	}
	for _, decision := range gone {
		if _, err := t.run(`DELETE FROM content WHERE ref = ?`, dissentRef(k, decision)); err != nil {
			return err
		}
	}
	return nil
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
	for _, arg := range args[1:] {
		if err := storable(arg.(string)); err != nil {
			return nil, refused("a part of the scope %v", err)
		}
	}
	if backend == "" || !scope.Owned() {
		return nil, refused("a backend and an owner are required")
	}
	var tallies []memproxy.Tally
	err := l.do(ctx, &job{also: func(t *transaction) error {
		gone, by, err := sweepScope(t, args)
		t.changes.reread(gone...)
		tallies = by
		return err
	}})
	if err != nil {
		return nil, err
	}
	if v.Op == "" {
		return tallies, nil
	}
	return tallies, endHistories(ctx, l.store, backend, scope, v)
}

func sweepScope(t *transaction, args []any) (gone []key, by []memproxy.Tally, err error) {
	rows, err := t.tx.StmtContext(t.ctx, t.store.sweepRows).QueryContext(t.ctx, args...)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	at := map[memproxy.Tally]int{}
	for rows.Next() {
		k := key{Kind: memproxy.TargetMemory}
		var who memproxy.Tally
		if err := rows.Scan(&k.Backend, &k.ID, &who.Tenant, &who.Actor, &who.Trust, &who.User); err != nil {
			return nil, nil, err
		}
		gone = append(gone, k)
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
	return gone, by, rows.Err()
}

// endHistories appends a version like v to each memory within a scope that is
// deleted and whose history does not end yet.
func endHistories(ctx context.Context, s *store, backend string, scope memproxy.Scope, v memproxy.Version) error {
	if s.opt.Vault == nil {
		return ErrNoVault
	}
	after := ""
	for {
		ids, err := look(ctx, s, "list swept memories", scanText, `SELECT o.id FROM ownership o
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

// deletedSince reports whether somebody deleted a memory through the proxy after
// a version of it: its text is nobody's to read from then on, and is shredded
// later. That a memory is gone from the backend without anybody's doing is no
// deletion.
func deletedSince(ctx context.Context, of *store, k memproxy.MemoryKey, number int64) (bool, error) {
	key := []any{k.Backend, string(k.Kind), k.ID}
	found, err := look(ctx, of, "look up a deletion", func(s scanner) (n int, err error) { return n, s.Scan(&n) },
		`SELECT 1 FROM version WHERE backend = ?1 AND kind = ?2 AND id = ?3 AND number > ?4 AND op IN ('delete', 'purge') AND actor <> ''
		UNION ALL SELECT 1 FROM ownership WHERE backend = ?1 AND kind = CASE ?2 WHEN 'object' THEN 'memory' ELSE ?2 END AND id = ?3 AND deleted > 0 LIMIT 1`, append(key, number)...)
	return len(found) > 0, err
}

const day = 24 * time.Hour

// The defaults of Retention.
const (
	DefaultKeepHolds      = 90 * day
	DefaultKeepSessions   = 90 * day
	DefaultKeepTombstones = 180 * day
	DefaultKeepRecords    = 365 * day
)

// Retention says how long things that are over are kept. Zero is the default.
type Retention struct {
	Holds      time.Duration // settled ones, with their contents
	Sessions   time.Duration // ended and not locked
	Tombstones time.Duration // of deleted memories, with notes of corrections
	Records    time.Duration // of versions whose text was given up
}

// Removed is how much a maintenance removed.
type Removed struct {
	Holds, Sessions, Tombstones, Records int
}

// Maintain removes what is older than its retention. Call it now and then; it
// may be stopped and called again, and one part's failure does not keep the
// others from being done. What expires and what ends is not its business: see
// Expire, Purgeable, DeletedBefore, Sessions.End, Holds.Age.
func (l *Ledger) Maintain(ctx context.Context, r Retention) (Removed, error) {
	before := func(d, def time.Duration) time.Time {
		if d <= 0 {
			d = def
		}
		return l.opt.Clock().Add(-d)
	}
	var gone Removed
	var holds, sessions, tombstones error
	gone.Holds, holds = l.Holds.Prune(ctx, before(r.Holds, DefaultKeepHolds))
	gone.Sessions, sessions = pruneSessions(ctx, l.store, before(r.Sessions, DefaultKeepSessions))
	gone.Tombstones, tombstones = l.Prune(ctx, before(r.Tombstones, DefaultKeepTombstones))
	errs := []error{holds, sessions, tombstones}
	if l.opt.Vault != nil {
		heads, err := l.Chains.Heads(ctx)
		errs = append(errs, err)
		for _, h := range heads {
			n, err := l.Chains.Trim(ctx, h.Tenant, before(r.Records, DefaultKeepRecords))
			gone.Records += n
			if errors.Is(err, ErrState) {
				continue // broken, and kept: Chains.Verify says why
			}
			errs = append(errs, err)
		}
	}
	return gone, errors.Join(errs...)
}
