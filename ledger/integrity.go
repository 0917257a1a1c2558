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

// Backends stores the state of each backend as a whole: its inventory, the progress of
// its seal, and the results of comparisons.
type Backends struct{ *store }

// Flag sets the integrity flags of memories to the codes of findings, or with an empty code
// clears them, and returns how many it changed. The memories' states do not change. A
// memory that is flagged because its tenant's chain is broken stays flagged until
// Chains.Accept.
func (bs Backends) Flag(ctx context.Context, flags ...memproxy.Discrepancy) (int, error) {
	return countEach(ctx, bs.store, flags, func(d *memproxy.Discrepancy) error {
		return cmp.Or(validKey(d.MemoryKey), storableParts("integrity flag", d.Tenant, string(d.Code)))
	}, (*transaction).flag)
}

func (t *transaction) flag(d *memproxy.Discrepancy) bool {
	r, st := t.status(d.MemoryKey)
	if st.Unverified == d.Code || st.Unverified == memproxy.IntegrityChain {
		return false
	}
	st.Unverified = d.Code
	if d.Code == memproxy.IntegrityMismatch || d.Code == "" {
		st.Rules = "" // the rules have not judged the present text
	}
	st.Tenant = cmp.Or(st.Tenant, d.Tenant)
	t.putStatus(r, st, r.prior)
	return true
}

// updateFlag updates a memory's integrity flag for a new version. If the tenant's chain
// is broken the memory is flagged. Otherwise a text that was written through the proxy
// clears the flag of an earlier out-of-band change.
func updateFlag(t *transaction, r *versionRow) {
	if isBreached(t, r.Tenant) {
		t.flag(&memproxy.Discrepancy{MemoryKey: r.MemoryKey, Tenant: r.Tenant, Code: memproxy.IntegrityChain})
		return
	}
	if r.Number == 1 || r.textless() {
		return // its first version, or a deletion
	}
	if row, st := t.status(r.MemoryKey); st.Unverified != "" && st.Unverified != memproxy.IntegrityChain {
		st.Unverified = ""
		t.putStatus(row, st, row.prior)
	}
}

// Inventory calls f with the memories that a backend should hold, a page at a time,
// ordered by id and without tombstones. Memories that are missing in the backend were
// deleted out-of-band.
func (bs Backends) Inventory(ctx context.Context, backend string, f func(page []memproxy.Ownership) error) error {
	return eachPage(inventoryPage, func(after memproxy.Ownership) ([]memproxy.Ownership, error) {
		return querySettled(ctx, bs.store, "list memories", scanPart(bs.store, ownerOf), `SELECT `+recordColumns+` FROM record
			WHERE backend = ? AND kind = 'memory' AND id > ? AND owned = 1 AND deleted = 0 ORDER BY id LIMIT ?`, backend, after.ID, inventoryPage)
	}, f)
}

const inventoryPage = 500 // maximum number of memories of one page of Inventory

// Sealed reports whether all content of a backend was recorded once, so that an object
// without a record was written out-of-band.
func (bs Backends) Sealed(ctx context.Context, backend string) (bool, error) {
	found, err := queryRows(ctx, bs.store, "look up a seal", scanOne[string], `SELECT backend FROM sealed WHERE backend = ?`, backend)
	return len(found) > 0, err
}

// Seal records that all content of a backend is recorded.
func (bs Backends) Seal(ctx context.Context, backend string) error {
	bad := require(backend != "" && storable(backend) == nil, "a backend is required")
	return bs.change(ctx, bad, func(t *transaction) {
		t.run(`DELETE FROM sealing WHERE backend = ?`, backend)
		t.sealed = append(t.sealed, backend)
		t.records[allRecords] = nil // drops cached records: an object without a record is now known to be out-of-band
		t.run(`INSERT INTO sealed (backend, at) VALUES (?, ?) ON CONFLICT DO NOTHING`, backend, t.now())
	})
}

// longestLease is longer than any lease. A lease that ends later was given by a wrong
// clock and counts as expired.
const longestLease = 24 * time.Hour

// leaseTime returns the clock for leases: the database's if several processes share it.
func leaseTime(t *transaction) (at time.Time) {
	if !t.store.opt.shared {
		return t.store.opt.Clock()
	}
	t.one(`SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)`, nil, (*sqlTime)(&at))
	return at
}

// Claim takes or renews a lease on a task that one process at a time does. It reports
// whether holder has the lease: if the task was free, if the lease had expired (or ends
// so late that it was given by a wrong clock), or if holder had it already.
func (bs Backends) Claim(ctx context.Context, name, holder string, lease time.Duration) (bool, error) {
	bad := require(name != "" && storable(name) == nil && storable(holder) == nil && lease > 0, "a claim needs a name and a lease")
	return changeResult(ctx, bs.store, bad, func(t *transaction) bool {
		now := leaseTime(t)
		n := t.run(`INSERT INTO claim (name, holder, until) VALUES (?1, ?2, ?3)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
			WHERE claim.holder = excluded.holder OR claim.until <= ?4 OR claim.until > ?5`,
			name, holder, toMicros(now.Add(lease)), toMicros(now), toMicros(now.Add(2*lease)))
		return n > 0
	})
}

