package cedar_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/policy/cedar"

	engine "github.com/cedar-policy/cedar-go"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

// Few names and values, so that conditions are both met and missed.
var (
	someTexts   = []string{"", "a", "b", "user"}
	someNumbers = []int{-1, 0, 1, 2, 499, 500, 501, 1000}
)

type writer struct{ *rand.Rand }

func (w writer) of(all []string) string { return all[w.IntN(len(all))] }
func (w writer) number() int            { return someNumbers[w.IntN(len(someNumbers))] }

func (w writer) text() string {
	return w.of([]string{"profile", "route", "source", "user", "agent", "app", "run", "authorAttestation", "attestation", "field", "member", "layer", "inference", "namespace"})
}

func (w writer) count() string {
	return w.of([]string{"items", "claimed", "confidence", "risk", "authorTrust", "track", "size"})
}

// condition is a random condition of a policy.
func (w writer) condition(depth int) string {
	if depth > 0 && w.IntN(2) == 0 {
		a, b := w.condition(depth-1), w.condition(depth-1)
		return w.of([]string{"(" + a + " && " + b + ")", "(" + a + " || " + b + ")", "!(" + a + ")", "(if " + a + " then " + b + " else " + w.condition(0) + ")"})
	}
	flag := w.of([]string{"bulk", "single", "steering", "derived", "unseen", "backdated", "secret", "personal", "others", "fieldKnown", "inferred"})
	compare := w.of([]string{"<", "<=", ">", ">=", "==", "!="})
	return w.of([]string{
		"context." + flag,
		fmt.Sprintf("context.%s %s %d", w.count(), compare, w.number()),
		fmt.Sprintf("%d %s context.%s", w.number(), compare, w.count()),
		fmt.Sprintf("context.%s %s context.%s", w.count(), compare, w.count()),
		fmt.Sprintf("context.%s %s principal.trust", w.count(), compare),
		fmt.Sprintf("context.%s + 1 %s %d", w.count(), compare, w.number()),
		fmt.Sprintf("context.%s == %q", w.text(), w.of(someTexts)),
		fmt.Sprintf("context.%s != context.%s", w.text(), w.text()),
		fmt.Sprintf("context.%s like \"%s*\"", w.text(), w.of(someTexts)),
		fmt.Sprintf("[%q, %q].contains(context.%s)", w.of(someTexts), w.of(someTexts), w.text()),
		fmt.Sprintf("context.findings.contains(%q)", w.of(someTexts)),
		fmt.Sprintf("[%q].containsAny(context.keys)", w.of(someTexts)),
		fmt.Sprintf("principal.tier == %q", w.of([]string{"anonymous", "authenticated"})),
		"context has field",
	})
}

// bundle is the built-in bundle with random policies.
func (w writer) bundle() policy.Bundle {
	b := policy.Builtin()
	var out strings.Builder
	for i := range 1 + w.IntN(5) {
		effect, annotation := "permit", ""
		if w.IntN(3) > 0 {
			effect = "forbid"
			annotation = w.of([]string{"", "@verdict(\"hold\") ", "@verdict(\"mark\") ", "@enforce(\"false\") "})
		}
		fmt.Fprintf(&out, "@id(\"p%d\") %s%s (principal, action, resource) %s { %s };\n", i, annotation, effect, w.of([]string{"when", "unless"}), w.condition(2))
	}
	b.Policies = []policy.Source{{
		Name: "own.cedar", Text: "@id(\"all\") permit (principal, action, resource);\n" + out.String(),
	}}
	return b
}

