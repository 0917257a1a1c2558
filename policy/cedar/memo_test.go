package cedar

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

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
func kept(t *testing.T, seed uint64, questions int) (answers int) {
	t.Helper()
	w := writer{rand.New(rand.NewPCG(seed, 0))}
	b := w.bundle()
	keeps, err := Compile(b)
	must.Do(t, err, b.Policies[0].Text)
	forgets := must.Get(Compile(b))(t)
	q := w.question()
	for i := range questions {
		if q = w.like(q); i%50 == 0 {
			q = w.question()
		}
		forgets.answers.Purge()
		want := must.Get(forgets.Rule(t.Context(), q))(t)
		for range 2 {
			got, err := keeps.Rule(t.Context(), q)
			must.Do(t, err, "seed", seed, b.Policies[0].Text, q)
			must.Deep(t, got, want, "seed", seed, b.Policies[0].Text, q)
			for i := range got.Reasons { // the caller may modify its answer
				got.Reasons[i].Detail = "changed"
			}
		}
	}
	return keeps.answers.Len()
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
	p := must.Get(Compile(policy.Builtin()))(t)
	for i := range 150 {
		q := memproxy.Question{
			Principal: memproxy.Principal{ID: "dev", Kind: memproxy.KindAgent, Trust: memproxy.TrustAuthenticated, Tenant: "acme"}, Profile: "production", Ceiling: 700,
			Operation: &memproxy.Operation{
				Kind: memproxy.Learn, Backend: "mem0", Scope: memproxy.Scope{User: fmt.Sprint("user", i), Run: fmt.Sprint("run", i)},
				Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: strings.Repeat("x", 1+i)}},
			},
		}
		if got, err := p.Rule(t.Context(), q); err != nil || got.Verdict != memproxy.Allow {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	expect.Equal(t, p.answers.Len(), 1)
}

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

// Callers that differ in any attribute have different keys: a cache that confuses them
// would lend one the other's roles.
func TestCallersAreNotTakenForEachOther(t *testing.T) {
	base := func() memproxy.Question {
		return memproxy.Question{
			Principal: memproxy.Principal{ID: "a", Kind: memproxy.KindAgent, Trust: memproxy.TrustAuthenticated, Roles: []string{"ab", "c"}},
			Operation: &memproxy.Operation{Kind: memproxy.Learn, Backend: "mem0"}, Profile: "production", Ceiling: 700,
		}
	}
	for name, change := range map[string]func(*memproxy.Question){
		"id":      func(q *memproxy.Question) { q.Principal.ID = "b" },
		"kind":    func(q *memproxy.Question) { q.Principal.Kind = memproxy.KindHuman },
		"trust":   func(q *memproxy.Question) { q.Principal.Trust = memproxy.TrustHuman },
		"tenant":  func(q *memproxy.Question) { q.Principal.Tenant = "acme" },
		"method":  func(q *memproxy.Question) { q.Principal.Method = "oidc" },
		"roles":   func(q *memproxy.Question) { q.Principal.Roles = []string{"a", "bc"} },
		"no role": func(q *memproxy.Question) { q.Principal.Roles = nil },
		"ceiling": func(q *memproxy.Question) { q.Ceiling = 900 },
		"action":  func(q *memproxy.Question) { q.Operation.Kind = memproxy.Recall },
		"backend": func(q *memproxy.Question) { q.Operation.Backend = "other" },
	} {
		q, other := base(), base()
		change(&other)
		if callerOf(&q) == callerOf(&other) {
			t.Errorf("%s: two callers share a key", name)
		}
	}
}

// Proves EDGE-18: the detail of every built-in denial ends with what allows the
// operation: a role, a setting, or the rule's id to disable; a hold waits for review.
func TestDenialsSayWhatAllowsThem(t *testing.T) {
	t.Parallel()
	p := must.Get(Compile(policy.Builtin()))(t)
	n := 0
	for id, r := range p.rules {
		_, by, opens := strings.Cut(r.detail, "; ")
		switch {
		case r.Effect == "permit" || r.Effect == "mark":
		case r.verdict == memproxy.Hold && !strings.Contains(r.detail, "wait"):
			t.Errorf("%s holds and says %q", id, r.detail)
		case r.verdict != memproxy.Deny:
		case !opens || !strings.HasSuffix(by, " allows it"):
			t.Errorf("%s denies and says %q", id, r.detail)
		case strings.Contains(by, "disable: [") && !strings.Contains(by, string(id)):
			t.Errorf("%s names another rule: %q", id, r.detail)
		default:
			n++
		}
	}
	if n < 15 {
		t.Errorf("%d denials: the test does not find them", n)
	}
}