// SealProgress returns the progress of recording a backend's memories, and false if that
// has not begun or has finished.
func (bs Backends) SealProgress(ctx context.Context, backend string) (memproxy.SealProgress, bool, error) {
	return first(querySettled(ctx, bs.store, "look up a seal", func(s scanner) (at memproxy.SealProgress, err error) {
		err = s.Scan(&at.Backend, &at.Cursor, &at.Pass, &at.Fresh, &at.Found)
		return at, err
	}, `SELECT backend, cursor, pass, fresh, found FROM sealing WHERE backend = ?`, backend))
}

// RecordFound stores memories that a backend holds and that have no known author,
// together with the progress at. It returns that progress with the newly recorded
// memories added to its counts. Existing records are not changed.
func (bs Backends) RecordFound(ctx context.Context, at memproxy.SealProgress, found ...memproxy.Found) (memproxy.SealProgress, error) {
	bad := cmp.Or(storableParts("sealing", at.Backend, at.Cursor), require(at.Backend != "", "a backend is required"), valid(found, func(f *memproxy.Found) error {
		return cmp.Or(validKey(f.MemoryKey), storableParts("memory that was found", f.SHA256), require(f.Backend == at.Backend, "one backend is required"))
	}))
	own := slices.Clone(found)
	next, err := changeResult(ctx, bs.store, bad, func(t *transaction) memproxy.SealProgress {
		next := at
		for i := range own {
			f := &own[i]
			r := t.record(f.MemoryKey)
			if r.listed || r.edited {
				continue
			}
			r.listed, r.firstSeen, r.dirty = true, f.SHA256, true
			if !r.HasOwner() {
				r.Presence, r.FirstSeen, r.listingKnown = memproxy.PresentAtSeal, f.SHA256, true
			}
			next.Fresh, next.Found = next.Fresh+1, next.Found+1
		}
		t.run(`INSERT INTO sealing (backend, cursor, pass, fresh, found) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (backend) DO UPDATE SET cursor = excluded.cursor, pass = excluded.pass, fresh = excluded.fresh, found = excluded.found`,
			next.Backend, next.Cursor, next.Pass, next.Fresh, next.Found)
		return next
	})
	if err != nil {
		return at, err
	}
	return next, nil
}

// editedRow is the reason for a row whose mark does not match its content.
const editedRow = "its row in the ledger was changed outside of memproxy"

// quarantinedRow returns the record that replaces an edited one: it has no owner and is
// quarantined. The row itself is kept as evidence until a person accepts it.
func quarantinedRow(s *store, f *fields) recordRow {
	k, why := f.key(), editedRow
	if !s.opt.Vault.MarkKnown(f.mark) {
		why = "its row in the ledger is signed with a missing key: all sidecars of a ledger must have the same vault.key"
	}
	s.edits.note(k, f.tenant(), why)
	return recordRow{key: k, stored: true, listingKnown: true, edited: true, Record: memproxy.Record{
		Owner:  memproxy.Ownership{Backend: k.Backend, Kind: k.Kind, ID: k.ID, Scope: memproxy.Scope{Tenant: memproxy.TenantInaccessible}, Deleted: f.numbers[deletedNumber] > 0},
		Status: quarantinedStatus(k, memproxy.TenantInaccessible, why),
	}}
}

func quarantinedStatus(k key, tenant, why string) memproxy.Status {
	return memproxy.Status{MemoryKey: k, Tenant: tenant, State: memproxy.StateQuarantined, Reason: why, Unverified: memproxy.IntegrityLedger}
}

// lostQuery finds ids with a history and without a record. A write makes both, and a
// record is removed only some time after its memory was deleted.
const lostQuery = `SELECT backend, kind, id FROM version v WHERE backend = ?1 AND kind = ?2 AND id IN (SELECT value FROM json_each(?3)) AND kind <> 'object'
	AND op NOT IN ('delete', 'purge') AND NOT EXISTS (SELECT 1 FROM version n WHERE n.backend = v.backend AND n.kind = v.kind AND n.id = v.id AND n.number > v.number)
	AND NOT EXISTS (SELECT 1 FROM record r WHERE r.backend = v.backend AND r.kind = v.kind AND r.id = v.id AND (r.owned > 0 OR r.state <> '' OR r.listed > 0))`

