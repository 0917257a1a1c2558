package gate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memproxy/memproxy"
)

// Changed says what becomes of memories in answers that were changed behind
// the proxy.
type Changed string

// The settings.
const (
	// ChangedReport names them in the record of the read and next to the answer.
	ChangedReport Changed = "report"
	// ChangedWithhold leaves them out as well.
	ChangedWithhold Changed = "withhold"
	// ChangedIgnore does not look.
	ChangedIgnore Changed = "ignore"
)

// An Examiner compares memories as a backend shows them with what is known of
// them.
type Examiner struct {
	Ledger  Ledger
	Signer  Signer
	Backend string // its name
	// Tenant is whose stamps count on memories of which the ledger knows
	// nothing.
	Tenant string
}

// Absent is what speaks against a memory that the backend lacks. The empty code
// is nothing: the ledger does not know it, or knows that it, or the agent that
// it was of, was deleted through the proxy.
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

// Examine says what speaks against a memory: its text against the hash of the
// one that went through, its stamp against the key, against the writes that are
// known of it and against the metadata next to it. The empty code is nothing.
// Row is what the ledger knows, or nil.
func (e *Examiner) Examine(ctx context.Context, row *memproxy.Ownership, m *memproxy.Memory) (memproxy.ReasonCode, string) {
	if m.Stamp != nil {
		tenant := e.Tenant
		if row != nil {
			tenant = row.Scope.Tenant
		}
		if !signedFor(e.Signer, tenant, *m.Stamp) {
			return memproxy.IntegrityForged, "the provenance is not signed by this installation, or not for this tenant"
		}
		if (row == nil || m.Stamp.ID != row.Decision) && e.anothers(ctx, row, m) {
			return memproxy.IntegrityForged, "the provenance is another memory's"
		}
		if m.Stamp.Metadata != "" {
			if there, err := besides(m.Metadata); err != nil || unlike(m.Stamp, there) {
				return memproxy.IntegrityMetadata, "the metadata is not what was written"
			}
		}
	}
	if row != nil && row.SHA256 != "" && m.Text != "" && m.TextAt != "" && row.SHA256 != textHash(m.Text) {
		return memproxy.IntegrityMismatch, "the text is not the one that went through memproxy"
	}
	return "", ""
}

// anothers reports whether a stamp that verifies was written for another
// memory: its decision is none of this one's, and is one of another's. What an
// asynchronous write made is known by its receipt only, and may be anything. One
// decision may make several things, an agent and its blocks: what was made with
// the other one keeps the stamp, whatever next to its text was changed since.
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

// inspectTarget names in the record what speaks against the targets as they stand
// upstream: what was changed behind the proxy is about to be replaced or
// deleted, and no reader will see it any more. It stops nobody.
func inspectTarget(ctx context.Context, r *run, target string) {
	m, row := r.op.Current[target], r.owners[target]
	if r.rules.Changed == ChangedIgnore || row.ID == "" || row.Deleted {
		return
	}
	e := examinerOf(r.g, r.Admission)
	code, detail := e.Examine(ctx, &row, &m)
	if m.Missing {
		code, detail, _ = e.Absent(ctx, row.ID) // after an error nothing is known
	}
	if code == "" || code == memproxy.IntegrityMismatch && m.Mutable {
		return
	}
	r.verdict.note(memproxy.Reason{Code: code, Rule: row.ID, Detail: detail})
}

// nameMissing names a memory that was asked for by its id and that the backend says it
// has not, though nobody deleted it through the proxy.
func nameMissing(ctx context.Context, ret *answer) {
	loc, ok := ret.call.Backend.Adapter.(Locator)
	if !ok || ret.op.Kind != memproxy.Recall || ret.rules.Changed == ChangedIgnore || !answersItself(ret.Admission, loc, ret.op.Targets) {
		return
	}
	row, known := ret.owners[ret.op.Targets[0]] // whose it is was ruled on
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

// signed reports whether a stamp is this installation's, for the caller's tenant.
func (ret *answer) signed(stamp *memproxy.Stamp) bool {
	return signedFor(ret.g.opt.Signer, ret.Principal.Tenant, *stamp)
}

func signedFor(signer Signer, tenant string, s memproxy.Stamp) bool {
	s.Tenant = tenant
	return signer.Verify(s)
}

const (
	// besideSize is the length of the hash of one member in a stamp: 64 bits
	// in base64url. A stamp is to stay under a kilobyte.
	besideSize = 11
	// maxBeside is how many members of metadata a stamp speaks for, the first
	// by name.
	maxBeside = 24
)

// pair is a member of metadata: its name, and its value in canonical form.
type pair struct {
	name  string
	value []byte
}

// decoders are kept for their buffers.
var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(new(bytes.Buffer)) }}

