package cedar

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/cedar-policy/cedar-go"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cache"
	"github.com/memproxy/memproxy/policy"
)

type rule struct {
	RuleInfo
	policy  *cedar.Policy
	why     memproxy.Reason
	verdict memproxy.Verdict
}

// RuleInfo describes a rule of a compiled bundle.
type RuleInfo struct {
	ID     string
	Effect string // permit, deny, hold, or mark, which marks written memories and refuses nothing
	Shadow bool   // reported; does not decide
	File   string
	Line   int
}

// Policy is a compiled bundle. It is immutable and safe for concurrent use.
type Policy struct {
	whole      actionPolicies // every policy, by id
	parts      map[memproxy.Kind]func() actionPolicies
	rules      map[cedar.PolicyID]*rule
	disabled   map[string]bool // ids of policies that are left out
	validate   *validate.Validator
	visibility *visibility
	answers    cache.Cache[cacheKey, *ruling]
}

type set []*rule

func (s set) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, r := range s {
			if !yield(cedar.PolicyID(r.ID), r.policy) {
				return
			}
		}
	}
}

// Compile parses and validates a bundle. The error lists every fault, each with file
// and line.
func Compile(b policy.Bundle) (*Policy, error) {
	checked, err := schemaOf(b.Schema)
	if err != nil {
		return nil, err
	}
	p := &Policy{rules: map[cedar.PolicyID]*rule{}, disabled: map[string]bool{}, validate: checked.validate}
	var faults []error
	for _, src := range b.Policies {
		list, admitted := checked.files[src.Text]
		if !admitted {
			if list, err = cedar.NewPolicyListFromBytes(src.Name, []byte(src.Text)); err != nil {
				faults = append(faults, atLine(src.Name, err))
				continue
			}
		}
		for _, pol := range list {
			if err := p.add(src.Name, pol, b, admitted); err != nil {
				faults = append(faults, err)
			}
		}
	}
	for _, id := range slices.Concat(b.Disabled, b.Shadowed) {
		if p.rules[cedar.PolicyID(id)] == nil && !p.disabled[id] {
			faults = append(faults, fmt.Errorf("%s: unknown policy %q", b.Position(id), id))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	for _, s := range [...]set{p.whole.enforced, p.whole.shadowed, p.whole.marking} {
		slices.SortFunc(s, func(x, y *rule) int { return strings.Compare(x.ID, y.ID) })
	}
	p.parts = make(map[memproxy.Kind]func() actionPolicies, len(memproxy.Kinds))
	for _, kind := range memproxy.Kinds {
		p.parts[kind] = sync.OnceValue(func() actionPolicies {
			return actionPolicies{p.whole.enforced.of(kind), p.whole.shadowed.of(kind), p.whole.marking.of(kind)}
		})
	}
	p.visibility = visibilityOf(p.rules)
	p.answers = cache.New[cacheKey, *ruling](maxAnswers)
	return p, nil
}

// add validates one policy and files it by effect. A policy that is known to satisfy
// the schema (admitted) is not validated again.
func (p *Policy) add(file string, pol *cedar.Policy, b policy.Bundle, admitted bool) error {
	id := string(pol.Annotations()["id"])
	r := &rule{
		RuleInfo: RuleInfo{id, "deny", slices.Contains(b.Shadowed, id), file, pol.Position().Line},
		policy:   pol, why: memproxy.Reason{Code: memproxy.PolicyForbid, Rule: id}, verdict: memproxy.Deny,
	}
	err := p.checkID(id)
	if err == nil && slices.Contains(b.Disabled, id) {
		p.disabled[id] = true
		return nil
	}
	if err = cmp.Or(err, r.annotate(pol.Annotations())); err == nil && !admitted {
		if invalid := p.validate.Policy(id, (*xast.Policy)(pol.AST())); invalid != nil {
			err = fmt.Errorf("policy %s: %s", id, inOrder(id, invalid))
		}
	}
	permits := pol.Effect() == cedar.Permit
	if err == nil && permits && r.Effect == "mark" {
		err = fmt.Errorf("policy %s: a permit cannot mark", id)
	}
	if err != nil {
		return fmt.Errorf("%s:%d: %w", file, r.Line, err)
	}
	if permits {
		r.Effect = "permit"
	}
	p.rules[cedar.PolicyID(id)] = r
	switch {
	case r.Shadow:
		p.whole.shadowed = append(p.whole.shadowed, r)
	case r.Effect == "mark":
		p.whole.marking = append(p.whole.marking, r)
	default:
		p.whole.enforced = append(p.whole.enforced, r)
	}
	return nil
}

func (p *Policy) checkID(id string) error {
	_, taken := p.rules[cedar.PolicyID(id)]
	switch {
	case id == "":
		return errors.New("a policy needs @id(\"…\")")
	case strings.ContainsFunc(id, func(c rune) bool { return !unicode.IsPrint(c) }):
		return fmt.Errorf("policy %q: @id has a line break or another character that cannot be printed", id)
	case taken:
		return fmt.Errorf("policy %s is defined twice", id)
	}
	return nil
}

func (r *rule) annotate(ann cedar.Annotations) error {
	for name := range ann {
		if !slices.Contains([]string{"id", "reason", "detail", "opens", "verdict", "enforce"}, string(name)) {
			return fmt.Errorf("policy %s: unknown annotation @%s", r.ID, name)
		}
	}
	r.why.Detail = string(ann["detail"])
	if opens, ok := ann["opens"]; ok {
		opened := cmp.Or(string(opens), "disable: ["+r.ID+"] in the bundle.yaml of policy.dir") + " allows it"
		r.why.Detail = strings.TrimPrefix(r.why.Detail+"; "+opened, "; ")
	}
	if code, ok := ann["reason"]; ok {
		r.why.Code = memproxy.ReasonCode(code)
		if !slices.Contains(memproxy.ReasonCodes(), r.why.Code) {
			return fmt.Errorf("policy %s: unknown reason %q; docs/reasons.md lists them", r.ID, code)
		}
	}
	switch v := string(ann["verdict"]); v {
	case "", "deny":
	case "hold":
		r.Effect, r.verdict = v, memproxy.Hold
	case "mark":
		r.Effect, r.verdict = v, memproxy.Allow
	default:
		return fmt.Errorf("policy %s: @verdict is \"deny\", \"hold\" or \"mark\", not %q", r.ID, v)
	}
	switch v := string(ann["enforce"]); v {
	case "", "true":
	case "false":
		r.Shadow = true
	default:
		return fmt.Errorf("policy %s: @enforce is \"true\" or \"false\", not %q", r.ID, v)
	}
	return nil
}
