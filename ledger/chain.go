package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger/keys"
)

const chainDomain = "memproxy version 1" // version of the encoding that links are hashes of

// link hashes all fields of a version together with the links of the memory's previous
// version and of the tenant's previous record. It excludes fields that may change later
// (pinned, compacted) and the place, so that a moved record is still recognised.
func (r *versionRow) link() []byte {
	sum := sha256.Sum256(keys.AppendFields(make([]byte, 0, 1<<10), []string{
		chainDomain, r.Backend, string(r.Kind), r.ID, r.Tenant, r.Field, string(r.Op), r.Actor, string(r.Trust), string(r.Attestation),
		r.Decision, r.SHA256, r.Before, r.metadata, r.previous, r.behind,
	}, r.Number, r.at, int64(r.Confidence), int64(r.Score)))
	return sum[:]
}

// head describes both ends of a tenant's chain: its last record, and the base.
type head struct {
	tenant   string
	place    int64
	link     string
	base     int64 // place of the last record that was trimmed
	baseLink string
	mac      []byte
	changed  bool // putHeads has to write it
	// broken is set if the head was not signed by this installation. A broken head is
	// never signed again: appending does not repair a break, only a person accepts it.
	broken bool
}

func (h *head) data() []byte {
	return keys.AppendFields(nil, []string{h.tenant, h.link, h.baseLink}, h.place, h.base)
}

const headColumns = `tenant, place, link, base, base_link, mac`

// The purposes under which heads are signed: one for each kind of ledger whose rows are signed
// when it is migrated. This detects a ledger that was made to look as old as such a one.
const (
	unmarkedHead  = "chain"
	markedHead    = "chain of a ledger with marks"
	confirmedHead = "chain of a ledger with confirmations"
)

// scanHead reads heads and checks their signatures.
func scanHead(vault *keys.Vault, as string) func(scanner) (head, error) {
	return func(s scanner) (h head, err error) {
		err = s.Scan(&h.tenant, &h.place, &h.link, &h.base, &h.baseLink, &h.mac)
		if vault == nil {
			err = cmp.Or(err, ErrNoVault)
		}
		h.broken = !vault.Signed(as, h.data(), h.mac)
		return h, err
	}
}

const lastRecord = `SELECT ` + versionColumns + ` FROM version WHERE tenant = ? ORDER BY place DESC LIMIT 1`

// head returns the tenant's head, locked against other transactions until this one
// ends, and begins a chain for a new tenant. A head that is marked as changed is written
// once, at the end of the transaction, however many versions were appended.
func (t *transaction) head(tenant string) *head {
	if t.store.opt.Vault == nil {
		t.fail(ErrNoVault)
	}
	if h := t.heads[tenant]; h != nil {
		return h
	}
	for try := 0; ; try++ {
		found, there := row(t, scanHead(t.store.opt.Vault, confirmedHead), `UPDATE chain SET place = place WHERE tenant = ? RETURNING `+headColumns, tenant)
		if !there && try > 0 {
			t.fail(fmt.Errorf("%w: the chain has no head", ErrUnknown))
		}
		if there || t.err != nil {
			t.heads[tenant] = &found
			return &found
		}
		h := head{tenant: tenant, mac: []byte{}}
		if last, there := row(t, scanVersionRow, lastRecord, tenant); there { // the head was removed: the chain continues, unsigned
			h.place, h.link = last.place, last.Link
		} else {
			h.mac = t.store.opt.Vault.Sign(confirmedHead, h.data())
		}
		t.run(`INSERT INTO chain (`+headColumns+`) VALUES (?,?,?,0,'',?) ON CONFLICT DO NOTHING`, tenant, h.place, h.link, h.mac)
	}
}

func (t *transaction) putHeads() {
	for _, h := range t.heads {
		if !h.changed {
			continue
		}
		h.mac = []byte{}
		if !h.broken {
			h.mac = t.store.opt.Vault.Sign(confirmedHead, h.data())
		}
		t.run(`UPDATE chain SET place = ?, link = ?, base = ?, base_link = ?, mac = ? WHERE tenant = ?`,
			h.place, h.link, h.base, h.baseLink, h.mac, h.tenant)
	}
}

// Chains verifies the tenants' hash chains of versions and records their breaches.
type Chains struct{ *store }

