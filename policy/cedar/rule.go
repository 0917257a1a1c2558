package cedar

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/memproxy/memproxy"
)

// Rule implements the gate's policy. A write to several fields is asked once
// for each, and the worst answer counts.
func (p *Policy) Rule(_ context.Context, q memproxy.Question) (memproxy.Ruling, error) {
	if q.Operation == nil {
		return memproxy.Ruling{}, fmt.Errorf("cedar: a question without an operation")
	}
	principal, entities := p.entitiesOf(q)
	part := p.partOf(q.Operation.Kind)
	req := cedar.Request{
		Principal: principal,
		Action:    cedar.NewEntityUID("Action", cedar.String(q.Operation.Kind)),
		Resource:  cedar.NewEntityUID("Memory", cedar.String(q.Operation.Backend)),
	}
	var out memproxy.Ruling
	common := commonOf(q)
	for _, w := range writtenBy(q.Operation, &q.Governance) {
		req.Context = common.with(w, &q.Governance)
		if err := p.validate.Request(req); err != nil {
			return memproxy.Ruling{}, fmt.Errorf("cedar: the question does not fit the schema: %w", err)
		}
		p.ask(&out, part, entities, req)
	}
	sortReasons(out.Reasons)
	sortReasons(out.Shadow)
	sortReasons(out.Marks)
	out.Reasons = slices.Compact(out.Reasons)
	out.Shadow = slices.Compact(out.Shadow)
	out.Marks = slices.Compact(out.Marks)
	if out.Verdict.Stops() {
		out.Marks = nil
	}
	return out, nil
}

// ask puts one request to the policies and merges the answer.
func (p *Policy) ask(out *memproxy.Ruling, part part, entities cedar.EntityGetter, req cedar.Request) {
	decision, diag := cedar.Authorize(part.enforced, entities, req)
	switch {
	case len(diag.Errors) > 0:
		// A forbid that fails is skipped by Cedar, and the answer may be yes.
		p.failed(out, diag.Errors)
	case decision == cedar.Deny && len(diag.Reasons) == 0:
		out.Verdict = memproxy.Deny
		out.Reasons = append(out.Reasons, memproxy.Reason{Code: memproxy.PolicyNoPermit, Detail: "no policy permits this"})
	case decision == cedar.Deny:
		v, reasons := p.forbidden(diag.Reasons)
		out.Verdict = max(out.Verdict, v)
		out.Reasons = append(out.Reasons, reasons...)
	}
	if len(part.marking) > 0 && !out.Verdict.Stops() {
		if _, diag := cedar.Authorize(part.marking, entities, req); len(diag.Errors) > 0 {
			p.failed(out, diag.Errors)
		} else {
			_, reasons := p.forbidden(diag.Reasons)
			out.Marks = append(out.Marks, reasons...)
		}
	}
	if len(part.shadowed) == 0 {
		return
	}
	if decision, diag = cedar.Authorize(part.shadowed, entities, req); decision == cedar.Deny && len(diag.Reasons) > 0 {
		v, reasons := p.forbidden(diag.Reasons)
		out.ShadowVerdict = max(out.ShadowVerdict, v)
		out.Shadow = append(out.Shadow, reasons...)
	}
}

// failed denies for policies that could not be evaluated.
func (p *Policy) failed(out *memproxy.Ruling, errors []cedar.DiagnosticError) {
	out.Verdict = memproxy.Deny
	for _, e := range errors {
		out.Reasons = append(out.Reasons, memproxy.Reason{Code: memproxy.PolicyError, Rule: string(e.PolicyID), Detail: "the policy could not be evaluated"})
	}
}

// forbidden is deny, or hold when every policy that stops something asks for
// that. Policies that mark stop nothing.
func (p *Policy) forbidden(diag []cedar.DiagnosticReason) (memproxy.Verdict, []memproxy.Reason) {
	var v memproxy.Verdict
	reasons := make([]memproxy.Reason, 0, len(diag))
	for _, d := range diag {
		r := p.rules[d.PolicyID]
		v = max(v, r.verdict)
		reasons = append(reasons, memproxy.Reason{Code: r.reason, Rule: r.id, Detail: r.detail})
	}
	return v, reasons
}

// Where returns the file and line of a policy, for explanations.
func (p *Policy) Where(id string) (string, int, bool) {
	r, ok := p.rules[cedar.PolicyID(id)]
	if !ok {
		return "", 0, false
	}
	return r.file, r.line, true
}

// IDs lists the compiled policies, sorted.
func (p *Policy) IDs() []string {
	var ids []string
	for _, s := range [...]set{p.whole.enforced, p.whole.shadowed, p.whole.marking} {
		for _, r := range s {
			ids = append(ids, r.id)
		}
	}
	slices.Sort(ids)
	return ids
}

func sortReasons(rs []memproxy.Reason) {
	slices.SortFunc(rs, func(a, b memproxy.Reason) int {
		if c := strings.Compare(string(a.Code), string(b.Code)); c != 0 {
			return c
		}
		return strings.Compare(a.Rule, b.Rule)
	})
}
