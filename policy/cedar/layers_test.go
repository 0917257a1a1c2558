package cedar_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

// governed is a governance with the same treatment for everything.
func governed(t memproxy.Treatment) memproxy.Governance {
	return memproxy.Governance{
		Namespaces: memproxy.DefaultNamespaces(), Outside: t, Fields: map[string]memproxy.Layer{"todo": memproxy.Task},
		Inferred: map[memproxy.Layer]memproxy.Treatment{memproxy.Semantic: t, memproxy.Task: t, memproxy.Episodic: t},
	}
}

// item changes the first item of a question.
func item(change func(*memproxy.Item)) func(*memproxy.Operation) {
	return func(op *memproxy.Operation) { change(&op.Items[0]) }
}

func inferredItem(l memproxy.Layer) func(*memproxy.Operation) {
	return item(func(it *memproxy.Item) { it.Inferred, it.Layer = true, l })
}

// Proves GOV-1, GOV-2, GOV-3: keys outside the namespaces and inferred content get the
// configured treatment; each refusal is next to its nearest allowed neighbour.
func TestLayers(t *testing.T) {
	p := compile(t, nil)
	onlySemantic := governed(memproxy.TreatRefuse)
	onlySemantic.Inferred = map[memproxy.Layer]memproxy.Treatment{memproxy.Semantic: memproxy.TreatRefuse, memproxy.Task: memproxy.TreatMark}
	for _, tc := range []struct {
		name    string
		ask     ask
		g       memproxy.Governance
		verdict memproxy.Verdict
		rules   string // of reasons, then of marks
	}{
		{"outside, refused", ask{field: "billing"}, governed(memproxy.TreatRefuse), memproxy.Deny, "layer.namespace.refuse"},
		{"outside, held", ask{field: "billing"}, governed(memproxy.TreatHold), memproxy.Hold, "layer.namespace.hold"},
		{"outside, marked", ask{field: "billing"}, governed(memproxy.TreatMark), memproxy.Allow, "layer.namespace.mark"},
		{"outside, allowed", ask{field: "billing"}, governed(memproxy.TreatAllow), memproxy.Allow, ""},
		{"inside", ask{field: "tone"}, governed(memproxy.TreatRefuse), memproxy.Allow, ""},
		{"inside, in other letters", ask{field: " Tone "}, governed(memproxy.TreatRefuse), memproxy.Allow, ""},
		{"a governed field of the bundle", ask{field: "learnings"}, governed(memproxy.TreatRefuse), memproxy.Allow, ""},
		{"Letta's ordinary block", ask{field: "human"}, governed(memproxy.TreatRefuse), memproxy.Allow, ""},
		{"without a key", ask{}, governed(memproxy.TreatRefuse), memproxy.Allow, ""},
		{"outside, changed", ask{kind: memproxy.Correct, field: "billing"}, governed(memproxy.TreatRefuse), memproxy.Deny, "layer.namespace.refuse"},
		{"outside, deleted", ask{kind: memproxy.Forget, field: "billing"}, governed(memproxy.TreatRefuse), memproxy.Allow, ""},

		{"inferred, refused", ask{change: inferredItem(memproxy.Semantic)}, governed(memproxy.TreatRefuse), memproxy.Deny, "layer.inferred.refuse"},
		{"inferred, held", ask{change: inferredItem(memproxy.Semantic)}, governed(memproxy.TreatHold), memproxy.Hold, "layer.inferred.hold"},
		{"inferred, marked", ask{change: inferredItem(memproxy.Semantic)}, governed(memproxy.TreatMark), memproxy.Allow, "layer.inferred.mark"},
		{"stated", ask{}, governed(memproxy.TreatRefuse), memproxy.Allow, ""},
		{"inferred, of a layer without a rule", ask{change: inferredItem(memproxy.Episodic)}, onlySemantic, memproxy.Allow, ""},
		{"inferred, of a layer with another", ask{change: inferredItem(memproxy.Task)}, onlySemantic, memproxy.Allow, "layer.inferred.mark"},
		{"a claim of another layer leaves no rule out", ask{change: func(op *memproxy.Operation) {
			inferredItem(memproxy.Semantic)(op)
			op.LayerClaims = []memproxy.Layer{memproxy.Episodic}
		}}, onlySemantic, memproxy.Deny, "layer.inferred.refuse"},
		{"a claim adds the rules of its layer", ask{change: func(op *memproxy.Operation) {
			inferredItem(memproxy.Episodic)(op)
			op.LayerClaims = []memproxy.Layer{memproxy.Semantic}
		}}, onlySemantic, memproxy.Deny, "layer.inferred.refuse"},
		{"a raw message that is filed under a key is a fact", ask{field: "tone", change: inferredItem(memproxy.Episodic)}, onlySemantic, memproxy.Deny, "layer.inferred.refuse"},
		{"a field of the task layer", ask{field: "todo", change: item(func(it *memproxy.Item) { it.Inferred = true })}, onlySemantic, memproxy.Allow, "layer.inferred.mark"},
		{"an inferred label without a text is no fact", ask{change: item(func(it *memproxy.Item) { it.Inferred, it.Text = true, "" })}, governed(memproxy.TreatRefuse), memproxy.Allow, ""},

		{"a trait", ask{field: "religion"}, governed(memproxy.TreatAllow), memproxy.Deny, "field.trait"},
		{"a trait, said of the user", ask{field: "user-mood"}, governed(memproxy.TreatAllow), memproxy.Deny, "field.trait"},
		{"a trait as a name of metadata", ask{change: func(op *memproxy.Operation) { op.Keys = []string{"Political-Views"} }}, governed(memproxy.TreatAllow), memproxy.Deny, "field.trait"},
		{"a trait as a name of metadata, as JavaScript spells it", ask{change: func(op *memproxy.Operation) { op.Keys = []string{"mentalHealth"} }}, governed(memproxy.TreatAllow), memproxy.Deny, "field.trait"},
		{"traits", ask{field: "religions"}, governed(memproxy.TreatAllow), memproxy.Deny, "field.trait"},
		{"traits as a name of metadata", ask{change: func(op *memproxy.Operation) { op.Keys = []string{"userSexualOrientations"} }}, governed(memproxy.TreatAllow), memproxy.Deny, "field.trait"},
		{"a trait, said of the user, as JavaScript spells it", ask{field: "userReligion"}, governed(memproxy.TreatAllow), memproxy.Deny, "field.trait"},
		{"a trait while developing", ask{field: "religion", profile: "development"}, governed(memproxy.TreatAllow), memproxy.Allow, ""},
		{"a name that holds one", ask{field: "health-check", change: func(op *memproxy.Operation) {
			op.Keys = []string{"page", "users", "moodboard", "healthCheck", "iPhone"}
		}}, governed(memproxy.TreatAllow), memproxy.Allow, ""},
		{"a refusal says which marks there would be", ask{field: "religion", change: inferredItem(memproxy.Semantic)}, governed(memproxy.TreatMark), memproxy.Deny, "field.trait layer.inferred.mark layer.namespace.mark"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := tc.ask.question()
			q.Governance = tc.g
			got := must.Get(p.Rule(context.Background(), q))(t)
			var rules []string
			for _, r := range slices.Concat(got.Reasons, got.Marks) {
				rules = append(rules, r.Rule)
			}
			expect.Equal(t, got.Verdict, tc.verdict, rules)
			expect.Equal(t, strings.Join(rules, " "), tc.rules, rules)
		})
	}
}

