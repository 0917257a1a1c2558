package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// stamp is the signed provenance of the run's write.
func (r *run) stamp() memproxy.Stamp {
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
		SHA256:      contentHash(r.op),
		Mark:        markOf(r.marks),
		Received:    r.received().UTC().Truncate(time.Second),
		Session:     r.namedSession(),
		Trigger:     r.call.Route.ID,
		Score:       memproxy.Risk(r.found()),
		Flags:       flags(r.found()),
	})
}

// received is when the write came in: it may have waited for a person since.
func (r *run) received() time.Time {
	if r.waited != nil {
		return r.waited.Created
	}
	return r.begun
}

// found is what screening found in the write when it came in.
func (r *run) found() []memproxy.Finding {
	if r.waited != nil {
		return r.waited.Findings
	}
	return r.findings
}

// Bounds of the rules that a stamp names: it is to be under 1 KB in all.
const (
	maxFlags     = 3
	maxFlagBytes = 120
)

// flags are the rules behind the worst findings, each once. Rules say what a
// text looks like, and never what it says.
func flags(findings []memproxy.Finding) string {
	var out []string
	size := 0
	findings = dangerous(findings) // not the sum, which is the score
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

// contentHash is the hex SHA-256 of the one content item's text, so that it
// can be compared with what a backend stores verbatim; of several, the hash of
// their hashes in order.
func contentHash(op *memproxy.Operation) string {
	var first [sha256.Size]byte
	n := 0
	all := sha256.New()
	for i := range op.Items {
		if op.Items[i].Kind != memproxy.ItemContent || op.Items[i].Moved {
			continue
		}
		sum := sha256.Sum256([]byte(op.Items[i].Text))
		if n == 0 {
			first = sum
		}
		n++
		all.Write(sum[:])
	}
	if n == 1 {
		return hex.EncodeToString(first[:])
	}
	return hex.EncodeToString(all.Sum(nil))
}

// sortReasons puts reasons in the order in which they are recorded and shown.
func sortReasons(rs []memproxy.Reason) {
	slices.SortFunc(rs, func(a, b memproxy.Reason) int {
		if c := strings.Compare(string(a.Code), string(b.Code)); c != 0 {
			return c
		}
		if c := strings.Compare(a.Rule, b.Rule); c != 0 {
			return c
		}
		return strings.Compare(a.Pointer, b.Pointer)
	})
}
