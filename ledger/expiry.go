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
		now := micros(t.l.opt.Clock())
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
	now := t.l.opt.Clock()
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
	return look(ctx, l, "list expired memories", scanStatus, `SELECT `+statusColumns+` FROM standing
		WHERE state = 'expired' AND pinned = 0 AND changed < ? ORDER BY backend, kind, id LIMIT ?`, micros(before), min(limit, 1000))
}

// DeletedBefore returns memories that were deleted before a time and whose
// history is still there, at most limit. Purge ends it.
func (l *Ledger) DeletedBefore(ctx context.Context, before time.Time, limit int) ([]memproxy.MemoryKey, error) {
	return look(ctx, l, "list deleted memories", func(s scanner) (k memproxy.MemoryKey, err error) {
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
		return errors.Join(t.forget(k), t.shredVersions(k))
	}})
}

// forget removes what is kept of a memory besides its versions, and leaves a
// tombstone of its owner.
func (t *transaction) forget(k memproxy.MemoryKey) error {
	if err := t.forgetStatus(k); err != nil {
		return err
	}
	t.changes.reread(k)
	_, err := t.run(`UPDATE ownership SET deleted = ? WHERE backend = ? AND kind = ? AND id = ? AND deleted = 0`,
		max(1, micros(t.l.opt.Clock())), k.Backend, string(k.Kind), k.ID)
	return err
}

// forgetStatuses does forgetStatus for those of the memories that have one;
// most deleted ones do not.
func (t *transaction) forgetStatuses(gone []key) error {
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
			if err := t.forgetStatus(key{Backend: g.Backend, Kind: g.Kind, ID: id}); err != nil {
				return err
			}
		}
	}
	return nil
}

// forgetStatus removes a memory's status, dissent and votes.
func (t *transaction) forgetStatus(k memproxy.MemoryKey) error {
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
