package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

const expireStep = 500 // maximum number of memories that one transaction marks as expired

// Upkeep expires and purges memories, and deletes items past their retention.
type Upkeep struct{ *store }

// Expire marks memories whose lifetime ended by at as expired and returns them, at most
// expireStep. Lookup reports the others as expired until a later call marks them. Memories
// with a pinned version never expire, and quarantined ones stay quarantined.
func (u Upkeep) Expire(ctx context.Context, at time.Time) ([]memproxy.Status, error) {
	return doResult(ctx, u.store, job{}, func(t *transaction) (gone []memproxy.Status) {
		now := toMicros(at)
		for _, r := range t.lock(expireStep, overdue, now) {
			if r.edited {
				continue
			}
			st, was := r.Status, r.Status.State
			st.State, st.Reason, st.Changed = memproxy.StateExpired, "its time is over", fromMicros(now)
			t.putStatus(r, st, was)
			gone = append(gone, r.Status)
		}
		return gone
	})
}

func renew(t *transaction, r *memproxy.Renewal) {
	changeLifetime(t, r.MemoryKey, func(st *memproxy.Status) {
		if !r.Sooner || st.Expires.IsZero() || r.Expires.Before(st.Expires) {
			st.Expires = r.Expires
		}
	})
}

// changeLifetime changes a memory's lifetime. An expired memory whose new lifetime has
// not ended gets its earlier state back.
func changeLifetime(t *transaction, k memproxy.MemoryKey, change func(*memproxy.Status)) {
	now := t.store.opt.Clock()
	r, st := t.status(k)
	prior, was := r.prior, st
	change(&st)
	alive := st.Pinned || st.Expires.IsZero() || st.Expires.After(now)
	if st.State == memproxy.StateExpired && alive {
		st.State, st.Reason, st.Changed = prior, "confirmed", fromMicros(t.now())
		if prior == "" {
			st.State = memproxy.StateUntrusted
		}
		prior = ""
	}
	if st.Expires.Equal(was.Expires) && st.Pinned == was.Pinned && st.State == was.State {
		return
	}
	t.putStatus(r, st, prior)
}

// Purgeable returns at most limit memories after a key that expired before a time. The caller
// deletes them in the backend first and then calls Purge.
func (u Upkeep) Purgeable(ctx context.Context, after memproxy.MemoryKey, before time.Time, limit int) ([]memproxy.Status, error) {
	return querySettled(ctx, u.store, "list expired memories", scanPart(u.store, statusOf),
		`SELECT `+recordColumns+` FROM record
		WHERE state = 'expired' AND state <> '' AND pinned = 0 AND changed < ? AND (backend, kind, id) > (?, ?, ?) ORDER BY backend, kind, id LIMIT ?`,
		toMicros(before), after.Backend, string(after.Kind), after.ID, min(limit, 1000))
}

// DeletedBefore returns at most limit memories that were deleted before a time and not
// purged yet. The caller purges them.
func (u Upkeep) DeletedBefore(ctx context.Context, before time.Time, limit int) ([]memproxy.MemoryKey, error) {
	return querySettled(ctx, u.store, "list deleted memories", scanKey, `SELECT backend, kind, id FROM version v WHERE op = 'delete' AND at < ?1 AND NOT EXISTS
		(SELECT 1 FROM version n WHERE n.backend = v.backend AND n.kind = v.kind AND n.id = v.id AND n.number > v.number)
		UNION SELECT backend, kind, id FROM record o WHERE deleted > 0 AND deleted < ?1 AND EXISTS
		(SELECT 1 FROM version n WHERE n.backend = o.backend AND n.kind = o.kind AND n.id = o.id AND n.compacted = 0 AND n.op NOT IN ('delete', 'purge'))
		UNION SELECT o.backend, 'object', o.id FROM record o WHERE o.kind = 'memory' AND deleted > 0 AND deleted < ?1 AND EXISTS
		(SELECT 1 FROM version n WHERE n.backend = o.backend AND n.kind = 'object' AND n.id = o.id AND n.compacted = 0 AND n.op NOT IN ('delete', 'purge'))
		LIMIT ?2`, toMicros(before), min(limit, 1000))
}