// Proves GOV-1: custom policies can match a single layer, and can mark; a mark is not a
// permit.
func TestOwnPoliciesOfALayer(t *testing.T) {
	q := ask{change: item(func(it *memproxy.Item) { it.Layer = memproxy.Task })}.question()
	fact := ask{}.question()
	for _, tc := range []struct {
		name, text       string
		task, fact       memproxy.Verdict
		marks, shadowing int
	}{
		{"refused", `@id("o") ` + onLearn + `when { context.layer == "task" };`, memproxy.Deny, memproxy.Allow, 0, 0},
		{"held", `@id("o") @verdict("hold") ` + onLearn + `when { context.layer == "task" };`, memproxy.Hold, memproxy.Allow, 0, 0},
		{"marked", `@id("o") @verdict("mark") ` + onLearn + `when { context.layer == "task" };`, memproxy.Allow, memproxy.Allow, 1, 0},
		{"a mark in shadow", `@id("o") @verdict("mark") @enforce("false") ` + onLearn + `when { context.layer == "task" };`, memproxy.Allow, memproxy.Allow, 0, 1},
		{"a mark that fails denies", `@id("o") @verdict("mark") ` + onLearn + `when { context.layer == "task" && context.size + 9223372036854775807 > 0 };`, memproxy.Deny, memproxy.Allow, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := compile(t, own(tc.text))
			got, err := p.Rule(context.Background(), q)
			if err != nil || got.Verdict != tc.task || len(got.Marks) != tc.marks || len(got.Shadow) != tc.shadowing {
				t.Errorf("a task: %+v %v", got, err)
			}
			if got, err = p.Rule(context.Background(), fact); err != nil || got.Verdict != tc.fact || len(got.Marks) > 0 {
				t.Errorf("a fact: %+v %v", got, err)
			}
		})
	}
	p := compile(t, func(b *policy.Bundle) {
		own(`@id("o") @verdict("mark") ` + onLearn + `;`)(b)
		b.Disabled = []string{"access.write"}
	})
	if got, err := p.Rule(context.Background(), fact); err != nil || got.Verdict != memproxy.Deny {
		t.Errorf("a mark without a permit: %+v %v", got, err)
	}
}

