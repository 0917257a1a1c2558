package ledger

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger/keys"
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
	return look(ctx, bs.store, "list memories", scanOwner(bs.store), `SELECT `+recordColumns+` FROM record
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
		t.records[everything] = nil // what has no record there is now known to be new
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
		for i := range own {
			f := &own[i]
			r := t.record(f.MemoryKey)
			if r.listed || r.edited {
				continue
			}
			r.listed, r.firstSeen, r.dirty = true, f.SHA256, r.dirty|listingPart
			if !r.Owned() {
				r.Listing, r.FirstSeen, r.sure = memproxy.Listed, f.SHA256, true
			}
			next.Fresh, next.Found = next.Fresh+1, next.Found+1
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

// editedRow is what is wrong with a row whose mark is not of what it says.
const editedRow = "its row in the ledger was changed outside of memproxy"

// distrusted is what counts of a record that was edited: it is nobody's, and
// quarantined. What the row says is not written over before a person accepts it.
func distrusted(s *store, f *fields) recordRow {
	k, why := f.key(), editedRow
	if !s.opt.Vault.MarkKnown(f.mark) {
		why = "its row in the ledger is signed with a key that is missing: is vault.key the one of all sidecars of this ledger?"
	}
	s.edits.note(k, f.tenant(), why)
	return recordRow{key: k, stored: true, sure: true, edited: true, Record: memproxy.Record{
		Owner:  memproxy.Ownership{Backend: k.Backend, Kind: k.Kind, ID: k.ID, Scope: memproxy.Scope{Tenant: memproxy.TenantNobody}, Deleted: f.numbers[3] > 0},
		Status: doubted(k, memproxy.TenantNobody, why),
	}}
}

func doubted(k key, tenant, why string) memproxy.Status {
	return memproxy.Status{MemoryKey: k, Tenant: tenant, State: memproxy.StateQuarantined, Reason: why, Unverified: memproxy.IntegrityLedger}
}

// lostQuery finds those of some ids that have a history, and no record: a write makes
// both. A record is removed some time after the memory was deleted.
const lostQuery = `SELECT backend, kind, id FROM version v WHERE backend = ?1 AND kind = ?2 AND id IN (SELECT value FROM json_each(?3)) AND kind <> 'object'
	AND op NOT IN ('delete', 'purge') AND NOT EXISTS (SELECT 1 FROM version n WHERE n.backend = v.backend AND n.kind = v.kind AND n.id = v.id AND n.number > v.number)
	AND NOT EXISTS (SELECT 1 FROM record r WHERE r.backend = v.backend AND r.kind = v.kind AND r.id = v.id AND (r.owned > 0 OR r.state <> '' OR r.listed > 0))`

// lost is the status of a memory whose record was removed. It has no owner: the author
// may write it again, and a person may promote it.
func lost(s *store, k key) memproxy.Status {
	const why = "its row in the ledger was removed outside of memproxy"
	s.edits.note(k, "", why)
	return doubted(k, "", why)
}

// askLost adds to had those of some objects whose records were removed.
func askLost(ctx context.Context, s *store, had map[key]memproxy.Record, group key, ids []string) error {
	var ask []string
	for _, id := range ids {
		group.ID = id
		unknown, _ := s.seen.unknown(versions, group)
		if _, known := had[group]; !known && !unknown {
			ask = append(ask, id)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	rows, err := s.query(ctx, lostQuery, group.Backend, string(group.Kind), asJSON(ask))
	if err != nil {
		return err
	}
	found, err := drain(rows, scanKey)
	for _, k := range found {
		had[k] = memproxy.Record{Status: lost(s, k)}
	}
	return err
}

// maxEdits bounds the edited rows that are remembered as reported. A row beyond it is
// reported again when it is read again.
const maxEdits = 10000

// edits are the rows that were found edited, each once, until they are reported.
type edits struct {
	mu      sync.Mutex
	found   map[key]bool
	waiting []memproxy.Discrepancy
	broken  func()
}

func newEdits(opt *Options) *edits { return &edits{found: map[key]bool{}, broken: opt.Broken} }

func (e *edits) note(k key, tenant, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found[k] || len(e.waiting) >= maxEdits {
		return
	}
	if len(e.found) >= maxEdits {
		clear(e.found)
	}
	e.found[k] = true
	e.waiting = append(e.waiting, memproxy.Discrepancy{Class: memproxy.FaultTamper, Code: memproxy.IntegrityLedger, Tenant: tenant, MemoryKey: k, Detail: why})
	e.broken()
}

func (e *edits) forget(k key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.found, k)
}

// Edits calls report with each row that was found changed outside of memproxy, once. A
// row whose report fails is reported with the rest by the next call.
func (bs Backends) Edits(report func(memproxy.Discrepancy) error) error {
	e := bs.edits
	for {
		e.mu.Lock()
		if len(e.waiting) == 0 {
			e.mu.Unlock()
			return nil
		}
		next := e.waiting[0]
		e.waiting = e.waiting[1:] // of calls at the same time each reports others
		e.mu.Unlock()
		if err := report(next); err != nil {
			e.mu.Lock()
			e.waiting = append(e.waiting, next)
			e.mu.Unlock()
			return err
		}
	}
}

// maxEdited is how many edited records are listed.
const maxEdited = 100

// VerifyRecords reads all records, and returns the first of those that were edited, with
// the tenants that they say.
func (bs Backends) VerifyRecords(ctx context.Context, count func(int)) (edited []memproxy.Discrepancy, err error) {
	if bs.opt.Vault == nil {
		return nil, ErrNoVault
	}
	for after := (key{}); ; {
		found, err := glance(ctx, bs.store, "read records", scanFields, nextRecords, after.Backend, string(after.Kind), after.ID, verifyStep)
		for i := range found {
			if f := &found[i]; !marked(bs.opt.Vault, f) && len(edited) < maxEdited {
				edited = append(edited, memproxy.Discrepancy{Class: memproxy.FaultRow, Code: memproxy.IntegrityLedger, Tenant: f.tenant(), MemoryKey: f.key(), Detail: editedRow})
				bs.edits.note(f.key(), f.tenant(), editedRow)
			}
		}
		if count != nil {
			count(len(found))
		}
		if err != nil || len(found) < verifyStep {
			return edited, err
		}
		after = found[len(found)-1].key()
	}
}

// marked reports whether a record is as it was written here, or says nothing.
func marked(v *keys.Vault, f *fields) bool {
	blank := f.texts[13] == "" && f.numbers[0] <= 0 && f.numbers[9] <= 0
	return v == nil || blank || v.MarkedRow(f.row, f.mark)
}

// acceptRows takes the edited records of a tenant as they are.
func acceptRows(t *transaction, tenant string) (n int) {
	t.save()
	for after := (key{}); ; {
		found := rows(t, scanFields, nextRecords, after.Backend, string(after.Kind), after.ID, verifyStep)
		for i := range found {
			if f := &found[i]; f.tenant() == tenant && !marked(t.store.opt.Vault, f) {
				k := f.key()
				t.run(`UPDATE record SET mac = ? WHERE backend = ? AND kind = ? AND id = ?`, t.store.opt.Vault.MarkRow(f.row), k.Backend, string(k.Kind), k.ID)
				t.records[k] = nil
				t.store.edits.forget(k)
				n++
			}
		}
		if len(found) < verifyStep {
			return n
		}
		after = found[len(found)-1].key()
	}
}