// Heads returns the heads of all tenants' chains. If they are kept where an editor of
// this store cannot reach, as in the audit log, they let Verify detect a chain whose
// end was cut off.
func (cs Chains) Heads(ctx context.Context) ([]memproxy.ChainHead, error) {
	found, err := querySettled(ctx, cs.store, "list chains", scanHead(cs.opt.Vault, confirmedHead), `SELECT `+headColumns+` FROM chain ORDER BY tenant`)
	out := make([]memproxy.ChainHead, len(found))
	for i, h := range found {
		out[i] = memproxy.ChainHead{Tenant: h.tenant, Position: h.place, Link: h.link}
	}
	return out, err
}

// Trim removes the records of compacted versions from before a time, moves the base of the
// chain after them, and returns how many it removed, also along with an error. Older records
// of versions whose text is kept remain. Their later deletion is no longer detected; changes
// of them are.
func (cs Chains) Trim(ctx context.Context, tenant string, before time.Time) (removed int, _ error) {
	bad := require(storable(tenant) == nil && !before.IsZero(), "trim: a tenant and a time are required")
	for after := int64(0); ; {
		step, err := doResult(ctx, cs.store, job{bad: bad}, func(t *transaction) (did struct{ last, removed int64 }) {
			h := t.head(tenant)
			if h.broken {
				t.fail(fmt.Errorf("%w: the chain of the tenant is broken and is kept as it is", ErrState))
			}
			// The last record from before the time becomes the base.
			last, there := row(t, scanVersionRow, `SELECT `+versionColumns+` FROM (SELECT * FROM version WHERE tenant = ? AND place > ? ORDER BY place LIMIT ?) step
				WHERE place <= ? OR at < ? ORDER BY place DESC LIMIT 1`, tenant, after, pruneStep, h.base, toMicros(before))
			if there && last.place > h.base {
				h.base, h.baseLink, h.changed = last.place, last.Link, true
			}
			did.last = last.place
			did.removed = t.run(`DELETE FROM version WHERE tenant = ? AND place > ? AND place <= ? AND compacted = 1`, tenant, after, last.place)
			return did
		})
		removed += int(step.removed)
		if err != nil || step.last == 0 {
			return removed, err
		}
		after = step.last
	}
}

// Accept accepts a tenant's chain as it is, on behalf of a person who knows what
// happened to it, for example after a restore from a backup. From then on the chain is
// verified from its present head, and older records each alone. The faults that Verify
// found and all breaches are stored as accepted, except texts that differ from their
// hashes, which remain faults. The tenant's edited records are accepted, and the flags of
// memories cleared, and those of such texts set, before the chain is: after an error it is
// still broken, and Accept can be repeated. Accept returns the head from which the chain
// continues and the number of these records and memories.
func (cs Chains) Accept(ctx context.Context, tenant string, faults []memproxy.ChainFault) (memproxy.ChainHead, int, error) {
	rows, err := acceptRows(ctx, cs.store, tenant)
	if err != nil {
		return memproxy.ChainHead{}, 0, err
	}
	differs := map[key]bool{}
	var texts []memproxy.Discrepancy
	for _, f := range faults {
		if f.Class == memproxy.FaultText {
			differs[f.MemoryKey] = true
			texts = append(texts, memproxy.Discrepancy{MemoryKey: f.MemoryKey, Tenant: tenant, Code: memproxy.IntegrityChain})
		}
	}
	if _, err := inChunks(ctx, cs.store, texts, (*transaction).flag); err != nil {
		return memproxy.ChainHead{}, 0, err
	}
	clearFlag := func(t *transaction, k *key) bool {
		r, st := t.status(*k)
		if st.Unverified != memproxy.IntegrityChain || differs[*k] {
			return false
		}
		st.Unverified = ""
		t.putStatus(r, st, r.prior)
		return true
	}
	flags, err := clearFlags(ctx, cs.store, tenant, clearFlag)
	if err != nil {
		return memproxy.ChainHead{}, 0, err
	}
	end, err := changeResult(ctx, cs.store, storableParts("chain", tenant), func(t *transaction) memproxy.ChainHead {
		h := rebase(t, tenant)
		acceptBreaches(t, h, faults)
		for _, r := range t.lock(math.MaxInt32, `unverified <> '' AND status_tenant = ? AND unverified = ?`, tenant, string(memproxy.IntegrityChain)) { // flagged meanwhile
			clearFlag(t, &r.key)
		}
		return memproxy.ChainHead{Tenant: tenant, Position: h.place, Link: h.link}
	})
	return end, rows + flags, err
}

