// Policies are evaluated whole only where the parts of actions are taken away, inside of the
// package, so this is in the slow ring, where the package is compiled once more for it.

//go:build slow

package cedar

import (
	"context"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

// scopes are policies with every form of action scope.
const scopes = `
@id("x.all") forbid (principal, action, resource) when { context.items > 2 };
@id("x.eq") forbid (principal, action == Action::"forget", resource) when { context.bulk };
@id("x.in") forbid (principal, action in Action::"write", resource) when { context.steering };
@id("x.set") @verdict("hold") forbid (principal, action in [Action::"read", Action::"correct"], resource) when { context.derived };
@id("x.is") @enforce("false") forbid (principal is Human, action in [Action::"write", Action::"read"], resource);
`

// Evaluating an action's part gives the same answer as evaluating all policies.
func FuzzPartsAnswerAsTheWhole(f *testing.F) {
	b := policy.Builtin()
	b.Policies = append(b.Policies, policy.Source{Name: "scopes.cedar", Text: scopes})
	p := must.Get(Compile(b))(f)
	slow := *p
	slow.parts = nil
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		q := randomQuestion(rand.New(rand.NewPCG(seed, 1)))
		got, gotErr := p.Rule(context.Background(), q)
		want, wantErr := slow.Rule(context.Background(), q)
		if (gotErr == nil) != (wantErr == nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v %+v\n part  %+v %v\n whole %+v %v", q.Principal, q.Operation, got, gotErr, want, wantErr)
		}
	})
}

func randomQuestion(r *rand.Rand) memproxy.Question {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	yes := func() bool { return r.IntN(2) == 0 }
	op := &memproxy.Operation{
		Kind: memproxy.Kinds[r.IntN(len(memproxy.Kinds))], Backend: pick("mem0", "other"), Route: "mem0.v3.add",
		Bulk: yes(), SingleOwner: yes(), Steering: yes(), Derived: yes(),
	}
	for range r.IntN(4) {
		op.Items = append(op.Items, memproxy.Item{
			Kind:  memproxy.ItemKind(pick("content", "content", "metadata", "url")),
			Field: pick("", "gotchas", "learnings", "authority", "Übrig", "other"), Text: strings.Repeat("x", r.IntN(600)),
		})
	}
	if yes() {
		op.Backdated = []memproxy.ClientTime{{Pointer: "/timestamp"}}
	}
	pr := memproxy.Principal{
		ID: pick("a", "b"), Kind: memproxy.PrincipalKind(pick("agent", "human", "service", "anonymous")), Tenant: pick("", "acme"),
		Trust: memproxy.Trust(pick("anonymous", "authenticated", "established", "human", "system")), Method: "key",
	}
	for _, role := range []string{"dev", "qa", "pm", "architect", "memproxy-admin", "memproxy-forget"} {
		if r.IntN(4) == 0 {
			pr.Roles = append(pr.Roles, role)
		}
	}
	return memproxy.Question{
		Principal: pr, Operation: op, Profile: pick("production", "development"),
		Ceiling: memproxy.DefaultCeilings().Ceiling(pr.Trust, ""), Confidence: 700, Claimed: 900,
	}
}
