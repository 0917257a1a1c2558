// Package trust has the rules for how far written content is trusted: how much
// confidence a caller may give to it, how well its source is known, what a user
// stated, and whose text may overrule whose. It is pure: the gate loads the facts. A
// claim in a payload can lower trust, and never raises it.
package trust

import "github.com/memproxy/memproxy"

// The rules, other than the ceilings, that lower a confidence, as reasons name them.
const (
	ruleTrack      = "trust.track"
	ruleLaundering = "trust.laundering"
)

// A Limit is the highest confidence that a caller may give to what it writes, and
// the reason for it.
type Limit struct {
	ceiling memproxy.PerMille // the limit
	table   memproxy.PerMille // the limit by tier and source alone
	write   memproxy.PerMille // the confidence of a write without a claim
	why     memproxy.Reason
}

// LimitOf returns the limit by the caller's tier times the factor of its track record,
// and by the claimed source of the content.
func LimitOf(c memproxy.Ceilings, t memproxy.Trust, s memproxy.Source, record memproxy.Track) Limit {
	table := c.Ceiling(t, s)
	l := Limit{table, table, c.Unclaimed, memproxy.Reason{Code: memproxy.TrustClamped, Detail: "the claimed confidence exceeds this caller's ceiling and was lowered"}}
	switch earned := c.Ceiling(t, "") * record.Factor() / memproxy.Full; {
	case earned >= table:
	case !record.Unknown:
		l.lower(earned, ruleTrack, "this caller's memories were corrected often, so its ceiling is lower")
	default:
		l.lower(earned, ruleTrack, "this caller's track record cannot be looked up, so the lowest ceiling applies")
	}
	return l
}

func (l *Limit) lower(to memproxy.PerMille, rule, why string) {
	l.ceiling, l.why.Rule, l.why.Detail = to, rule, why
}

// Repeats lowers the limit to the confidence that the caller gave to the same text
// before, unless the source is known better now than it was then. A source without
// a record counts as the author's own report.
func (l *Limit) Repeats(given memproxy.PerMille, then, now memproxy.Attestation) {
	if memproxy.SelfReported.Outranks(then) && then != memproxy.Inferred {
		then = memproxy.SelfReported
	}
	if given > 0 && given < l.ceiling && !now.Outranks(then) {
		l.lower(given, ruleLaundering, "the caller wrote the same with less confidence before, and no new evidence supports it")
	}
}

// Clamp sets the effective confidence of each claim. It returns the confidence of
// the write (the lowest of its claims), the highest that was claimed, and a reason
// for each that was lowered. If there is no claim, a reason without a pointer
// reports that a rule lowered the default.
func (l *Limit) Clamp(hints []memproxy.ConfidenceClaim) (confidence, claimed memproxy.PerMille, lowered []memproxy.Reason) {
	confidence = min(l.write, l.ceiling)
	for i := range hints {
		h := &hints[i]
		h.Effective = min(h.Claimed, l.ceiling)
		if i == 0 || h.Effective < confidence {
			confidence = h.Effective
		}
		claimed = max(claimed, h.Claimed)
		if h.Effective != h.Claimed || !h.Legible {
			at := l.why
			at.Pointer = h.Pointer
			lowered = append(lowered, at)
		}
	}
	if len(hints) == 0 {
		claimed = confidence
		if l.ceiling < min(l.write, l.table) {
			lowered = []memproxy.Reason{l.why}
		}
	}
	return confidence, claimed, lowered
}
