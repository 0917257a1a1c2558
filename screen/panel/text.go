package panel

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen"
)

// Report is what the panel says of a text that stands alone.
type Report struct {
	// Score is the highest risk of any layer, moved by sensitivity, source and
	// trust as for the gate.
	Score   memproxy.PerMille
	Verdict memproxy.Verdict // allow, hold or deny, by the score alone
	// Findings are sorted by place.
	Findings []memproxy.Finding
	// Secret is set where a credential was found. It is no risk; whether it may
	// be kept is a question for the policy.
	Secret bool
}

// Text judges a text as if it were to be written from a source and by a
// principal of a trust tier; both may be empty. It belongs to no session and
// no user, so that neither assembly nor the baseline has anything to say. The
// error is the context's.
func (p *Panel) Text(ctx context.Context, text string, source memproxy.Source, trust memproxy.Trust) (Report, error) {
	alone := *p
	alone.opt.Assembly, alone.opt.Baseline, alone.shares = nil, nil, nil
	found, err := alone.Screen(ctx, memproxy.Screening{
		Principal: memproxy.Principal{Trust: trust},
		Operation: &memproxy.Operation{
			Kind: memproxy.Learn, SourceClaim: source,
			Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: text, Layer: memproxy.Semantic}},
		},
	})
	if err != nil {
		return Report{}, err
	}
	var r Report
	for _, f := range found {
		r.Score = max(r.Score, f.Score)
		r.Secret = r.Secret || secret(f.Rule)
		if f.Rule != screen.RuleRisk { // the sum; the others say what it is made of
			r.Findings = append(r.Findings, f)
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b memproxy.Finding) int { return a.Start - b.Start })
	switch {
	case r.Score >= screen.Deny:
		r.Verdict = memproxy.Deny
	case r.Score >= screen.Hold:
		r.Verdict = memproxy.Hold
	}
	return r, nil
}