func (w writer) question() memproxy.Question {
	op := &memproxy.Operation{
		Kind: []memproxy.Kind{memproxy.Learn, memproxy.Correct, memproxy.Recall}[w.IntN(3)], Backend: w.of(someTexts), Route: w.of(someTexts),
		Bulk: w.IntN(2) == 0, SingleOwner: w.IntN(2) == 0, Steering: w.IntN(2) == 0, Derived: w.IntN(2) == 0, SourceClaim: memproxy.Source(w.of(someTexts)),
		Scope: memproxy.Scope{User: w.of(someTexts), Agent: w.of(someTexts), App: w.of(someTexts), Run: w.of(someTexts)},
	}
	for range w.IntN(3) {
		it := memproxy.Item{Kind: memproxy.ItemContent, Text: strings.Repeat("x", max(0, w.number())), Field: w.of(someTexts), Member: w.of(someTexts), Inferred: w.IntN(2) == 0, Layer: memproxy.Episodic}
		if w.IntN(4) == 0 {
			it.Kind = memproxy.ItemURL
		}
		op.Items = append(op.Items, it)
	}
	if w.IntN(2) == 0 {
		op.Keys = []string{w.of(someTexts), w.of(someTexts)}
	}
	if w.IntN(2) == 0 {
		op.Backdated = []memproxy.ClientTime{{}}
	}
	q := memproxy.Question{
		Principal: memproxy.Principal{ID: w.of(someTexts), Kind: memproxy.KindAgent, Trust: memproxy.Trust(w.of([]string{"anonymous", "authenticated"})), Roles: []string{w.of(someTexts)}},
		Operation: op, Profile: w.of(someTexts), Ceiling: memproxy.PerMille(w.number()), Confidence: memproxy.PerMille(w.number()), Claimed: memproxy.PerMille(w.number()),
		AuthorTrust: memproxy.PerMille(w.number()), Track: memproxy.PerMille(w.number()), Others: w.IntN(2) == 0,
		Attestation: memproxy.Attestation(w.of(someTexts)), AuthorAttestation: memproxy.Attestation(w.of(someTexts)),
	}
	for range w.IntN(3) {
		q.Findings = append(q.Findings, memproxy.Finding{Rule: w.of([]string{"a", "b", "secret.x", "pii.y"}), Score: memproxy.PerMille(w.number())})
	}
	return q
}

// like is a question that differs in one attribute.
func (w writer) like(q memproxy.Question) memproxy.Question {
	op, other := *q.Operation, w.question()
	n := memproxy.PerMille(w.number())
	switch w.IntN(12) {
	case 0:
		q.Confidence = n
	case 1:
		q.Claimed = n
	case 2:
		q.AuthorTrust = n
	case 3:
		q.Track = n
	case 4:
		q.Ceiling = n
	case 5:
		q.Findings = other.Findings
	case 6:
		op.Items = other.Operation.Items
	case 7:
		op.Scope = other.Operation.Scope
	case 8:
		op.Keys = other.Operation.Keys
	case 9:
		op.Bulk, op.SingleOwner = !op.Bulk, true
	case 10:
		q.Principal.Trust = other.Principal.Trust
	case 11:
		op.SourceClaim, q.Profile = other.Operation.SourceClaim, other.Profile
	}
	q.Operation = &op
	return q
}

// kept compares cached decisions with uncached ones.
func kept(t *testing.T, seed uint64, questions int) {
	t.Helper()
	w := writer{rand.New(rand.NewPCG(seed, 0))}
	b := w.bundle()
	keeps, err := cedar.Compile(b)
	must.Do(t, err, b.Policies[0].Text)
	forgets := must.Get(cedar.Compile(b))(t)
	q := w.question()
	for i := range questions {
		if q = w.like(q); i%50 == 0 {
			q = w.question()
		}
		once := q
		once.Principal.Method = fmt.Sprint(i) // which no policy reads: the answer is to nobody else
		want := must.Get(forgets.Rule(t.Context(), once))(t)
		for range 2 {
			got, err := keeps.Rule(t.Context(), q)
			must.Do(t, err, "seed", seed, b.Policies[0].Text, q)
			must.Deep(t, got, want, "seed", seed, b.Policies[0].Text, q)
			for i := range got.Reasons { // the caller may modify its answer
				got.Reasons[i].Detail = "changed"
			}
		}
	}
}