// The built-in layer rules can be shadowed.
func TestLayersInShadow(t *testing.T) {
	p := compile(t, func(b *policy.Bundle) { b.Shadowed = []string{"layer.inferred.refuse", "layer.namespace.refuse"} })
	q := ask{field: "billing", change: inferredItem(memproxy.Semantic)}.question()
	q.Governance = governed(memproxy.TreatRefuse)
	if got, err := p.Rule(context.Background(), q); err != nil || got.Verdict != memproxy.Allow || got.ShadowVerdict != memproxy.Deny || len(got.Shadow) != 2 {
		t.Errorf("%+v %v", got, err)
	}
}

// Proves GOV-2, EDGE-13: each member of an object is evaluated on its own; rules of
// fields and layers apply to content only.
func TestMembersAreEvaluatedSeparately(t *testing.T) {
	p := compile(t, func(b *policy.Bundle) {
		b.Policies = append(b.Policies, policy.Source{Name: "own.cedar", Text: `@id("own.system")
@reason("field.forbidden")
@detail("no")
forbid (principal, action, resource) when { context.member == "agent.system" };
@id("own.size")
@reason("field.size")
@detail("no")
forbid (principal, action, resource) when { context.member == "agent.description" && context.size > 4 };`})
	})
	with := func(items ...memproxy.Item) func(*memproxy.Operation) {
		return func(op *memproxy.Operation) { op.Items = append(op.Items, items...) }
	}
	beside := func(member, text string) memproxy.Item {
		return memproxy.Item{Kind: memproxy.ItemMetadata, Member: member, Text: text}
	}
	for name, tc := range map[string]struct {
		ask   ask
		rules string
	}{
		"another member":           {ask{change: with(beside("agent.name", "n"))}, ""},
		"a member with a rule":     {ask{change: with(beside("agent.name", "n"), memproxy.Item{Kind: memproxy.ItemSteering, Member: "agent.system", Text: "s"})}, "own.system"},
		"in a run":                 {ask{kind: memproxy.Run, change: with(beside("agent.system", "s"))}, "own.system"},
		"content":                  {ask{change: item(func(it *memproxy.Item) { it.Member = "agent.system" })}, "own.system"},
		"small enough":             {ask{change: with(beside("agent.description", "1234"))}, ""},
		"too large, in two pieces": {ask{change: with(beside("agent.description", "123"), beside("agent.description", "45"))}, "own.size"},
		"no field, no namespace":   {ask{field: "human", change: with(beside("agent.name", strings.Repeat("x", 9000)))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			q := tc.ask.question()
			q.Governance = governed(memproxy.TreatRefuse)
			got := must.Get(p.Rule(context.Background(), q))(t)
			var rules []string
			for _, r := range got.Reasons {
				rules = append(rules, r.Rule)
			}
			expect.Equal(t, strings.Join(rules, " "), tc.rules, got.Reasons)
		})
	}
}

// Proves SYN-2, GOV-2: findings without a score, however many and wherever they are, leave
// no other out of what policies see.
func TestFindingsDoNotCrowdOutOthers(t *testing.T) {
	p := compile(t, nil)
	for _, tc := range []struct {
		ask  ask
		rule string
	}{
		{ask{found: "trait.person", change: guessed}, "field.trait.text"},
		{ask{field: "learnings", found: "synapse.role"}, "synapse.pattern"},
		{ask{found: "synapse.markup", source: memproxy.SourceUntrusted}, "synapse.source"},
	} {
		q := tc.ask.question()
		q.Findings = slices.Concat(slices.Repeat([]memproxy.Finding{{Rule: "pii.email"}}, 1000), q.Findings)
		got := must.Get(p.Rule(context.Background(), q))(t)
		if !slices.ContainsFunc(got.Reasons, func(r memproxy.Reason) bool { return r.Rule == tc.rule }) {
			t.Errorf("%s: got %v %v", tc.rule, got.Verdict, got.Reasons)
		}
	}
}

// Many items that name the same fields, with claims of layers, take the memory of their
// fields: a small request must not take hundreds of megabytes.
func TestPartsAreCollectedOnce(t *testing.T) {
	p := compile(t, nil)
	// bytes is what an answer allocates, once the answers of the parts are cached.
	bytes := func(claims ...memproxy.Layer) (n uint64) {
		op := &memproxy.Operation{Kind: memproxy.Learn, Backend: "mem0", LayerClaims: claims}
		var fields []string
		for i := range 32 {
			fields = append(fields, fmt.Sprint("field", i))
		}
		for range 2000 {
			op.Items = append(op.Items, memproxy.Item{Kind: memproxy.ItemContent, Text: "x", Field: "field", OtherFields: fields})
		}
		for range 2 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			must.Get(p.Rule(t.Context(), memproxy.Question{Principal: memproxy.Principal{Kind: memproxy.KindAgent, Trust: memproxy.TrustAuthenticated}, Operation: op, Profile: "production"}))(t)
			runtime.ReadMemStats(&after)
			n = after.TotalAlloc - before.TotalAlloc
		}
		return n
	}
	if none, three := bytes(), bytes(memproxy.Episodic, memproxy.Semantic, memproxy.Task); three > 3*none/2 {
		t.Errorf("%d bytes, with three claims %d", none, three)
	}
}