// Purge destroys the texts of a memory's versions, pinned ones included, and records
// that as a version. It deletes the memory's status and dissents, and leaves a
// tombstone and the history without any text.
func (u Upkeep) Purge(ctx context.Context, k memproxy.MemoryKey, actor, decision string) error {
	bad := cmp.Or(validKey(k), storableParts("purge", actor, decision))
	return u.do(ctx, &job{bad: bad, durable: true, erase: true, run: func(t *transaction) {
		if last, known := t.lastVersion(k); known && last.Op != memproxy.OpPurge {
			t.append(memproxy.Version{
				MemoryKey: k, Tenant: last.Tenant, Field: last.Field, Op: memproxy.OpPurge, Actor: actor, Decision: decision,
				Trust: memproxy.TrustSystem, Attestation: memproxy.AttestationUnknown, Before: last.SHA256,
			})
		}
		forget(t, k)
		t.run(destroyTexts, k)
	}})
}

// forget deletes all of a memory but its versions, and leaves a tombstone of its owner.
func forget(t *transaction, k memproxy.MemoryKey) {
	r := t.record(k)
	if r.HasOwner() && !r.Owner.Deleted {
		row := r.Owner
		row.Deleted = true
		r.setOwner(&row, t.now())
	}
	forgetStatus(t, r)
}

// forgetStatus deletes a memory's status, dissents and votes.
func forgetStatus(t *transaction, r *recordRow) {
	r.Status, r.prior, r.dirty = memproxy.Status{}, "", true
	t.dropVotes(r.key)
	t.run(`DELETE FROM dissent`+ofKey, r.key)
}

// deletedSince reports whether a memory was deleted through the proxy after a version.
// The text of that version must not be read from then on, and is shredded later. A
// memory that is missing from the backend for another reason does not count as deleted.
func deletedSince(ctx context.Context, of *store, k memproxy.MemoryKey, number int64) (bool, error) {
	found, err := querySettled(ctx, of, "look up a deletion", scanOne[int64],
		`SELECT 1 FROM version WHERE backend = ?1 AND kind = ?2 AND id = ?3 AND number > ?4 AND op IN ('delete', 'purge') AND actor <> ''
		UNION ALL SELECT 1 FROM record WHERE backend = ?1 AND kind = CASE ?2 WHEN 'object' THEN 'memory' ELSE ?2 END AND id = ?3 AND deleted > 0 LIMIT 1`, k, number)
	return len(found) > 0, err
}

// pruneStep is the maximum number of rows that one transaction prunes, so that other
// writes are not delayed.
const pruneStep = 500

// Prune removes the tombstones of memories that were deleted before a time, with their
// statuses, dissents and votes, and the retractions and corrections from before that time.
// It returns how many tombstones it removed, also along with an error. A memory without a
// tombstone is unknown: its owner is looked up in the backend, which does not have it.
func (u Upkeep) Prune(ctx context.Context, before time.Time) (int, error) {
	if before.IsZero() {
		return 0, errors.New("ledger: prune: no time given")
	}
	return inSteps(ctx, u.store, job{}, pruneStep, func(t *transaction) int { return pruneOnce(t, before) })
}

func pruneOnce(t *transaction, before time.Time) (n int) {
	t.saveRecords()
	for _, table := range [...]string{"correction", "retraction", "vote"} { // votes of that age led to no decision
		t.run(`DELETE FROM `+table+` WHERE at < ?`, before.UnixMicro())
	}
	gone := rows(t, scanKey, `SELECT backend, kind, id FROM record WHERE deleted > 0 AND deleted < ? LIMIT ?`, before.UnixMicro(), pruneStep)
	for _, k := range gone {
		r := t.record(k)
		if r.deleted == 0 {
			continue // another proxy wrote it meanwhile, or its row was edited
		}
		if r.HasStatus() {
			forgetStatus(t, r)
		}
		r.Owner, r.deleted, r.validated, r.listingKnown, r.dirty, r.decided = memproxy.Ownership{}, 0, false, false, true, true
		n++
	}
	return n
}

// Retention is how long finished items are kept. All members are required.
type Retention struct {
	Holds      time.Duration // of settled holds, with their contents
	Sessions   time.Duration // of sessions that have ended and are not locked
	Tombstones time.Duration // of deleted memories, with the records of corrections
	Records    time.Duration // of versions whose text was destroyed
}

// Removed is the number of items that Maintain removed.
type Removed struct {
	Holds, Sessions, Tombstones, Records int
}

