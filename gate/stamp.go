package gate

import (
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/content"
)

// stampOf is the signed provenance of the run's write.
func stampOf(r *run) memproxy.Stamp {
	received, found := r.begun, r.findings // as it came in: it may have waited for a person since
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
