package gate

import (
	"context"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// maxNamed bounds the findings that a refusal names, and maxRecorded those
// that a record does.
const (
	maxNamed    = 8
	maxRecorded = 64
)

// worst are the findings with the highest scores first, at most n.
func worst(findings []memproxy.Finding, n int) []memproxy.Finding {
	if len(findings) == 0 {
		return nil
	}
	sorted := slices.SortedStableFunc(slices.Values(findings), func(a, b memproxy.Finding) int { return int(b.Score) - int(a.Score) })
	return sorted[:min(len(sorted), n)]
}

// screen asks the screener for findings in what the operation writes and what
// it brings; the policy decides what they mean.
func screen(ctx context.Context, r *run) error {
	asked := r.screening()
	if items := r.screened(); len(items) > len(r.op.Items) {
		op := *r.op
		op.Items, asked.Operation = items, &op
	}
	findings, err := r.rules.Screener.Screen(ctx, asked)
	r.q.Findings, r.findings = findings, findings
	return err
}

// screening is the operation as a screener sees it.
func (a *Admission) screening() memproxy.Screening {
	s := memproxy.Screening{Principal: a.Principal, Session: a.call.Session, Decision: a.Decision.ID, Operation: a.op}
	if s.Session == "" && a.op != nil {
		s.Session = a.op.Scope.Run
	}
	return s
}

// wrote tells the screener of a write that went through.
func (ret *returning) wrote() {
	if witness, ok := ret.rules.Screener.(Witness); ok && ret.op.Kind.Writes() {
		witness.Wrote(ret.screening())
	}
}

// explainFindings names what was found where that is why the policy rules as
// it does: the rules and the places, never the content.
func (r *run) explainFindings(reasons []memproxy.Reason) {
	if len(r.q.Findings) == 0 || !slices.ContainsFunc(reasons, func(why memproxy.Reason) bool {
		return strings.HasPrefix(string(why.Code), "screen.")
	}) {
		return
	}
	items := r.screened()
	for _, f := range worst(r.q.Findings, maxNamed) {
		why := memproxy.Reason{Code: memproxy.ScreenFinding, Rule: f.Rule}
		if f.Item >= 0 && f.Item < len(items) {
			why.Pointer = items[f.Item].Pointer
		}
		if !slices.Contains(r.reasons, why) {
			r.reasons = append(r.reasons, why)
		}
	}
}