// rebase starts a tenant's chain anew after its last record, with a signed head.
func rebase(t *transaction, tenant string) *head {
	h := t.head(tenant)
	// A head that was rolled back or removed may be before existing records. The places of
	// the next versions must not collide with those.
	last, there := row(t, scanVersionRow, lastRecord, tenant)
	if there && (last.place > h.place || h.broken && last.place == h.place) {
		h.place, h.link = last.place, last.Link
	}
	h.base, h.baseLink, h.broken, h.changed = h.place, h.link, false, true
	return h
}

// acceptBreaches stores all faults up to the new base as accepted. Nothing follows the
// base yet, so any fault that is found there later is new.
func acceptBreaches(t *transaction, h *head, faults []memproxy.ChainFault) {
	all := breachesIn(t.opened(ref(refBreaches, h.tenant), h.tenant))
	for i := range faults {
		if f := &faults[i]; f.Class != memproxy.FaultText && f.Class != memproxy.FaultRow && !isNoted(all, f) {
			all = append(all, memproxy.Breach{Position: f.Position, Class: f.Class})
		}
	}
	all = slices.DeleteFunc(all, func(b memproxy.Breach) bool { return b.Position > h.base })
	for i := range all {
		all[i].Accepted = true
	}
	putBreaches(t, h.tenant, all)
}

// clearFlags calls clearFlag for the memories of a tenant that are flagged because of a broken
// chain, and returns how many it cleared. BETWEEN lets SQLite read a page in the order
// of the index, of flagged memories; for = it sorts all of them each time.
func clearFlags(ctx context.Context, s *store, tenant string, clearFlag func(*transaction, *key) bool) (cleared int, err error) {
	err = eachPage(verifyStep, func(after key) ([]key, error) {
		return queryRows(ctx, s, "find flagged memories", scanKey, `SELECT backend, kind, id FROM record`+viaUnverified+`
			WHERE unverified <> '' AND status_tenant BETWEEN ?1 AND ?1 AND unverified = ?2 AND (backend, status_tenant, kind, id) > (?3, ?1, ?4, ?5)
			ORDER BY backend, status_tenant, kind, id LIMIT ?6`, tenant, string(memproxy.IntegrityChain), after, verifyStep)
	}, func(page []key) error {
		some, err := inChunks(ctx, s, page, clearFlag)
		cleared += some
		return err
	})
	return cleared, err
}

// NoteBreach stores a fault of a tenant's chain, flags the memories that have records
// at or after its position or none of their present text, because it was removed, and
// reports whether the fault is new. Accept undoes both.
func (cs Chains) NoteBreach(ctx context.Context, f memproxy.ChainFault) (bool, error) {
	bad := storableParts("fault", f.Tenant, string(f.Class), f.Detail)
	if bad != nil {
		return false, bad
	}
	last, err := flagVersionsFrom(ctx, cs.store, f) // first: a breach that is stored is not noted again
	if err := cmp.Or(err, flagWithoutVersion(ctx, cs.store, f.Tenant)); err != nil {
		return false, err
	}
	return changeResult(ctx, cs.store, nil, func(t *transaction) (fresh bool) {
		if !noteBreach(t, &f) {
			return false
		}
		t.saveRecords()
		for _, k := range rows(t, scanKey, `SELECT DISTINCT backend, kind, id FROM version WHERE tenant = ? AND place > ?`, f.Tenant, last) {
			t.flag(&memproxy.Discrepancy{MemoryKey: k, Tenant: f.Tenant, Code: memproxy.IntegrityChain})
		}
		return true
	})
}

// flagVersionsFrom flags the memories that have versions at or after a fault's position, and returns
// the last position that it read. Like flagWithoutVersion, it reads page by page and outside
// of the writer, for which all writes would wait.
func flagVersionsFrom(ctx context.Context, s *store, f memproxy.ChainFault) (last int64, err error) {
	last = f.Position - 1
	err = eachPage(verifyStep, func(memproxy.Discrepancy) ([]memproxy.Discrepancy, error) {
		return queryRows(ctx, s, "find memories behind a break", func(from scanner) (d memproxy.Discrepancy, err error) {
			d.Tenant, d.Code = f.Tenant, memproxy.IntegrityChain
			return d, from.Scan(&last, &d.Backend, &d.Kind, &d.ID)
		}, `SELECT place, backend, kind, id FROM version WHERE tenant = ? AND place > ? ORDER BY place LIMIT ?`, f.Tenant, last, verifyStep)
	}, func(page []memproxy.Discrepancy) error {
		_, err := inChunks(ctx, s, page, (*transaction).flag)
		return err
	})
	return last, err
}

