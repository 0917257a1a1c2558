package gate

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
)

// account says of each memory of the answer where it comes from, for readers
// that ask. Raw messages, receipts and entities are no memories.
func (ret *returning) account(context.Context) (refused bool, err error) {
	if !ret.call.Wishes.Provenance || ret.answers {
		return false, nil
	}
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		if m.ID == "" || m.Drop || m.Missing || m.Layer == memproxy.Episodic || kindOf(m) != memproxy.TargetMemory {
			continue
		}
		p := ret.provenance(m)
		m.Told = &p
	}
	return false, nil
}

// provenance is what is known of a memory: by the ledger, else by a stamp that
// verifies. What belongs to another tenant is not told, not even where the
// memory itself may be seen.
func (ret *returning) provenance(m *memproxy.Memory) memproxy.Provenance {
	p := memproxy.Provenance{Attestation: memproxy.AttestationUnknown, State: memproxy.StateUntrusted}
	rec := ret.lookups().of(kindOf(m), m.ID)
	row, known := rec.Owner, rec.Owned()
	own := known && row.Scope.Tenant == ret.Principal.Tenant
	if own {
		p.Actor, p.Trust, p.Confidence, p.Source, p.Decision, p.Written = row.Actor, row.Trust, row.Confidence, row.Source, row.Decision, row.Written
	}
	if s := m.Stamp; s != nil && (own || !known) && ret.signed(s, nil) {
		if !known {
			p.Actor, p.Trust, p.Confidence, p.Source, p.Decision, p.Written = s.Actor, s.Trust, s.Confidence, s.Source, s.ID, s.Time
		}
		if p.Decision == s.ID {
			p.Received = s.Received
		}
		if p.Decision == s.ID && s.Attestation != "" {
			p.Attestation = s.Attestation
		}
	}
	if st := rec.Status; rec.Rated() && st.Tenant == ret.Principal.Tenant {
		p.State, p.Contested, p.Unverified = st.State, st.Contested, st.Unverified
		if st.Attestation != "" {
			p.Attestation = st.Attestation
		}
	}
	if p.Unverified == "" && slices.Contains(ret.broken, m.ID) {
		p.Unverified = memproxy.IntegrityMismatch
		for _, why := range ret.reasons {
			if why.Rule == m.ID {
				p.Unverified = why.Code
			}
		}
	}
	return p
}
