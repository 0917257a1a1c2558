// Package tamper finds memories that were changed out-of-band: it compares what a
// backend shows with what went through memproxy.
package tamper

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/memproxy/memproxy"
)

// Records is the part of a ledger that an Examiner reads.
type Records interface {
	Lookup(context.Context, ...memproxy.MemoryKey) (memproxy.Records, error)
	Decision(ctx context.Context, backend, decision string) (memproxy.Ownership, bool, error)
	History(ctx context.Context, k memproxy.MemoryKey, before int64, limit int) ([]memproxy.Version, error)
}

// A Verifier reports whether a stamp is this installation's and unchanged.
type Verifier interface {
	Verify(memproxy.Stamp) bool
}

// An Examiner compares memories, as a backend shows them, with the ledger's record
// of them.
type Examiner struct {
	Ledger  Records
	Signer  Verifier
	Backend string // the backend's name
	// Tenant is the tenant whose stamps count on memories without a record in the
	// ledger.
	Tenant string
}

// ExamineMissing rules on a memory that is missing in the backend. It returns the reason
// code and the detail if the memory was not deleted through the proxy. The code is empty
// if the ledger does not know the memory, or has recorded the deletion of it or of its
// agent.
func (e *Examiner) ExamineMissing(ctx context.Context, id string) (memproxy.ReasonCode, string, error) {
	known := func(id string) (memproxy.Ownership, error) {
		k := memproxy.MemoryKey{Backend: e.Backend, Kind: memproxy.TargetMemory, ID: id}
		records, err := e.Ledger.Lookup(ctx, k)
		return records.Of(k).Owner, err
	}
	row, err := known(id)
	if err != nil || row.ID == "" || row.Deleted {
		return "", "", err
	}
	if agent := row.Scope.Agent; agent != "" && agent != id {
		if row, err = known(agent); err != nil || row.Deleted {
			return "", "", err
		}
	}
	return memproxy.IntegrityMissing, "it is missing in the backend, and was not deleted through memproxy", nil
}

// Examine returns the reason code and the detail if a memory is not what was written, or
// an empty code. It compares the text with the hash in the ledger, and the stamp with the
// key and the recorded writes. The adapter compared the metadata (memproxy.Memory.Altered).
// row is the ledger's record, or nil.
func (e *Examiner) Examine(ctx context.Context, row *memproxy.Ownership, m *memproxy.Memory) (memproxy.ReasonCode, string) {
	proof := e.prove(row, m)
	if m.Stamp != nil {
		switch {
		case !proof.signed:
			return memproxy.IntegrityForged, "the provenance is not signed by this installation, or not for this tenant"
		case (row == nil || m.Stamp.ID != row.Decision) && e.IsCopiedStamp(ctx, row, m):
			return memproxy.IntegrityForged, "the provenance belongs to another memory"
		case m.Altered:
			return memproxy.IntegrityMetadata, "the metadata differs from what was written"
		}
	}
	if m.Unstamped && row != nil && row.Actor != "" && row.SHA256 != "" {
		return memproxy.IntegrityForged, "the provenance was removed"
	}
	if row != nil && row.SHA256 != "" && m.Text != "" && m.TextAt != "" && !proof.is(row.SHA256) {
		return memproxy.IntegrityMismatch, "the text differs from the one written through memproxy"
	}
	return "", ""
}

// proven is the result of verifying a memory's bytes for one tenant and one signer.
type proven struct {
	signer Verifier
	tenant string
	signed bool // the stamp verifies
	text   [sha256.Size]byte
}

// is reports whether a hash, in hex, is that of the text.
func (p *proven) is(sum string) bool {
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], p.text[:])
	return string(text[:]) == sum
}

// prove verifies a memory's bytes for the tenant in its row, or without a row for the
// examiner's tenant. It caches the result in m.
func (e *Examiner) prove(row *memproxy.Ownership, m *memproxy.Memory) proven {
	tenant := e.Tenant
	if row != nil {
		tenant = row.Scope.Tenant
	}
	if p, ok := m.Memo.Load().(proven); ok && p.tenant == tenant && p.signer == e.Signer {
		return p
	}
	p := proven{signer: e.Signer, tenant: tenant, text: memproxy.Sum256(m.Text)}
	if m.Stamp != nil {
		p.signed = SignedFor(e.Signer, tenant, *m.Stamp)
	}
	if m.Memo == nil {
		m.Memo = new(memproxy.Memo) // several filters of one answer verify the same memory
	}
	m.Memo.Store(p)
	return p
}

// Signed reports whether a memory's stamp was signed by this installation for the
// examiner's tenant.
func (e *Examiner) Signed(m *memproxy.Memory) bool {
	return m.Stamp != nil && e.prove(nil, m).signed
}

// StampContains reports whether a text is a signature or a hash in a memory's verified
// stamp. Such texts need no screening: they resemble words only by chance, and differ on
// each memory.
func (e *Examiner) StampContains(m *memproxy.Memory, text string) bool {
	return m.Stamp != nil && (text == m.Stamp.Signature || text == m.Stamp.Metadata || text == m.Stamp.Flags) && e.Signed(m)
}

// IsCopiedStamp reports whether a verified stamp was copied from another memory: its
// decision is recorded for another memory and for no version of this one. The ledger
// knows the memories of an asynchronous write only by its receipt, so their stamps may be
// on any memory. One decision may make several objects, such as an agent and its blocks:
// those that were made together may have the same stamp, even if their metadata was
// changed since.
func (e *Examiner) IsCopiedStamp(ctx context.Context, row *memproxy.Ownership, m *memproxy.Memory) bool {
	other, known, err := e.Ledger.Decision(ctx, e.Backend, m.Stamp.ID)
	if err != nil || !known || other.Kind != m.TargetKind() || other.ID == m.ID {
		return false
	}
	if row != nil && row.Actor == other.Actor && !row.Written.IsZero() && row.Written.Equal(other.Written) {
		return false
	}
	history, err := e.Ledger.History(ctx, memproxy.MemoryKey{Backend: e.Backend, Kind: m.TargetKind(), ID: m.ID}, 0, 0)
	return err == nil && !slices.ContainsFunc(history, func(v memproxy.Version) bool { return v.Decision == m.Stamp.ID })
}

// SignedFor reports whether a stamp was signed for a tenant.
func SignedFor(signer Verifier, tenant string, s memproxy.Stamp) bool {
	s.Tenant = tenant
	return signer.Verify(s)
}

// IsAsLeftBy reports whether a memory is as the operation of a decision left it: missing
// after a deletion, else with the valid stamp of the decision.
func IsAsLeftBy(signer Verifier, tenant, decision string, kind memproxy.Kind, m *memproxy.Memory) bool {
	if kind == memproxy.Forget {
		return m.Missing
	}
	return m.Stamp != nil && m.Stamp.ID == decision && SignedFor(signer, tenant, *m.Stamp)
}
