package ledger

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger/keys"
)

const (
	verifyStep = 1000 // number of records that one query reads
	maxFaults  = 100  // number of unaccepted faults at which a verification ends
)

// VerifyOptions select what is checked.
type VerifyOptions struct {
	// Texts decrypts every text and compares it with its hash.
	Texts bool
	// Anchor is a head that was kept elsewhere, or nil.
	Anchor *memproxy.ChainHead
	// Count, if set, is called with the number of further records checked.
	Count func(int)
}

// verifier walks the chain of one tenant.
type verifier struct {
	store  *store
	opt    VerifyOptions
	head   head
	report memproxy.ChainReport
	last   versionRow // the preceding record; its place is 0 at the start
	sound  bool       // whether the preceding record was sound
	open   int        // number of unaccepted faults
	noted  []memproxy.Breach
}

// Verify walks the chain of a tenant's versions and reports records that were changed,
// truncated, deleted, reordered or forged out-of-band. It changes nothing. The error is
// about the store; faults are in the report, at most about maxFaults that are not
// accepted.
//
// A rollback of the end of the chain, head included, to an earlier state can be
// detected only with an Anchor.
func (cs Chains) Verify(ctx context.Context, tenant string, opt VerifyOptions) (memproxy.ChainReport, error) {
	noted, err := cs.Breaches(ctx, tenant)
	v := &verifier{store: cs.store, opt: opt, sound: true, report: memproxy.ChainReport{Tenant: tenant}, noted: noted}
	if err != nil {
		return v.report, err
	}
	h, headed, err := headOf(ctx, cs.store, tenant)
	if err != nil {
		return v.report, err
	}
	if headed {
		v.head = h
		v.report.Head = memproxy.ChainHead{Tenant: tenant, Position: v.head.place, Link: v.head.link}
		if v.head.broken {
			v.add(*endFault(memproxy.FaultForge, tenant, h.place, unsigned, noted))
		}
		v.last = versionRow{place: v.head.base}
		v.last.Link = v.head.baseLink
	}
	// The next run checks records that are written after the head was read.
	err = v.records(ctx, ` WHERE tenant = ? AND place > ? ORDER BY place`, []any{tenant}, v.last.place, func(r *versionRow) (int64, error) {
		return r.place, v.step(ctx, r, headed)
	})
	if err == nil { // records before the base that were not trimmed, each by itself
		err = v.records(ctx, ` WHERE tenant = ? AND place <= ? AND place > ? ORDER BY place`, []any{tenant, v.head.base}, 0, func(r *versionRow) (int64, error) {
			v.report.Checked++
			v.selfCheck(r)
			return r.place, v.text(ctx, r)
		})
	}
	if err != nil {
		return v.report, err
	}
	return v.report, v.end(ctx, headed)
}

// records passes the records after a number to check, which returns the number of each.
func (v *verifier) records(ctx context.Context, where string, of []any, after int64, check func(*versionRow) (int64, error)) error {
	for v.open < maxFaults {
		found, err := querySettled(ctx, v.store, "read versions", scanVersionRow, `SELECT `+versionColumns+` FROM version`+where+` LIMIT ?`,
			append(slices.Clip(of), after, verifyStep)...)
		for i := range found {
			if after, err = check(&found[i]); err != nil {
				return err
			}
		}
		if v.opt.Count != nil {
			v.opt.Count(len(found))
		}
		if err != nil || len(found) < verifyStep {
			return err
		}
	}
	return nil
}

func (v *verifier) fault(class memproxy.FaultClass, place int64, r *versionRow, detail string) {
	f := memproxy.ChainFault{Class: class, Tenant: v.report.Tenant, Position: place, Detail: detail}
	f.Accepted = place <= v.head.base && slices.Contains(v.noted, memproxy.Breach{Position: place, Class: class, Accepted: true}) // a later one is in an earlier list that was put back
	if r != nil {
		f.MemoryKey, f.Version = r.MemoryKey, r.Number
	}
	v.add(f)
}

func (v *verifier) add(f memproxy.ChainFault) {
	if !f.Accepted {
		v.open++
	}
	v.report.Faults = append(v.report.Faults, f)
}

