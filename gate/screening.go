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

// risks are the risks of memories' texts, by their places in the list. Raw
// messages are what somebody said, and are left to those who read them.
func (ret *returning) risks(ctx context.Context, memories []memproxy.Memory) (map[int]memproxy.PerMille, error) {
	if ret.rules.Screener == nil || ret.rules.Withhold <= 0 {
		return nil, nil
	}
	op := &memproxy.Operation{Kind: ret.op.Kind, Backend: ret.op.Backend, Route: ret.op.Route, Scope: ret.op.Scope}
	var places []int
	for i := range memories {
		m := &memories[i]
		if m.Drop || m.Missing || m.Layer == memproxy.Episodic {
			continue
		}
		for _, text := range append([]string{m.Text}, m.Also...) {
			if text == "" {
				continue
			}
			op.Items = append(op.Items, memproxy.Item{Kind: memproxy.ItemContent, Text: text, Field: m.Field, Layer: memproxy.Semantic})
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return nil, nil
	}
	asked := ret.screening()
	asked.Operation, asked.Reading = op, true
	findings, err := ret.rules.Screener.Screen(ctx, asked)
	if err != nil {
		return nil, err
	}
	risks := map[int]memproxy.PerMille{}
	for _, f := range findings {
		if f.Item >= 0 && f.Item < len(places) {
			risks[places[f.Item]] = max(risks[places[f.Item]], f.Score)
		}
	}
	return risks, nil
}

// vouched reports whether reviewers read a memory as it is now and let it be
// shown: it is then no attack, whatever it looks like. What could have been
// changed since without being seen is not vouched for, and what it said at
// another time is not what they read.
func (ret *returning) vouched(m *memproxy.Memory) bool {
	if m.Mutable || len(m.Also) > 0 || ret.rules.Changed == ChangedIgnore || slices.Contains(ret.broken, m.ID) {
		return false
	}
	st := ret.stands[kindOf(m)][m.ID]
	return st.State == memproxy.StateValidated && st.Attestation == memproxy.HumanConfirmed && st.Unverified == ""
}

// withhold leaves out what looks like an attack: it may have come in around
// the proxy, or before a rule knew it. It reports whether the whole answer was
// refused.
func (ret *returning) withhold(ctx context.Context) (refused bool, err error) {
	risks, err := ret.risks(ctx, ret.reading.Memories)
	if err != nil {
		return false, err
	}
	n := 0
	for i, risk := range risks {
		if risk < ret.rules.Withhold {
			continue
		}
		m := &ret.reading.Memories[i]
		if ret.vouched(m) {
			continue
		}
		if m.Pointer == "" { // it is the answer
			ret.refuse(StatusForbidden, memproxy.ScreenWithheld, "the memory looks like an attack and is withheld")
			ret.filtered++
			return true, nil
		}
		m.Drop = true
		n++
	}
	if n > 0 {
		ret.filtered += n
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.ScreenWithheld, Detail: "memories that look like attacks were left out of the answer"})
	}
	return false, nil
}
