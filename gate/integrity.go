package gate

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/metadata"
)

// Changed is how memories that were changed out-of-band are treated in answers.
type Changed string

// The settings.
const (
	// ChangedReport names them in the record of the read and along with the answer.
	ChangedReport Changed = "report"
	// ChangedWithhold also removes them from the answer.
	ChangedWithhold Changed = "withhold"
	// ChangedIgnore disables the check.
	ChangedIgnore Changed = "ignore"
)

// An Examiner compares memories, as a backend shows them, with the ledger's record
// of them.
type Examiner struct {
	Ledger  Ledger
	Signer  Signer
	Backend string // the backend's name
	// Tenant is the tenant whose stamps count on memories without a record in the
	// ledger.
	Tenant string
}

// Absent returns the reason code if a memory is missing from the backend without
// having been deleted through the proxy. The empty code means that nothing is
// wrong: the ledger does not know the memory, or has recorded the deletion of it or
// of its agent.
func (e *Examiner) Absent(ctx context.Context, id string) (memproxy.ReasonCode, string, error) {
	known := func(id string) (memproxy.Ownership, error) {
		k := memproxy.MemoryKey{Backend: e.Backend, Kind: memproxy.TargetMemory, ID: id}
		records, err := e.Ledger.Lookup(ctx, k)
		return records[k].Owner, err
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
	return memproxy.IntegrityMissing, "the backend lacks it, and nobody deleted it through memproxy", nil
}

// Examine returns the reason code if a memory is not what was written: its text is
// compared with the hash in the ledger, its stamp with the key, with the recorded
// writes and with the metadata next to it. The empty code means that nothing is
// wrong. Row is the ledger's record, or nil.
func (e *Examiner) Examine(ctx context.Context, row *memproxy.Ownership, m *memproxy.Memory) (memproxy.ReasonCode, string) {
	said := e.proven(row, m)
	if m.Stamp != nil {
		switch {
		case !said.signed:
			return memproxy.IntegrityForged, "the provenance is not signed by this installation, or not for this tenant"
		case (row == nil || m.Stamp.ID != row.Decision) && e.anothers(ctx, row, m):
			return memproxy.IntegrityForged, "the provenance is another memory's"
		case said.differs:
			return memproxy.IntegrityMetadata, "the metadata is not what was written"
		}
	}
	if row != nil && row.SHA256 != "" && m.Text != "" && m.TextAt != "" && row.SHA256 != said.text {
		return memproxy.IntegrityMismatch, "the text is not the one that went through memproxy"
	}
	return "", ""
}

// proven is what the bytes of a memory prove, for one tenant and one signer.
type proven struct {
	signer  Signer
	tenant  string
	signed  bool   // the stamp verifies
	differs bool   // the metadata is not what the stamp was written with
	text    string // SHA-256 of the text
}

// proven verifies a memory's bytes for the tenant that owns it, or else for the
// caller's tenant.
func (e *Examiner) proven(row *memproxy.Ownership, m *memproxy.Memory) proven {
	tenant := e.Tenant
	if row != nil {
		tenant = row.Scope.Tenant
	}
	if p, ok := m.Memo.Load().(proven); ok && p.tenant == tenant && p.signer == e.Signer {
		return p
	}
	p := proven{signer: e.Signer, tenant: tenant, text: textHash(m.Text)}
	if m.Stamp != nil {
		p.signed, p.differs = signedFor(e.Signer, tenant, *m.Stamp), metadata.Differs(m.Stamp, m.Metadata)
	}
	m.Memo.Store(p)
	return p
}

// anothers reports whether a verified stamp was written for another memory: its
// decision is recorded for another memory and for no version of this one. The
// memories of an asynchronous write are known by its receipt only, so their stamps
// may be on any memory. One decision may make several things, such as an agent and
// its blocks: what was made along with the other keeps the stamp, even if its
// metadata was changed since.
func (e *Examiner) anothers(ctx context.Context, row *memproxy.Ownership, m *memproxy.Memory) bool {
	other, known, err := e.Ledger.Decision(ctx, e.Backend, m.Stamp.ID)
	if err != nil || !known || other.Kind != kindOf(m) || other.ID == m.ID {
		return false
	}
	if row != nil && row.Actor == other.Actor && !row.Written.IsZero() && row.Written.Equal(other.Written) {
		return false
	}
	history, err := e.Ledger.History(ctx, memproxy.MemoryKey{Backend: e.Backend, Kind: kindOf(m), ID: m.ID}, 0, 0)
	return err == nil && !slices.ContainsFunc(history, func(v memproxy.Version) bool { return v.Decision == m.Stamp.ID })
}

func examinerOf(g *Gate, a *Admission) *Examiner {
	return &Examiner{Ledger: g.opt.Ledger, Signer: g.opt.Signer, Backend: a.op.Backend, Tenant: a.Principal.Tenant}
}

// inspectTarget records integrity findings about the targets: evidence of an
// out-of-band change is about to be replaced or deleted, and later reads cannot
// report it. It refuses nothing.
func inspectTarget(ctx context.Context, r *run, target string) {
	m, row := r.op.Current[target], r.owners[target]
	if r.rules.Changed == ChangedIgnore || row.ID == "" || row.Deleted {
		return
	}
	e := examinerOf(r.g, r.Admission)
	code, detail := e.Examine(ctx, &row, &m)
	if m.Missing {
		code, detail, _ = e.Absent(ctx, row.ID) // after an error the code is empty
	}
	if code == "" || code == memproxy.IntegrityMismatch && m.Mutable {
		return
	}
	r.verdict.note(memproxy.Reason{Code: code, Rule: row.ID, Detail: detail})
}

// nameMissing reports a memory that was requested by its id and that the backend
// does not have, although it was not deleted through the proxy.
func nameMissing(ctx context.Context, ret *answer) {
	loc, ok := ret.call.Backend.Adapter.(Locator)
	if !ok || ret.op.Kind != memproxy.Recall || ret.rules.Changed == ChangedIgnore || !answersItself(ret.Admission, loc, ret.op.Targets) {
		return
	}
	row, known := ret.owners[ret.op.Targets[0]] // visibility was ruled on before
	if !known {
		return
	}
	code, detail, _ := examinerOf(ret.g, ret.Admission).Absent(ctx, row.ID)
	if code == "" {
		return
	}
	ret.Unverified = append(ret.Unverified, row.ID)
	ret.reasons = append(ret.reasons, memproxy.Reason{Code: code, Rule: row.ID, Detail: detail})
}

// signed reports whether a memory's stamp was signed by this installation for the
// caller's tenant.
func (ret *answer) signed(m *memproxy.Memory) bool {
	return m.Stamp != nil && examinerOf(ret.g, ret.Admission).proven(nil, m).signed
}

func signedFor(signer Signer, tenant string, s memproxy.Stamp) bool {
	s.Tenant = tenant
	return signer.Verify(s)
}

// seal signs a stamp again for the metadata that the adapter writes next to it. An
// existing stamp is sealed again only if this installation signed it for the
// memory's tenant.
func (r *run) seal(s memproxy.Stamp, raw []byte) memproxy.Stamp {
	mixed := func(string) bool { return false }
	if mixer, ok := r.call.Backend.Adapter.(Mixer); ok {
		mixed = mixer.Mixed
	}
	hashes := metadata.Hashes(s.ID, raw, mixed)
	if hashes == s.Metadata {
		return s
	}
	if s.Signature != r.op.Stamp.Signature {
		if s.Tenant = r.Principal.Tenant; !r.g.opt.Signer.Verify(s) {
			return s
		}
	}
	s.Metadata = hashes
	return r.g.opt.Signer.Sign(s)
}

// stampOf is the signed provenance of the run's write.
func stampOf(r *run) memproxy.Stamp {
	received, found := r.begun, r.findings // at its arrival: it may have waited for review since
	if r.waited != nil {
		received, found = r.waited.Created, r.waited.Findings
	}
	source := r.op.SourceClaim
	if source == "" {
		source = memproxy.SourceUnstated
	}
	return r.g.opt.Signer.Sign(memproxy.Stamp{
		ID:          r.Decision.ID,
		Actor:       r.Principal.ID,
		Tenant:      r.Principal.Tenant,
		Trust:       r.Principal.Trust,
		Confidence:  r.q.Confidence,
		Source:      source,
		Attestation: r.attested(r.marks),
		Time:        r.begun.UTC().Truncate(time.Second),
		SHA256:      content.Hash(r.op),
		Mark:        markOf(r.marks),
		Received:    received.UTC().Truncate(time.Second),
		Session:     r.namedSession(),
		Trigger:     r.call.Route.ID,
		Score:       memproxy.Risk(found),
		Flags:       flags(found),
	})
}

// Bounds of the rules that a stamp names: a stamp stays below 1 KB.
const (
	maxFlags     = 3
	maxFlagBytes = 120
)

// flags returns the rules behind the worst findings, without duplicates. A rule
// describes what a text looks like and does not quote it.
func flags(findings []memproxy.Finding) string {
	var out []string
	size := 0
	findings = dangerous(findings) // without the total, which is the score
	for _, f := range worst(findings, len(findings)) {
		if slices.Contains(out, f.Rule) || size+len(f.Rule) > maxFlagBytes {
			continue
		}
		if out, size = append(out, f.Rule), size+len(f.Rule); len(out) == maxFlags {
			break
		}
	}
	return strings.Join(out, " ")
}
