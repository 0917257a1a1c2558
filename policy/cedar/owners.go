package cedar

import (
	"slices"

	"github.com/memproxy/memproxy"
)

// A request is ruled on for at most maxOwners combinations of owners, and for maxRulings
// of an owner and a part. One that has more is denied if the policies could distinguish
// its owners.
const (
	maxOwners  = 256
	maxRulings = 1024
)

// ownersOf returns the combinations of owners of which the policies are asked. A request
// is ruled on under every name that it has, or a second name would hide the first. ok is
// false if there are more than most.
func (p *Policy) ownersOf(op *memproxy.Operation, most int) (all []memproxy.Scope, ok bool) {
	all = []memproxy.Scope{op.Scope}
	for _, d := range memproxy.Dimensions {
		if !p.visibility.sees(string(d)) {
			continue
		}
		names := namesOf(op, d)
		if len(all)*len(names) > most {
			return nil, false
		}
		var next []memproxy.Scope
		for _, scope := range all {
			for _, name := range names {
				*scope.Owner(d) = name
				next = append(next, scope)
			}
		}
		all = next
	}
	return all, true
}

// namesOf returns the names that an operation has in a dimension, "" among them if it is
// not narrowed to the others.
func namesOf(op *memproxy.Operation, d memproxy.Dimension) (names []string) {
	if name := op.Scope.In(d); name != "" {
		names = append(names, name)
	}
	open := false
	for i := range op.Claims {
		switch c := &op.Claims[i]; {
		case c.Dim != d:
		case c.Op == memproxy.ClaimIs:
			names = append(names, c.Values...)
		default:
			open = len(op.Within[d]) == 0
		}
	}
	if open || len(names) == 0 {
		names = append(names, "")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (a policyContext) forOwners(by memproxy.Scope) policyContext {
	a.User, a.Agent, a.App, a.Run = by.User, by.Agent, by.App, by.Run
	return a
}