// flagWithoutVersion flags the memories of a tenant that have no version of their present text.
func flagWithoutVersion(ctx context.Context, s *store, tenant string) error {
	type memory struct {
		memproxy.Discrepancy
		sound bool
	}
	return eachPage(verifyStep, func(after memory) ([]memory, error) {
		return queryRows(ctx, s, "find memories without versions", func(from scanner) (m memory, err error) {
			m.Tenant, m.Code = tenant, memproxy.IntegrityChain
			err = from.Scan(&m.Backend, &m.Kind, &m.ID, (*sqlFlag)(&m.sound))
			return m, err
		}, `SELECT backend, kind, id, CASE WHEN kind <> 'memory' OR tenant <> ?4 OR sha256 = '' OR deleted > 0 OR unverified = ?5 OR EXISTS
				(SELECT 1 FROM version v WHERE v.backend = r.backend AND v.kind = r.kind AND v.id = r.id AND v.sha256 = r.sha256) THEN 1 ELSE 0 END
			FROM record r WHERE (backend, kind, id) > (?1, ?2, ?3) ORDER BY backend, kind, id LIMIT ?6`, after.MemoryKey, tenant, string(memproxy.IntegrityChain), verifyStep)
	}, func(page []memory) error {
		lost := slices.DeleteFunc(page, func(m memory) bool { return m.sound })
		_, err := inChunks(ctx, s, lost, func(t *transaction, m *memory) bool { return t.flag(&m.Discrepancy) })
		return err
	})
}

// inChunks runs f for all elements, in transactions of 200, and returns the number of calls
// that reported a change. Each call is a query, and a transaction may take two seconds.
func inChunks[T any](ctx context.Context, s *store, all []T, f func(*transaction, *T) bool) (n int, _ error) {
	for some := range slices.Chunk(all, 200) {
		did, err := countEach(ctx, s, some, func(*T) error { return nil }, f)
		if n += did; err != nil {
			return n, err
		}
	}
	return n, nil
}

// breachesIn returns the breaches of a tenant's chain from the content that lists them. It is
// encrypted, so that an edit of the ledger neither accepts a fault nor keeps one from being
// reported. Where the content is missing or was edited, every fault is reported again.
func breachesIn(content []byte) (all []memproxy.Breach) {
	_ = json.Unmarshal(content, &all) // nil if there is none
	return all
}

func putBreaches(t *transaction, tenant string, all []memproxy.Breach) {
	clear(t.breached)
	t.run(`DELETE FROM content WHERE ref = ?`, ref(refBreaches, tenant))
	t.encrypt(ref(refBreaches, tenant), tenant, inJSON(all))
}

// noteBreach adds a fault to the breaches, and reports whether it is new.
func noteBreach(t *transaction, f *memproxy.ChainFault) bool {
	t.run(`UPDATE chain SET place = place WHERE tenant = ?`, f.Tenant) // locks the list, like Accept
	all := breachesIn(t.opened(ref(refBreaches, f.Tenant), f.Tenant))
	if isNoted(all, f) {
		return false
	}
	putBreaches(t, f.Tenant, append(all, memproxy.Breach{Position: f.Position, Class: f.Class}))
	return true
}

func isNoted(all []memproxy.Breach, f *memproxy.ChainFault) bool {
	return slices.ContainsFunc(all, func(b memproxy.Breach) bool { return b.Position == f.Position && b.Class == f.Class })
}

// Breaches returns the stored faults of a tenant's chain.
func (cs Chains) Breaches(ctx context.Context, tenant string) ([]memproxy.Breach, error) {
	content, err := cs.decrypt(ctx, ref(refBreaches, tenant), tenant)
	switch {
	case errors.Is(err, ErrSealed):
		cs.edits.note(memproxy.MemoryKey{Kind: "breach"}, tenant, editedRow)
	case err != nil && !errors.Is(err, ErrShredded):
		return nil, err
	}
	return breachesIn(content), nil
}

// isBreached reports whether a tenant's chain has an unaccepted fault. It caches the
// result in t.breached, which code that changes breaches in the transaction clears.
func isBreached(t *transaction, tenant string) bool {
	broken, known := t.breached[tenant]
	if !known {
		broken = slices.ContainsFunc(breachesIn(t.opened(ref(refBreaches, tenant), tenant)), func(b memproxy.Breach) bool { return !b.Accepted })
		t.breached[tenant] = broken
	}
	return broken
}
