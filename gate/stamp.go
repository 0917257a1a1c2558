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
	})
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
