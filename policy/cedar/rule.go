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
	decision, found, faults := p.authorize(part.enforced, entities, req, "the policy could not be evaluated")
	switch {
	case len(faults) > 0:
		// Cedar skips a forbid policy that fails to evaluate, and might then allow.
		out.add(memproxy.Deny, faults...)
	case decision == cedar.Deny && len(found) == 0:
		why := "no policy permits this to callers of the tier " + string(q.Principal.Trust) + "; a key with a higher trust, or a permit in policy.dir, allows it"
		if len(p.rules) == 0 {
			why = "no policies are in force, so nothing is permitted; a sidecar of a fleet gets them with its first release (/readyz)"
		}
		out.add(memproxy.Deny, memproxy.Reason{Code: memproxy.PolicyNoPermit, Detail: why})
	case decision == cedar.Deny:
		for _, r := range found {
			out.add(r.verdict, r.why)
		}
	}
	if len(part.marking) > 0 {
		_, found, faults = p.authorize(part.marking, entities, req, "the policy could not be evaluated")
		if len(faults) > 0 {
			out.add(memproxy.Deny, faults...)
		} else {
			for _, r := range found {
				out.Marks = append(out.Marks, r.why)
			}
		}
	}
	if len(part.shadowed) > 0 {
		decision, found, faults = p.authorize(part.shadowed, entities, req, "the policy is not enforced, and could not be evaluated")
		if len(faults) > 0 { // enforced, it would deny
			out.ShadowVerdict, out.Shadow = memproxy.Deny, faults
		}
		if decision == cedar.Deny {
			for _, r := range found {
				out.ShadowVerdict, out.Shadow = max(out.ShadowVerdict, r.verdict), append(out.Shadow, r.why)
			}
		}
	}
	return out, nil
}

// authorize evaluates a set of policies. It returns the decision and the rules that led to
// it, and a reason with the detail for each policy that could not be evaluated.
func (p *Policy) authorize(s set, entities cedar.EntityMap, req cedar.Request, detail string) (decision cedar.Decision, found []*rule, faults []memproxy.Reason) {
	decision, diag := cedar.Authorize(s, entities, req)
	for _, e := range diag.Errors {
		faults = append(faults, memproxy.Reason{Code: memproxy.PolicyError, Rule: string(e.PolicyID), Detail: detail})
	}
	for _, d := range diag.Reasons {
		found = append(found, p.rules[d.PolicyID])
	}
	return decision, found, faults
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