func (p *pair) null() bool { return p.value[0] == 'n' }

// besides are the members of metadata that are not the proxy's own, in the
// order in which they stand. The values share raw's memory.
func besides(raw []byte) ([]pair, error) {
	d := decoders.Get().(*jsontext.Decoder)
	d.Reset(bytes.NewBuffer(raw))
	defer func() {
		d.Reset(new(bytes.Buffer)) // it must not hold on to the answer
		decoders.Put(d)
	}()
	if d.PeekKind() != '{' {
		return nil, errors.New("metadata is no object")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var out []pair
	for d.PeekKind() == '"' {
		quoted, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		name := quoted[1 : len(quoted)-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			if name, err = jsontext.AppendUnquote(nil, quoted); err != nil {
				return nil, err
			}
		}
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		if memproxy.Reserved(string(name)) {
			continue
		}
		if !canonical(value) {
			value = value.Clone()
			if err := value.Canonicalize(); err != nil {
				return nil, err
			}
		}
		out = append(out, pair{string(name), value})
	}
	_, err := d.ReadToken() // the end of it, or what is wrong
	return out, err
}

// canonical reports whether a value is plainly in canonical form (RFC 8785):
// a literal, a string without escapes, a short whole number.
func canonical(v jsontext.Value) bool {
	switch v.Kind() {
	case 'n', 't', 'f':
		return true
	case '"':
		return bytes.IndexByte(v, '\\') < 0
	case '0':
		return len(v) <= 15 && v[0] != '-' && !bytes.ContainsAny(v, ".eE")
	}
	return false
}

// hash is a member's, in the stamp of one write.
func (p *pair) hash(id string) string {
	b := make([]byte, 0, 256)
	for _, s := range [...]string{"memproxy beside", id, p.name} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	sum := sha256.Sum256(append(b, p.value...))
	return base64.RawURLEncoding.EncodeToString(sum[:8])
}

// sealed are the hashes of metadata that a stamp is written next to. What is
// null is not counted: some stores leave it out.
func sealed(id string, metadata []byte, mixed func(string) bool) string {
	all, err := besides(metadata)
	if err != nil {
		return ""
	}
	all = slices.DeleteFunc(all, func(p pair) bool { return p.null() || mixed(p.name) })
	slices.SortFunc(all, func(a, b pair) int { return cmp.Compare(a.name, b.name) })
	var out strings.Builder
	for i := range all[:min(len(all), maxBeside)] {
		out.WriteString(all[i].hash(id))
	}
	return out.String()
}

// unlike reports whether metadata lacks something that was there when the stamp was
// written. Extra members are allowed: backends add their own.
func unlike(s *memproxy.Stamp, there []pair) bool {
	if s.Metadata == "" {
		return false
	}
	hashes := make([]string, len(there))
	for i := range there {
		hashes[i] = there[i].hash(s.ID)
	}
	for rest := s.Metadata; rest != ""; rest = rest[besideSize:] {
		if len(rest) < besideSize || !slices.Contains(hashes, rest[:besideSize]) {
			return true
		}
	}
	return false
}

// seal signs a stamp anew for the metadata that the adapter writes it next to. A
// stamp that stands there already is sealed anew only if it is ours, and for
// the tenant that the memory is of.
func (r *run) seal(s memproxy.Stamp, metadata []byte) memproxy.Stamp {
	beside := sealed(s.ID, metadata, mixedBy(r.call.Backend.Adapter))
	if beside == s.Metadata {
		return s
	}
	if s.Signature != r.op.Stamp.Signature {
		if s.Tenant = r.Principal.Tenant; !r.g.opt.Signer.Verify(s) {
			return s
		}
	}
	s.Metadata = beside
	return r.g.opt.Signer.Sign(s)
}

// A Mixer is an Adapter whose backend shows fields of its own among a memory's
// metadata in some answers, and next to it in others.
type Mixer interface {
	// Mixed reports whether a name may be such a field's.
	Mixed(name string) bool
}

// mixedBy tells the names that an adapter's backend mixes into metadata.
func mixedBy(adapter any) func(string) bool {
	if mixer, ok := adapter.(Mixer); ok {
		return mixer.Mixed
	}
	return func(string) bool { return false }
}
