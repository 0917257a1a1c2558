package cedar

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/memproxy/memproxy"
)

// Rule implements the gate's policy. Each part of a write is evaluated separately, and so
// are the owners that a request names; the strictest verdict applies.
func (p *Policy) Rule(_ context.Context, q memproxy.Question) (memproxy.Ruling, error) {
	if q.Operation == nil {
		return memproxy.Ruling{}, fmt.Errorf("cedar: a question without an operation")
	}
	var out ruling
	seen := q.Facts()
	who, asked, parts := callerOf(&q), factsOf(&q, &seen), partsOf(&seen)
	most := max(1, min(maxOwners, maxRulings/len(parts)))
	owners, ok := p.ownersOf(q.Operation, most)
	if !ok {
		out.add(memproxy.Deny, memproxy.Reason{Code: memproxy.PolicyError, Detail: fmt.Sprintf("the request names more than %d combinations of users, agents, apps and runs, for %d fields or members", most, len(parts))})
	}
	for _, w := range parts {
		part := asked.forPart(&w, &q.Governance)
		for _, by := range owners {
			about := part.forOwners(by)
			key := cacheKey{who, p.visibility.of(about.facts)}
			one, known := p.answers.Get(key)
			if !known {
				var err error
				if one, err = p.evaluate(&q, &about); err != nil {
					return memproxy.Ruling{}, err
				}
				p.answers.Add(key, one)
			}
			out.merge(one)
		}
	}
	out.Reasons, out.Led = out.inOrder()
	out.Shadow, out.Marks = sorted(out.Shadow), sorted(out.Marks)
	if out.Verdict.Stops() {
		out.Marks = nil
	}
	return out.Ruling, nil
}

// ruling is a ruling in progress, with its reasons grouped by verdict.
type ruling struct {
	memproxy.Ruling
	denied, held []memproxy.Reason
}

func (r *ruling) add(v memproxy.Verdict, reasons ...memproxy.Reason) {
	r.Verdict = max(r.Verdict, v)
	if v == memproxy.Deny {
		r.denied = append(r.denied, reasons...)
	} else {
		r.held = append(r.held, reasons...)
	}
}

// inOrder returns the reasons, sorted and without duplicates, and how many of them led to
// the verdict.
func (r *ruling) inOrder() ([]memproxy.Reason, int) {
	r.denied, r.held = sorted(r.denied), sorted(r.held)
	if len(r.denied) == 0 {
		return r.held, len(r.held)
	}
	return append(r.denied, r.held...), len(r.denied)
}

// merge adds another ruling. It does not change o, which may be cached.
func (r *ruling) merge(o *ruling) {
	r.Verdict, r.ShadowVerdict = max(r.Verdict, o.Verdict), max(r.ShadowVerdict, o.ShadowVerdict)
	r.denied, r.held = append(r.denied, o.denied...), append(r.held, o.held...)
	r.Shadow, r.Marks = append(r.Shadow, o.Shadow...), append(r.Marks, o.Marks...)
}

// evaluate evaluates the policies. The result is cached and must not be modified.
func (p *Policy) evaluate(q *memproxy.Question, about *policyContext) (*ruling, error) {
	out := &ruling{}
	principal, entities := entitiesOf(q)
	part := p.whole
	if of, known := p.parts[q.Operation.Kind]; known {
		part = of()
	}
	req := cedar.Request{
		Principal: principal,
		Action:    cedar.NewEntityUID("Action", cedar.String(q.Operation.Kind)),
		Resource:  cedar.NewEntityUID("Memory", cedar.String(q.Operation.Backend)),
		Context:   about.context(),
	}
	if err := p.validate.Request(req); err != nil {
		return nil, fmt.Errorf("cedar: the question does not fit the schema: %w", err)
	}
	decision, diag := cedar.Authorize(part.enforced, entities, req)
	switch {
	case len(diag.Errors) > 0:
		// Cedar skips a forbid policy that fails to evaluate, and might then allow.
		p.denyErrors(out, diag.Errors)
	case decision == cedar.Deny && len(diag.Reasons) == 0:
		out.add(memproxy.Deny, memproxy.Reason{Code: memproxy.PolicyNoPermit, Detail: "no policy permits this to callers of the tier " + string(q.Principal.Trust) + "; a key with a higher trust, or a permit in policy.dir, allows it"})
	case decision == cedar.Deny:
		for _, d := range diag.Reasons {
			v, reasons := p.reasonsOf([]cedar.DiagnosticReason{d})
			out.add(v, reasons...)
		}
	}
	if len(part.marking) > 0 && !out.Verdict.Stops() {
		if _, diag := cedar.Authorize(part.marking, entities, req); len(diag.Errors) > 0 {
			p.denyErrors(out, diag.Errors)
		} else {
			_, reasons := p.reasonsOf(diag.Reasons)
			out.Marks = append(out.Marks, reasons...)
		}
	}
	if len(part.shadowed) == 0 {
		return out, nil
	}
	decision, diag = cedar.Authorize(part.shadowed, entities, req)
	for _, e := range diag.Errors {
		// If it were enforced it would deny. Readers of shadow verdicts must see that it
		// has no answer.
		out.ShadowVerdict = memproxy.Deny
		out.Shadow = append(out.Shadow, memproxy.Reason{Code: memproxy.PolicyError, Rule: string(e.PolicyID), Detail: "the policy is not enforced, and could not be evaluated"})
	}
	if decision == cedar.Deny && len(diag.Reasons) > 0 {
		v, reasons := p.reasonsOf(diag.Reasons)
		out.ShadowVerdict = max(out.ShadowVerdict, v)
		out.Shadow = append(out.Shadow, reasons...)
	}
	return out, nil
}

func (p *Policy) denyErrors(out *ruling, errors []cedar.DiagnosticError) {
	for _, e := range errors {
		out.add(memproxy.Deny, memproxy.Reason{Code: memproxy.PolicyError, Rule: string(e.PolicyID), Detail: "the policy could not be evaluated"})
	}
}

// reasonsOf returns deny, or hold if all of the policies hold. Marking policies refuse
// nothing.
func (p *Policy) reasonsOf(diag []cedar.DiagnosticReason) (memproxy.Verdict, []memproxy.Reason) {
	var v memproxy.Verdict
	reasons := make([]memproxy.Reason, 0, len(diag))
	for _, d := range diag {
		r := p.rules[d.PolicyID]
		v = max(v, r.verdict)
		reasons = append(reasons, memproxy.Reason{Code: r.reason, Rule: r.ID, Detail: r.detail})
	}
	return v, reasons
}

// Position returns the file and line of a policy, for explanations.
func (p *Policy) Position(id string) (string, int, bool) {
	r, ok := p.rules[cedar.PolicyID(id)]
	if !ok {
		return "", 0, false
	}
	return r.File, r.Line, true
}

// IDs lists the compiled policies, sorted.
func (p *Policy) IDs() []string {
	var ids []string
	for _, r := range p.Rules() {
		ids = append(ids, r.ID)
	}
	return ids
}

func sorted(rs []memproxy.Reason) []memproxy.Reason {
	slices.SortFunc(rs, func(a, b memproxy.Reason) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), strings.Compare(a.Rule, b.Rule))
	})
	return slices.Compact(rs)
}