// step checks one record and its link to the preceding one.
func (v *verifier) step(ctx context.Context, r *versionRow, headed bool) error {
	if headed && r.place > v.head.place {
		// Written after the head was read, or forged: the signature shows which.
		if v.selfCheck(r) {
			now, there, err := headOf(ctx, v.store, r.Tenant)
			if err != nil {
				return err
			}
			if !there || now.place < r.place {
				v.fault(memproxy.FaultReorder, r.place, r, "a record after the end of the chain")
			}
		}
		v.last.place = r.place
		return nil
	}
	v.report.Checked++
	sound := v.selfCheck(r)
	follows := r.place == v.last.place+1 && r.behind == v.last.Link
	if sound && v.sound && !follows {
		if err := v.reportGap(ctx, r); err != nil {
			return err
		}
	} else if r.place > v.last.place+1 {
		v.fault(memproxy.FaultDelete, v.last.place+1, nil, fmt.Sprintf("%d records are missing", r.place-v.last.place-1))
	}
	v.last, v.sound = *r, sound
	return v.text(ctx, r)
}

// selfCheck checks that a record is unchanged and signed by this installation.
func (v *verifier) selfCheck(r *versionRow) bool {
	class := r.fault(v.store.opt.Vault)
	switch class {
	case memproxy.FaultTamper:
		v.fault(class, r.place, r, "the record was changed")
	case memproxy.FaultForge:
		v.fault(class, r.place, r, "the record is not signed by this installation")
	}
	return class == ""
}

// fault returns the fault that a record shows without its neighbours, or "".
func (r *versionRow) fault(v *keys.Vault) memproxy.FaultClass {
	switch link := r.link(); {
	case hex.EncodeToString(link) != r.Link:
		return memproxy.FaultTamper
	case !v.Signed("version", link, r.mac):
		return memproxy.FaultForge
	}
	return ""
}

// moveRange is how many positions from where it was written a record is looked for. One that
// was moved farther away is reported as deleted there.
const moveRange = 1000

// reportGap reports the fault between two records that are sound by themselves: the record
// that this one followed was moved or deleted.
func (v *verifier) reportGap(ctx context.Context, r *versionRow) error {
	elsewhere, err := querySettled(ctx, v.store, "find a record", scanOne[int64],
		`SELECT place FROM version WHERE tenant = ? AND place BETWEEN ? AND ? AND link = ? LIMIT 1`, r.Tenant, r.place-moveRange, r.place+moveRange, r.behind)
	if err != nil {
		return err
	}
	if len(elsewhere) == 1 && elsewhere[0] != r.place-1 || r.behind == "" && r.place > 1 {
		v.fault(memproxy.FaultReorder, r.place, r, "the record is not at the position where it was written")
		return nil
	}
	v.fault(memproxy.FaultDelete, r.place-1, r, "the record before this one is missing")
	return nil
}

// text checks that the text of a version exists and has the recorded hash.
func (v *verifier) text(ctx context.Context, r *versionRow) error {
	if r.Compacted {
		newer, err := querySettled(ctx, v.store, "find a version", scanOne[int64],
			`SELECT number FROM version`+ofKey+` AND number > ? LIMIT 1`, r.MemoryKey, r.Number)
		if err == nil && len(newer) == 0 && r.Op != memproxy.OpPurge {
			v.fault(memproxy.FaultText, r.place, r, "the text of the newest version was deleted")
		}
		return err
	}
	if !v.opt.Texts || r.textless() {
		return nil
	}
	err := readText(ctx, v.store, r)
	r.Text, r.Metadata = "", nil
	switch {
	case errors.Is(err, ErrShredded):
		v.fault(memproxy.FaultText, r.place, r, "the text is gone")
	case errors.Is(err, ErrSealed):
		v.fault(memproxy.FaultText, r.place, r, "the text differs from the one that was recorded")
	default:
		return err
	}
	return nil
}

// end compares the end of the chain with its head and the anchor.
func (v *verifier) end(ctx context.Context, headed bool) error {
	switch {
	case !headed && v.report.Checked > 0:
		v.fault(memproxy.FaultTruncate, v.last.place, nil, "the end of the chain is no longer recorded")
	case v.last.place < v.head.place && v.open < maxFaults:
		v.fault(memproxy.FaultTruncate, v.last.place+1, nil, fmt.Sprintf("%d records are missing at the end", v.head.place-v.last.place))
	case v.sound && v.last.place == v.head.place && v.last.Link != v.head.link:
		v.fault(memproxy.FaultReorder, v.last.place, nil, "the last record is not the one that was written last")
	}
	if v.opt.Anchor == nil {
		return nil
	}
	found, err := reaches(ctx, v.store, v.head, *v.opt.Anchor, v.noted)
	if err == nil && found != nil && (found.Class != memproxy.FaultDelete || v.open == 0) { // otherwise the missing record is reported already
		v.add(*found)
	}
	return err
}