// Proves EDGE-1, GOV-3: a cached decision equals the engine's, for generated policies
// and questions.
func TestCachedDecisionsAreTheEngines(t *testing.T) {
	for seed := range uint64(60) {
		kept(t, seed, 150)
	}
}

func FuzzCachedDecisions(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { kept(t, seed, 200) })
}

// Proves EDGE-1: attributes that no policy reads are not part of the cache key: another
// user's write of another length hits the cache.
func TestUnreadAttributesAreNotInTheCacheKey(t *testing.T) {
	p := must.Get(cedar.Compile(policy.Builtin()))(t)
	question := func(id string, i int) memproxy.Question {
		return memproxy.Question{
			Principal: memproxy.Principal{ID: id, Kind: memproxy.KindAgent, Trust: memproxy.TrustAuthenticated, Tenant: "acme"}, Profile: "production", Ceiling: 700,
			Operation: &memproxy.Operation{
				Kind: memproxy.Learn, Backend: "mem0", Scope: memproxy.Scope{User: fmt.Sprint("user", i), Run: fmt.Sprint("run", i)},
				Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: strings.Repeat("x", 1+i)}},
			},
		}
	}
	// allocations of answers to questions, of which AllocsPerRun asks one more.
	allocations := func(of func(i int) memproxy.Question) float64 {
		var all []memproxy.Question
		for i := range 151 {
			all = append(all, of(i))
		}
		return testing.AllocsPerRun(150, func() {
			got, err := p.Rule(t.Context(), all[0])
			if err != nil || got.Verdict != memproxy.Allow {
				t.Errorf("%+v, %v", got, err)
			}
			all = all[1:]
		})
	}
	same := allocations(func(int) memproxy.Question { return question("dev", 0) })
	others := allocations(func(i int) memproxy.Question { return question("dev", i) })
	evaluated := allocations(func(i int) memproxy.Question { return question(fmt.Sprint("dev", i), 0) })
	if others > same || evaluated < 2*same {
		t.Errorf("%v allocations for the same question, %v for another user's, %v for another caller's", same, others, evaluated)
	}
}

// Callers that differ in any attribute are answered apart: a cache that confuses them
// would lend one the other's roles.
func TestCallersAreNotTakenForEachOther(t *testing.T) {
	base := func() memproxy.Question {
		return memproxy.Question{
			Principal: memproxy.Principal{ID: "a", Kind: memproxy.KindAgent, Trust: memproxy.TrustAuthenticated, Roles: []string{"ab", "c"}},
			Operation: &memproxy.Operation{Kind: memproxy.Learn, Backend: "mem0"}, Profile: "production", Ceiling: 700,
		}
	}
	for name, c := range map[string]struct {
		change func(*memproxy.Question)
		forbid string // of the other
	}{
		"id":      {func(q *memproxy.Question) { q.Principal.ID = "b" }, `(principal == Agent::"b", action, resource)`},
		"kind":    {func(q *memproxy.Question) { q.Principal.Kind = memproxy.KindHuman }, `(principal is Human, action, resource)`},
		"trust":   {func(q *memproxy.Question) { q.Principal.Trust = memproxy.TrustHuman }, `(principal, action, resource) when { principal.tier == "human" }`},
		"tenant":  {func(q *memproxy.Question) { q.Principal.Tenant = "acme" }, `(principal, action, resource) when { principal.tenant == "acme" }`},
		"method":  {func(q *memproxy.Question) { q.Principal.Method = "oidc" }, `(principal, action, resource) when { principal.method == "oidc" }`},
		"roles":   {func(q *memproxy.Question) { q.Principal.Roles = []string{"a", "bc"} }, `(principal in Role::"bc", action, resource)`},
		"no role": {func(q *memproxy.Question) { q.Principal.Roles = nil }, `(principal, action, resource) unless { principal in Role::"c" }`},
		"ceiling": {func(q *memproxy.Question) { q.Ceiling = 900 }, `(principal, action, resource) when { principal.trust == 900 }`},
		"action":  {func(q *memproxy.Question) { q.Operation.Kind = memproxy.Recall }, `(principal, action == Action::"recall", resource)`},
		"backend": {func(q *memproxy.Question) { q.Operation.Backend = "other" }, `(principal, action, resource == Memory::"other")`},
	} {
		b := policy.Builtin()
		b.Policies = []policy.Source{{Name: "own.cedar", Text: "@id(\"all\") permit (principal, action, resource);\n@id(\"no\") forbid " + c.forbid + ";\n"}}
		p := must.Get(cedar.Compile(b))(t)
		q, other := base(), base()
		c.change(&other)
		for range 2 {
			expect.Equal(t, must.Get(p.Rule(t.Context(), q))(t).Verdict, memproxy.Allow, name)
			expect.Equal(t, must.Get(p.Rule(t.Context(), other))(t).Verdict, memproxy.Deny, name)
		}
	}
}