// Maintain removes what is past its retention at now. It is called periodically, may be
// interrupted and repeated, and continues with the other parts if one fails. It does
// not expire memories or end sessions; see Expire, Purgeable, DeletedBefore,
// Sessions.End and Holds.Age.
func (u Upkeep) Maintain(ctx context.Context, now time.Time, r Retention) (Removed, error) {
	var gone Removed
	if min(r.Holds, r.Sessions, r.Tombstones, r.Records) <= 0 {
		return gone, invalidArgument("a retention must be positive")
	}
	var holds, sessions, tombstones error
	gone.Holds, holds = Holds(u).Prune(ctx, now.Add(-r.Holds))
	gone.Sessions, sessions = pruneSessions(ctx, u.store, now.Add(-r.Sessions))
	gone.Tombstones, tombstones = u.Prune(ctx, now.Add(-r.Tombstones))
	errs := []error{holds, sessions, tombstones}
	heads, err := Chains(u).Heads(ctx)
	errs = append(errs, err)
	for _, h := range heads {
		n, err := Chains(u).Trim(ctx, h.Tenant, now.Add(-r.Records))
		gone.Records += n
		if !errors.Is(err, ErrState) { // ErrState: the chain is broken and kept, which Chains.Verify reports
			errs = append(errs, err)
		}
	}
	return gone, errors.Join(errs...)
}

// DeleteScope marks the memories of a backend within a scope as deleted, whatever their
// tenant, and returns their number by author, also along with an error. An empty field
// of the scope matches everything. A scope without any owner would match every memory
// and is refused with ErrRow.
//
// Held writes within the scope that wait for review, or to be sent, fail, and are
// returned.
//
// Histories in the scope that have not ended get a version like v, which has the actor
// and decision of the deletion. If v has no operation, they get none. If v is nil, no memory
// is marked.
func (l *Ledger) DeleteScope(ctx context.Context, backend string, scope memproxy.Scope, v *memproxy.Version) (memproxy.ScopeDeletion, error) {
	if err := storableParts("scope", backend, scope.User, scope.Agent, scope.App, scope.Run); err != nil {
		return memproxy.ScopeDeletion{}, err
	}
	if backend == "" || !scope.HasOwner() {
		return memproxy.ScopeDeletion{}, invalidArgument("a backend and an owner are required")
	}
	holds, err := clearHolds(ctx, l.store, backend, scope)
	if err != nil || v == nil {
		return memproxy.ScopeDeletion{Holds: holds}, err
	}
	tallies, err := deleteInScope(ctx, l.store, backend, scope)
	swept := memproxy.ScopeDeletion{Tallies: tallies, Holds: holds}
	if err != nil || v.Op == "" {
		return swept, err
	}
	return swept, endHistories(ctx, l.store, backend, scope, *v)
}

// inScope is the condition that a record is within the scope of ?3 to ?6. An empty name
// matches everything (memproxy.Scope.Within).
const inScope = `?3 IN ('', "user") AND ?4 IN ('', agent) AND ?5 IN ('', app) AND ?6 IN ('', run)`

func deleteInScope(ctx context.Context, s *store, backend string, scope memproxy.Scope) (by []memproxy.AuthorCount, _ error) {
	at := map[memproxy.AuthorCount]int{}
	err := eachPage(expireStep, func(after memproxy.Ownership) ([]memproxy.Ownership, error) {
		return doResult(ctx, s, job{}, func(t *transaction) (found []memproxy.Ownership) {
			for _, r := range t.lock(expireStep, `backend = ?1 AND kind = 'memory' AND owned = 1 AND deleted = 0 AND id > ?2 AND `+inScope+` ORDER BY id`,
				backend, after.ID, scope.User, scope.Agent, scope.App, scope.Run) {
				gone := r.Owner
				gone.Deleted = true
				r.setOwner(&gone, t.now())
				found = append(found, gone)
			}
			return found
		})
	}, func(gone []memproxy.Ownership) error {
		fields, err := firstFields(ctx, s, backend, gone)
		for i := range gone {
			row := &gone[i]
			if row.Actor == "" { // memories without a known author, and edited rows, are not counted
				continue
			}
			who := memproxy.AuthorCount{Tenant: row.Scope.Tenant, Actor: row.Actor, Trust: row.Trust, User: row.Scope.User, Field: fields[row.ID]}
			i, seen := at[who]
			if !seen {
				i = len(by)
				at[who] = i
				by = append(by, who)
			}
			by[i].Memories++
		}
		return err
	})
	return by, err
}