// Reaches checks that a tenant's chain still contains an earlier head that was kept
// elsewhere, and that its present head is signed. It reads two records and returns the
// fault, or nil. Every chain contains position zero.
func (cs Chains) Reaches(ctx context.Context, anchor memproxy.ChainHead) (*memproxy.ChainFault, error) {
	h, _, err := headOf(ctx, cs.store, anchor.Tenant)
	if err != nil {
		return nil, err
	}
	noted, err := cs.Breaches(ctx, anchor.Tenant)
	if err == nil && h.broken {
		return endFault(memproxy.FaultForge, h.tenant, h.place, unsigned, noted), nil
	}
	return reaches(ctx, cs.store, h, anchor, noted)
}

// unsigned is the detail of the fault of a head with an invalid signature.
const unsigned = "the end of the chain is not signed by this installation"

// endFault returns a fault of the end of a chain. The chain grows, and the fault stays where it
// was noted, so that it is not reported again.
func endFault(class memproxy.FaultClass, tenant string, place int64, detail string, noted []memproxy.Breach) *memproxy.ChainFault {
	for _, b := range noted {
		if b.Class == class && !b.Accepted {
			place = min(place, b.Position)
		}
	}
	return &memproxy.ChainFault{Class: class, Tenant: tenant, Position: place, Detail: detail}
}

// headOf returns the head of a tenant's chain, if there is one.
func headOf(ctx context.Context, s *store, tenant string) (head, bool, error) {
	return first(querySettled(ctx, s, "look up a chain", scanHead(s.opt.Vault, confirmedHead), `SELECT `+headColumns+` FROM chain WHERE tenant = ?`, tenant))
}

func reaches(ctx context.Context, s *store, h head, a memproxy.ChainHead, noted []memproxy.Breach) (*memproxy.ChainFault, error) {
	fault := func(class memproxy.FaultClass, place int64, detail string) (*memproxy.ChainFault, error) {
		return &memproxy.ChainFault{Class: class, Tenant: a.Tenant, Position: place, Detail: detail}, nil
	}
	switch {
	case a.Position == 0, a.Position < h.base: // the anchored record has been trimmed
		return nil, nil
	case a.Position > h.place:
		return endFault(memproxy.FaultTruncate, a.Tenant, h.place+1, fmt.Sprintf("the chain once reached position %d", a.Position), noted), nil
	}
	link := h.baseLink
	if a.Position > h.base {
		found, there, err := first(querySettled(ctx, s, "find a record", scanOne[string], `SELECT link FROM version WHERE tenant = ? AND place = ?`, a.Tenant, a.Position))
		if err != nil {
			return nil, err
		}
		if !there {
			return fault(memproxy.FaultDelete, a.Position, "the record that was anchored is missing")
		}
		link = found
	}
	if link != a.Link {
		return fault(memproxy.FaultForge, a.Position, "the chain differs from the one that was anchored")
	}
	return nil, nil
}

// VerifyMemory checks the untrimmed chain of one memory's versions, with texts. It does
// not detect a truncated end, which Chains.Verify does.
func (l *Ledger) VerifyMemory(ctx context.Context, k memproxy.MemoryKey) (memproxy.ChainReport, error) {
	if err := validKey(k); err != nil {
		return memproxy.ChainReport{}, err
	}
	v := &verifier{store: l.store, opt: VerifyOptions{Texts: true}}
	var last *versionRow
	err := v.records(ctx, ofKey+` AND number > ? ORDER BY number`, []any{k}, 0, func(r *versionRow) (int64, error) {
		v.report.Tenant = r.Tenant
		v.report.Checked++
		sound := v.selfCheck(r)
		switch {
		case last == nil: // records before it may have been trimmed
		case r.Number != last.Number+1:
			v.fault(memproxy.FaultDelete, r.place, r, "the version before this one is missing")
		case sound && r.previous != last.Link:
			v.fault(memproxy.FaultReorder, r.place, r, "the version does not follow the one before it")
		}
		last = r
		return r.Number, v.text(ctx, r)
	})
	return v.report, err
}
