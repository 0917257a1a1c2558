package cedar_test

import (
	"fmt"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

// A request that names several owners is ruled on under each, so that a second name does
// not hide the first from a policy, and in their combinations. Names that do not narrow
// the request to themselves, such as a wildcard, count as no name too. Proves CARD-3.
func TestEveryNamedOwnerIsRuledOn(t *testing.T) {
	with := func(text string) func(...memproxy.Claim) string {
		p := compile(t, func(b *policy.Bundle) { b.Policies = append(b.Policies, policy.Source{Name: "own.cedar", Text: text}) })
		return func(claims ...memproxy.Claim) string {
			q := ask{kind: memproxy.Recall, change: func(op *memproxy.Operation) {
				op.Claims = claims
				for _, c := range claims {
					if at := op.Scope.Owner(c.Dim); c.Op == memproxy.ClaimIs && len(c.Values) == 1 && *at == "" {
						*at = c.Values[0]
					}
				}
			}}.question()
			r := must.Get(p.Rule(t.Context(), q))(t)
			if r.Verdict == memproxy.Allow {
				return ""
			}
			return string(r.Reasons[0].Code) + " " + r.Reasons[0].Rule
		}
	}
	is := func(d memproxy.Dimension, names ...string) memproxy.Claim {
		return memproxy.Claim{Dim: d, Op: memproxy.ClaimIs, Values: names}
	}
	user := func(names ...string) memproxy.Claim { return is(memproxy.DimUser, names...) }
	agent := func(names ...string) memproxy.Claim { return is(memproxy.DimAgent, names...) }
	anyone := memproxy.Claim{Dim: memproxy.DimUser, Op: memproxy.ClaimAny}

	const forbidden, nobody = "policy.forbid bob", "policy.forbid nobody"
	bob := with(`@id("bob") forbid (principal, action, resource) when { context.user == "bob" };`)
	expect.Equal(t, bob(user("bob")), forbidden)
	expect.Equal(t, bob(user("ann")), "")
	expect.Equal(t, bob(user("ann"), user("bob")), forbidden, "in two claims")
	expect.Equal(t, bob(user("ann", "bob")), forbidden, "in a list")
	expect.Equal(t, bob(user("ann", "eve"), anyone), "")

	none := with(`@id("nobody") forbid (principal, action, resource) when { context.user == "" };`)
	expect.Equal(t, none(), nobody)
	expect.Equal(t, none(user("ann", "bob")), "")
	expect.Equal(t, none(user("ann"), anyone), nobody, "a wildcard next to a name")

	both := with(`@id("bob") forbid (principal, action, resource) when { context.user == "bob" && context.agent == "dev" };`)
	expect.Equal(t, both(user("ann"), user("bob"), agent("qa"), agent("dev")), forbidden)
	expect.Equal(t, both(user("ann"), user("bob"), agent("qa")), "")

	permitted := with(`@id("bob") forbid (principal, action, resource) unless { context.user == "ann" };`)
	expect.Equal(t, permitted(user("ann")), "")
	expect.Equal(t, permitted(user("ann"), user("bob")), forbidden)

	var many []string
	for i := range 257 {
		many = append(many, fmt.Sprint(i))
	}
	expect.Equal(t, bob(user(many[1:]...)), "")
	expect.Equal(t, bob(user(many...)), "policy.error ", "more names than are ruled on")
	expect.Equal(t, with(`@id("x") forbid (principal, action, resource) when { context.bulk };`)(user(many...)), "", "names that no policy reads")
}