// firstFields returns the governed fields that memories were first written to, by id.
func firstFields(ctx context.Context, s *store, backend string, rows []memproxy.Ownership) (map[string]string, error) {
	ids, fields := make([]string, len(rows)), map[string]string{}
	for i := range rows {
		ids[i] = rows[i].ID
	}
	_, err := queryRows(ctx, s, "look up fields", func(s scanner) (none struct{}, _ error) {
		var id, field string
		err := s.Scan(&id, &field)
		fields[id] = memproxy.Key(field)
		return none, err
	}, `SELECT id, field FROM version WHERE backend = ? AND kind = 'memory' AND id IN (SELECT value FROM json_each(?)) AND number = 1 AND op <> 'seal'`, backend, asJSON(ids))
	return fields, err
}

// endHistories appends a version like v to each deleted memory within a scope whose
// history has not ended yet.
func endHistories(ctx context.Context, s *store, backend string, scope memproxy.Scope, v memproxy.Version) error {
	if s.opt.Vault == nil {
		return ErrNoVault
	}
	return eachPage(expireStep, func(after string) ([]string, error) {
		return querySettled(ctx, s, "list swept memories", scanOne[string], `SELECT o.id FROM record o
			WHERE o.backend = ?1 AND o.kind = 'memory' AND o.deleted > 0 AND o.id > ?2 AND `+inScope+`
				AND (SELECT v.op FROM version v WHERE v.backend = o.backend AND v.kind = o.kind AND v.id = o.id ORDER BY v.number DESC LIMIT 1) NOT IN ('delete', 'purge')
			ORDER BY o.id LIMIT ?7`, backend, after, scope.User, scope.Agent, scope.App, scope.Run, expireStep)
	}, func(ids []string) error {
		return s.do(ctx, &job{run: func(t *transaction) {
			for _, id := range ids {
				k := memproxy.MemoryKey{Backend: backend, Kind: memproxy.TargetMemory, ID: id}
				last, known := t.lastVersion(k)
				if !known || last.textless() {
					continue
				}
				gone := v
				gone.MemoryKey, gone.Tenant, gone.Field, gone.Op = k, last.Tenant, last.Field, memproxy.OpDelete
				gone.Before, gone.SHA256, gone.Text, gone.Metadata = last.SHA256, "", "", nil
				t.append(gone)
			}
		}})
	})
}

// clockRun records whether the ledger's clock ran evenly while processes used the ledger.
type clockRun struct {
	Passed time.Time     `json:"Came"` // a time that has certainly passed
	Start  time.Time     `json:"Mark"` // what the clock showed when Ran was zero
	Last   time.Time     // what the clock showed last
	Ran    time.Duration // how long processes have run since Start
}

// AddRunTime adds how long a process has run since it last called AddRunTime. It returns
// a time that has certainly passed, or zero if none is known. That is the time that the
// ledger's clock showed before processes ran for an hour in which it was not set back: a
// clock that was ahead would have been corrected by then.
func (u Upkeep) AddRunTime(ctx context.Context, more time.Duration) (time.Time, error) {
	vault := u.opt.Vault
	if vault == nil {
		return time.Time{}, nil
	}
	return changeResult(ctx, u.store, nil, func(t *transaction) time.Time {
		now, p := leaseTime(t), clockRun{}
		if e, there := row(t, scanOne[[]byte], envelopeOf, refClock); there {
			if plain, err := vault.Open(refClock, "", e); err == nil { // otherwise it was edited or its key is gone, and begins again
				_ = json.Unmarshal(plain, &p)
			}
		}
		if now.Before(p.Last.Add(-time.Minute)) || p.Start.IsZero() {
			p.Start, p.Last, p.Ran = now, now, 0
		}
		p.Ran += max(0, min(more, now.Sub(p.Last))) // concurrent processes must not count the same time twice
		p.Last = slices.MaxFunc([]time.Time{p.Last, now}, time.Time.Compare)
		if p.Ran >= time.Hour {
			p.Passed, p.Start, p.Ran = slices.MaxFunc([]time.Time{p.Passed, p.Start}, time.Time.Compare), now, 0
		}
		t.run(`DELETE FROM content WHERE ref = ?`, refClock)
		t.encrypt(refClock, "", inJSON(p))
		return p.Passed
	})
}
