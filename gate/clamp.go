package gate

import (
	"context"

	"github.com/memproxy/memproxy"
)

// The rules by which the clamp lowers a confidence, besides the ceilings.
const (
	ruleTrack      = "trust.track"
	ruleLaundering = "trust.laundering"
)

// clamp takes off what is claimed of the content, and bounds every claimed
// confidence: by the ceiling of the principal's tier
// times its track record, by the content's source, and by what the principal
// said of the same before.
func clamp(ctx context.Context, r *run) error {
	r.attributed()
	r.attestation = r.attest()
	r.q.Attestation, r.q.Track = r.attestation, r.tracked(ctx)
	ceiling, why := r.bounds()
	before, found, err := r.before(ctx)
	if err != nil {
		r.g.opt.Log.ErrorContext(ctx, "ledger lookup failed", "decision", r.Decision.ID, "error", err)
		r.refuse(StatusUnavailable, memproxy.Reason{Code: memproxy.LedgerUnavailable, Detail: "what the caller said before cannot be looked up"})
		return nil
	}
	if found && before < ceiling {
		ceiling = before
		why = memproxy.Reason{Code: memproxy.TrustClamped, Rule: ruleLaundering, Detail: "the caller said the same with less confidence before, and nothing new speaks for it"}
	}
	r.give(ceiling, why)
	return nil
}

// bounds is the highest confidence that the principal may give to content of
// the claimed source, and why it is no higher.
func (r *run) bounds() (memproxy.PerMille, memproxy.Reason) {
	why := memproxy.Reason{Code: memproxy.TrustClamped, Detail: "the claimed confidence is over what this caller may give and was lowered"}
	ceiling := r.rules.Ceilings.Ceiling(r.Principal.Trust, r.op.SourceClaim)
	tier := r.rules.Ceilings.Ceiling(r.Principal.Trust, "")
	if earned := tier * r.q.Track / memproxy.Full; earned < ceiling {
		ceiling = earned
		why.Rule, why.Detail = ruleTrack, "what this caller wrote was corrected often, so it may give less confidence"
		if !r.trackKnown {
			why.Detail = "this caller's track record cannot be looked up, so it counts as the worst"
		}
	}
	return ceiling, why
}

// give sets the effective confidences.
func (r *run) give(ceiling memproxy.PerMille, why memproxy.Reason) {
	op, unclaimed := r.op, r.rules.Ceilings.Unclaimed
	r.q.Confidence = min(unclaimed, ceiling)
	for i := range op.Hints {
		h := &op.Hints[i]
		h.Effective = min(h.Claimed, ceiling)
		if i == 0 || h.Effective < r.q.Confidence {
			r.q.Confidence = h.Effective
		}
		r.q.Claimed = max(r.q.Claimed, h.Claimed)
		if h.Effective != h.Claimed || !h.Legible {
			at := why
			at.Pointer = h.Pointer
			r.add(memproxy.Amend, at)
		}
	}
	if len(op.Hints) > 0 {
		return
	}
	r.q.Claimed = r.q.Confidence
	if why.Rule != "" && ceiling < min(unclaimed, r.rules.Ceilings.Ceiling(r.Principal.Trust, op.SourceClaim)) {
		r.note(why) // nothing of the payload is changed by that
	}
}
