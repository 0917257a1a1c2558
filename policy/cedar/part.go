package cedar

import (
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/ast"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/memproxy/memproxy"
)

// actionPolicies is the policies that can apply to one action. The action scope of each policy is
// evaluated once, for the first question about the action.
type actionPolicies struct {
	enforced set // decide
	shadowed set // are reported only
	marking  set // mark admitted writes
}

// of returns the rules whose action scope covers a kind, with that scope removed.
func (s set) of(kind memproxy.Kind) set {
	var out set
	for _, r := range s {
		scope := *(*xast.Policy)(r.policy.AST())
		switch covers, known := covers(scope.Action, kind); {
		case !known:
			out = append(out, r) // unchanged: its action scope is evaluated with each question
		case covers:
			scope.Action = xast.ScopeTypeAll{}
			settled := *r
			settled.policy = cedar.NewPolicyFromAST((*ast.Policy)(&scope))
			out = append(out, &settled)
		}
	}
	return out
}

// covers reports whether an action scope covers a kind, and whether the form of the scope
// is known.
func covers(scope xast.IsActionScopeNode, kind memproxy.Kind) (covers, known bool) {
	is := []cedar.EntityUID{actionUID(string(kind))}
	if group := groupOf(kind); group != "" {
		is = append(is, actionUID(group))
	}
	switch s := scope.(type) {
	case xast.ScopeTypeAll:
		return true, true
	case xast.ScopeTypeEq:
		return s.Entity == is[0], true
	case xast.ScopeTypeIn:
		return slices.Contains(is, s.Entity), true
	case xast.ScopeTypeInSet:
		return slices.ContainsFunc(s.Entities, func(e cedar.EntityUID) bool { return slices.Contains(is, e) }), true
	}
	return false, false
}
