package cedar

import (
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/ast"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/memproxy/memproxy"
)

// part is the policies that can have a say on one action. Their action scope
// is settled when they are compiled and is not looked at again: what is left
// to evaluate is the rest of the scope and the conditions.
type part struct {
	enforced set // decides
	shadowed set // is only reported
	marking  set // marks what is let through
}

// partOf returns the part of an action.
func (p *Policy) partOf(kind memproxy.Kind) part {
	if part, ok := p.parts[kind]; ok {
		return part
	}
	return p.whole
}

// divide fills the parts.
func (p *Policy) divide() {
	p.parts = make(map[memproxy.Kind]part, len(memproxy.Kinds))
	for _, kind := range memproxy.Kinds {
		p.parts[kind] = part{p.whole.enforced.of(kind), p.whole.shadowed.of(kind), p.whole.marking.of(kind)}
	}
}

// of returns the rules whose action scope holds for a kind, without it.
func (s set) of(kind memproxy.Kind) set {
	var out set
	for _, r := range s {
		scope := *(*xast.Policy)(r.policy.AST())
		switch covers, known := covers(scope.Action, kind); {
		case !known:
			out = append(out, r) // as it is: its scope is evaluated with the rest
		case covers:
			scope.Action = xast.ScopeTypeAll{}
			settled := *r
			settled.policy = cedar.NewPolicyFromAST((*ast.Policy)(&scope))
			out = append(out, &settled)
		}
	}
	return out
}

// covers reports whether an action scope holds for a kind, and whether it is
// a scope that it knows.
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
