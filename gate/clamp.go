package gate

import (
	"context"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/trust"
)

// retracted is how long a text counts as said before.
const retracted = 30 * 24 * time.Hour

// clamp removes claims about the content that are not the caller's to make, and
// limits every claimed confidence (gate/trust): by tier, track record and source,
// and by what the caller said of the same before.
func clamp(ctx context.Context, r *run) error {
	op, q, ceilings := r.op, &r.q, r.rules.Ceilings
	for i := range op.Attributions {
		if at := &op.Attributions[i]; !trust.MayAttribute(ceilings, &r.Principal, &op.Scope, at) {
			at.Removed = true
			r.add(memproxy.Amend, memproxy.Reason{
				Code: memproxy.TrustAttribution, Pointer: at.Pointer,
				Detail: "says of the content who said it, or that it is to be trusted, which is not this caller's to say; it was taken off",
			})
		}
	}
	r.attestation = trust.Attest(op, r.g.readers.of(readerOf(r.Admission)))
	known := r.lookUp(ctx)
	q.Attestation, q.Track = r.attested(nil), trust.Factor(r.track, known)
	limit := trust.LimitOf(ceilings, r.Principal.Trust, op.SourceClaim, q.Track, known)
	for i := range r.words {
		if w := &r.words[i]; w.Own {
			limit.Repeats(w.row.Confidence, w.Attestation, q.Attestation)
		}
	}
	if texts := trust.Texts(op); len(texts) > 0 {
		ctx, cancel := context.WithTimeout(ctx, r.g.opt.RecordTimeout)
		defer cancel()
		said, _, err := r.g.opt.Ledger.Retraction(ctx, r.Principal.Tenant, r.Principal.Account(), texts, r.begun.Add(-retracted))
		if err != nil {
			r.g.opt.Log.ErrorContext(ctx, "ledger lookup failed", "decision", r.Decision.ID, "error", err)
			r.refuse(StatusUnavailable, memproxy.Reason{Code: memproxy.LedgerUnavailable, Detail: "what the caller said before cannot be looked up"})
			return nil
		}
		limit.Repeats(said.Confidence, said.Attestation, q.Attestation)
	}
	var lowered []memproxy.Reason
	if q.Confidence, q.Claimed, lowered = limit.Clamp(op.Hints); len(op.Hints) == 0 {
		r.note(lowered...) // the payload is not changed by that
	} else if len(lowered) > 0 {
		r.add(memproxy.Amend, lowered...)
	}
	return nil
}