// Proves EDGE-18: the detail of every built-in denial ends with what allows the
// operation: a role, a setting, or the rule's id to disable; a hold waits for review.
func TestDenialsSayWhatAllowsThem(t *testing.T) {
	t.Parallel()
	n := 0
	for _, file := range policy.Builtin().Policies {
		for _, pol := range must.Get(engine.NewPolicyListFromBytes(file.Name, []byte(file.Text)))(t) {
			if pol.Effect() == engine.Permit || pol.Annotations()["verdict"] == "mark" {
				continue
			}
			verdict, reason := unconditional(t, pol)
			_, by, opens := strings.Cut(reason.Detail, "; ")
			switch id := string(pol.Annotations()["id"]); {
			case reason.Rule != id:
				t.Errorf("%s gives the reason %+v", id, reason)
			case verdict == memproxy.Hold && !strings.Contains(reason.Detail, "wait"):
				t.Errorf("%s holds and says %q", id, reason.Detail)
			case verdict != memproxy.Deny:
			case !opens || !strings.HasSuffix(by, " allows it"):
				t.Errorf("%s denies and says %q", id, reason.Detail)
			case strings.Contains(by, "disable: [") && !strings.Contains(by, id):
				t.Errorf("%s names another rule: %q", id, reason.Detail)
			default:
				n++
			}
		}
	}
	if n < 15 {
		t.Errorf("%d denials: the test does not find them", n)
	}
}

// unconditional returns what a policy rules, and why, when its conditions are met.
func unconditional(t *testing.T, pol *engine.Policy) (memproxy.Verdict, memproxy.Reason) {
	t.Helper()
	(*xast.Policy)(pol.AST()).Conditions = nil
	b := policy.Builtin()
	b.Policies = []policy.Source{{Name: "own.cedar", Text: "@id(\"all\") permit (principal, action, resource);\n" + string(pol.MarshalCedar())}}
	p := must.Get(cedar.Compile(b))(t)
	for _, kind := range memproxy.Kinds {
		for _, who := range []memproxy.PrincipalKind{memproxy.KindAgent, memproxy.KindAnonymous} {
			got := must.Get(p.Rule(t.Context(), memproxy.Question{
				Principal: memproxy.Principal{ID: "a", Kind: who, Trust: memproxy.TrustAuthenticated}, Operation: &memproxy.Operation{Kind: kind, Backend: "mem0"},
			}))(t)
			if reasons := slices.Concat(got.Reasons, got.Shadow); len(reasons) == 1 {
				return got.Verdict, reasons[0]
			}
		}
	}
	t.Fatalf("it rules on nothing: %s", pol.MarshalCedar())
	return 0, memproxy.Reason{}
}
