package ledger

import (
	"context"

	"github.com/memproxy/memproxy"
)

// Accept takes a tenant's chain as it is, for a person who knows what happened
// to it: after the store was restored from a backup, say. From here on the
// chain is verified from its present end; older records are verified each
// alone. The faults, which Verify found, and all breaches are kept as accepted;
// a text that is not the recorded one stays a fault. Marks on memories are
// taken back, but for those of such texts. It returns the end from which the
// chain goes on, and how many memories are not doubted any more.
func (l *Ledger) Accept(ctx context.Context, tenant string, faults []memproxy.ChainFault) (memproxy.ChainHead, int, error) {
	if l.opt.Vault == nil {
		return memproxy.ChainHead{}, 0, ErrNoVault
	}
	if storable(tenant) != nil {
		return memproxy.ChainHead{}, 0, refused("the tenant cannot be stored")
	}
	type accepted struct {
		end     memproxy.ChainHead
		cleared int
	}
	out, err := changed(ctx, l, func(t *transaction) (out accepted, err error) {
		h, err := t.rebase(tenant)
		if err != nil {
			return out, err
		}
		out.end = memproxy.ChainHead{Tenant: tenant, Position: h.place, Link: h.link}
		if err := t.acceptBreaches(h, faults); err != nil {
			return out, err
		}
		out.cleared, err = t.acquit(tenant, faults)
		return out, err
	})
	return out.end, out.cleared, err
}

// rebase lets a chain begin anew behind its last record, signed.
func (t *transaction) rebase(tenant string) (head, error) {
	h, err := t.head(tenant)
	if err != nil {
		return h, err
	}
	// A head that was put back, or whose row is gone, may stand before records
	// that are there. Writing on must not meet them.
	last, err := rows(t, scanRecord, lastRecord, tenant)
	if err != nil {
		return h, err
	}
	if len(last) == 1 && (last[0].place > h.place || h.broken && last[0].place == h.place) {
		h.place, h.link = last[0].place, last[0].Link
	}
	h.base, h.baseLink, h.broken = h.place, h.link, false
	t.setHead(h)
	return h, nil
}

// acceptBreaches keeps what is wrong up to the new beginning as accepted.
// Behind it nothing is written yet: what is found there later is new, whatever
// was found there before.
func (t *transaction) acceptBreaches(h head, faults []memproxy.ChainFault) error {
	clear(t.breached)
	now := max(1, micros(t.l.opt.Clock()))
	if _, err := t.run(`DELETE FROM breach WHERE tenant = ? AND place > ?`, h.tenant, h.base); err != nil {
		return err
	}
	if _, err := t.run(`UPDATE breach SET accepted = ? WHERE tenant = ? AND accepted = 0`, now, h.tenant); err != nil {
		return err
	}
	for i := range faults {
		f := &faults[i]
		if f.Class == memproxy.FaultText || f.Position > h.base {
			continue
		}
		if storable(f.Detail) != nil {
			return refused("a part of the fault cannot be stored")
		}
		_, err := t.run(`INSERT INTO breach (tenant, place, class, detail, at, accepted) VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT DO NOTHING`,
			h.tenant, f.Position, string(f.Class), f.Detail, now)
		if err != nil {
			return err
		}
	}
	return nil
}

// acquit takes the marks of a broken chain off a tenant's memories.
func (t *transaction) acquit(tenant string, faults []memproxy.ChainFault) (int, error) {
	free, err := rows(t, scanKey,
		`UPDATE standing SET unverified = '' WHERE tenant = ? AND unverified = ? RETURNING backend, kind, id`, tenant, string(memproxy.IntegrityChain))
	if err != nil {
		return 0, err
	}
	t.changes.reread(free...)
	n := len(free)
	for i := range faults {
		if faults[i].Class != memproxy.FaultText {
			continue
		}
		again, err := t.cast(&memproxy.Doubt{MemoryKey: faults[i].MemoryKey, Tenant: tenant, Code: memproxy.IntegrityChain})
		if err != nil {
			return 0, err
		}
		if again {
			n--
		}
	}
	return max(0, n), nil
}
