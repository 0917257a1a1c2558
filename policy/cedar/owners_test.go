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

// The evaluations that one request can cause are bounded: its owners times its parts.
func TestOwnersTimesPartsAreBounded(t *testing.T) {
	p := compile(t, func(b *policy.Bundle) {
		b.Policies = append(b.Policies, policy.Source{Name: "own.cedar", Text: `@id("bob") forbid (principal, action, resource) when { context.user == "bob" && context.field == "f" };`})
	})
	for _, tc := range []struct {
		users, fields int
		want          memproxy.Verdict
	}{{64, 16, memproxy.Allow}, {64, 17, memproxy.Deny}, {256, 4, memproxy.Allow}, {1, 2000, memproxy.Allow}} {
		q := ask{kind: memproxy.Learn, change: func(op *memproxy.Operation) {
			for i := range tc.users {
				op.Claims = append(op.Claims, memproxy.Claim{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{fmt.Sprint(i)}})
			}
			op.Scope.User, op.Items = "0", nil
			for i := range tc.fields {
				op.Items = append(op.Items, memproxy.Item{Kind: memproxy.ItemContent, Text: "likes tea", Field: fmt.Sprint("f", i)})
			}
		}}.question()
		r := must.Get(p.Rule(t.Context(), q))(t)
		expect.Equal(t, r.Verdict, tc.want, tc.users, "users", tc.fields, "fields")
		if tc.want == memproxy.Deny {
			expect.Equal(t, r.Reasons[0].Detail, "the request names more than 60 combinations of users, agents, apps and runs, for 17 fields or members")
		}
	}
}