// lostStatus returns the status of a memory whose record was removed. The memory has no
// owner; its author may write it again, and a reviewer may promote it.
func lostStatus(s *store, k key) memproxy.Status {
	const why = "its row in the ledger was removed outside of memproxy"
	s.edits.note(k, "", why)
	return quarantinedStatus(k, "", why)
}

// addLost adds to had a status for each object whose record was removed.
func addLost(ctx context.Context, s *store, had memproxy.Records, group key, ids []string) error {
	ask := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		group.ID = id
		_, known := had[group]
		return known
	})
	if len(ask) == 0 {
		return nil
	}
	found, err := fetch(ctx, s, scanKey, lostQuery, group.Backend, string(group.Kind), asJSON(ask))
	for _, k := range found {
		had[k] = &memproxy.Record{Status: lostStatus(s, k)}
	}
	return err
}

// maxEdits limits the edited rows that are remembered as reported. Further rows are
// reported again when they are read again.
const maxEdits = 10000

// edits collects the rows that were found edited, each once, until they are reported.
type edits struct {
	mu      sync.Mutex
	found   map[key]bool
	waiting []memproxy.Discrepancy
	broken  func()
}

func newEdits(opt *Options) *edits { return &edits{found: map[key]bool{}, broken: opt.OnBroken} }

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

// ReportEdits calls report once for each row that was found changed outside of memproxy. A
// row whose report fails is reported again, with the remaining rows, by the next call.
func (bs Backends) ReportEdits(report func(memproxy.Discrepancy) error) error {
	e := bs.edits
	for {
		e.mu.Lock()
		if len(e.waiting) == 0 {
			e.mu.Unlock()
			return nil
		}
		next := e.waiting[0]
		e.waiting = e.waiting[1:] // concurrent calls report different rows
		e.mu.Unlock()
		if err := report(next); err != nil {
			e.mu.Lock()
			e.waiting = append(e.waiting, next)
			e.mu.Unlock()
			return err
		}
	}
}

// maxEdited limits the edited records that VerifyRecords returns.
const maxEdited = 100

// UnreadableRow ends the detail of an edited record that cannot be read, nor be accepted.
const UnreadableRow = ", and cannot be read: restore the ledger"

// VerifyRecords reads all records and returns faults for at most maxEdited edited ones, of one
// tenant if one is given, with the tenants that their rows name, and the number of others that
// can be read. count, if set, is called with the number of records read.
func (bs Backends) VerifyRecords(ctx context.Context, tenant *string, count func(int)) (edited []memproxy.ChainFault, more int, err error) {
	err = eachRecord(ctx, bs.store, func(found []fields) error {
		for i := range found {
			f := &found[i]
			switch {
			case tenant != nil && f.tenant() != *tenant || marked(bs.opt.Vault, f):
			case len(edited) < maxEdited:
				detail := editedRow
				if !f.readable() {
					detail += UnreadableRow
				}
				edited = append(edited, memproxy.ChainFault{Class: memproxy.FaultRow, Tenant: f.tenant(), MemoryKey: f.key(), Detail: detail})
				bs.edits.note(f.key(), f.tenant(), editedRow)
			case f.readable():
				more++
			}
		}
		if count != nil {
			count(len(found))
		}
		return nil
	})
	return edited, more, err
}

// eachRecord calls do with all records, page by page, outside of any transaction.
func eachRecord(ctx context.Context, s *store, do func([]fields) error) error {
	return eachPage(verifyStep, func(after fields) ([]fields, error) {
		return queryRows(ctx, s, "read records", scanFields, nextRecords, after.key(), verifyStep)
	}, do)
}

// marked reports whether a record's mark is valid, or the record is empty.
func marked(v *keys.Vault, f *fields) bool {
	blank := f.texts[stateText] == "" && f.numbers[ownedNumber] <= 0 && f.numbers[listedNumber] <= 0
	return blank || v.MarkedRow(f.row, f.mark)
}

func (f *fields) readable() bool {
	return f.texts[stateText] == "" || readFindings(&memproxy.Status{}, f.texts[findingsText]) == nil
}

// acceptRows accepts the edited records of a tenant as they are, with valid marks, and returns
// their number. One that cannot be read stays edited, because with a valid mark it would fail
// every query, and so does one that changes meanwhile.
func acceptRows(ctx context.Context, s *store, tenant string) (n int, err error) {
	err = eachRecord(ctx, s, func(found []fields) error {
		edited := slices.DeleteFunc(found, func(f fields) bool {
			return f.tenant() != tenant || !f.readable() || marked(s.opt.Vault, &f)
		})
		some, err := inChunks(ctx, s, edited, func(t *transaction, f *fields) bool {
			t.records[f.key()] = nil
			t.store.edits.forget(f.key())
			return t.run(`UPDATE record SET mac = ?`+ofKey, t.store.opt.Vault.MarkRow(f.row), f.key()) > 0
		})
		n += some
		return err
	})
	return n, err
}
