package cedar_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
)

func compile(t testing.TB, change func(*policy.Bundle)) *cedar.Policy {
	t.Helper()
	b := policy.Builtin()
	if change != nil {
		change(&b)
	}
	return must.Get(cedar.Compile(b))(t)
}

// ask is a question with defaults: an authenticated agent's add in production.
type ask struct {
	kind    memproxy.Kind
	trust   memproxy.Trust
	who     memproxy.PrincipalKind
	roles   []string
	field   string
	size    int
	profile string
	source  memproxy.Source
	found   string // a screening rule
	change  func(*memproxy.Operation)
}

func (a ask) question() memproxy.Question {
	if a.kind == "" {
		a.kind = memproxy.Learn
	}
	if a.trust == "" {
		a.trust = memproxy.TrustAuthenticated
	}
	if a.who == "" {
		a.who = memproxy.KindAgent
	}
	if a.profile == "" {
		a.profile = "production"
	}
	op := &memproxy.Operation{Kind: a.kind, Backend: "mem0", Route: "mem0.v3.add"}
	if a.kind == memproxy.Learn || a.kind == memproxy.Correct {
		op.Items = []memproxy.Item{{Kind: memproxy.ItemContent, Text: strings.Repeat("é", max(1, a.size)), Field: a.field}}
	}
	if a.change != nil {
		a.change(op)
	}
	op.SourceClaim = a.source
	var findings []memproxy.Finding
	if a.found != "" {
		findings = []memproxy.Finding{{Rule: a.found}}
	}
	c := memproxy.DefaultCeilings()
	return memproxy.Question{
		Findings:  findings,
		Principal: memproxy.Principal{ID: "p", Kind: a.who, Trust: a.trust, Roles: a.roles, Tenant: "acme", Method: "key"},
		Operation: op, Profile: a.profile, Ceiling: c.Ceiling(a.trust, ""), Confidence: 700, Claimed: 700,
	}
}

func guessed(op *memproxy.Operation)  { op.Items[0].Inferred = true }
func bulk(op *memproxy.Operation)     { op.Bulk = true }
func single(op *memproxy.Operation)   { op.Bulk, op.SingleOwner = true, true }
func steered(op *memproxy.Operation)  { op.Steering = true }
func derived(op *memproxy.Operation)  { op.Derived = true }
func backdate(op *memproxy.Operation) { op.Backdated = []memproxy.ClientTime{{Pointer: "/timestamp"}} }
func url(op *memproxy.Operation) {
	op.Items = append(op.Items, memproxy.Item{Kind: memproxy.ItemURL, Text: "http://x"})
}

// Each refusal is next to the nearest allowed case.
// Proves GOV-2, CARD-3, SYN-1, SYN-2, SYN-3, EDGE-3, TRL-2, TRL-10
func TestBuiltinRules(t *testing.T) {
	p := compile(t, nil)
	for _, tc := range []struct {
		name string
		ask  ask
		rule string // "": allowed; a code without dot-rule is matched as code
	}{
		{"identified callers write", ask{}, ""},
		{"identified callers change", ask{kind: memproxy.Correct}, ""},
		{"identified callers delete one", ask{kind: memproxy.Forget}, ""},
		{"identified callers read", ask{kind: memproxy.Recall}, ""},
		{"anonymous callers add", ask{trust: memproxy.TrustAnonymous, who: memproxy.KindAnonymous}, ""},
		{"anonymous callers read", ask{trust: memproxy.TrustAnonymous, kind: memproxy.Recall}, ""},
		{"anonymous callers do not change", ask{trust: memproxy.TrustAnonymous, kind: memproxy.Correct}, "policy.no_permit"},
		{"anonymous callers do not delete", ask{trust: memproxy.TrustAnonymous, kind: memproxy.Forget}, "policy.no_permit"},
		{"anonymous callers delete while developing", ask{trust: memproxy.TrustAnonymous, kind: memproxy.Forget, profile: "development"}, ""},
		{"an identified caller runs an agent", ask{kind: memproxy.Run}, ""},
		{"an anonymous caller runs none", ask{trust: memproxy.TrustAnonymous, kind: memproxy.Run}, "policy.no_permit"},
		{"an identified caller attaches a memory", ask{kind: memproxy.Attach}, ""},

		{"administration", ask{kind: memproxy.Admin}, "surface.admin"},
		{"administration while developing", ask{kind: memproxy.Admin, profile: "development"}, "surface.admin"},
		{"administration by a human without the role", ask{kind: memproxy.Admin, who: memproxy.KindHuman, trust: memproxy.TrustHuman}, "surface.admin"},
		{"administration with the role", ask{kind: memproxy.Admin, roles: []string{"memproxy-admin"}}, ""},
		{"bulk delete", ask{kind: memproxy.Forget, change: bulk}, "surface.bulk"},
		{"bulk delete with the role", ask{kind: memproxy.Forget, change: bulk, roles: []string{"memproxy-admin"}}, ""},
		{"bulk delete with the role for one owner", ask{kind: memproxy.Forget, change: bulk, roles: []string{"memproxy-forget"}}, "surface.bulk"},
		{"all of one owner, without a role", ask{kind: memproxy.Forget, change: single}, "surface.forget"},
		{"all of one owner, with another role", ask{kind: memproxy.Forget, change: single, roles: []string{"dev"}}, "surface.forget"},
		{"all of one owner, with its role", ask{kind: memproxy.Forget, change: single, roles: []string{"memproxy-forget"}}, ""},
		{"all of one owner, by an administrator", ask{kind: memproxy.Forget, change: single, roles: []string{"memproxy-admin"}}, ""},
		{"administration with the role for one owner", ask{kind: memproxy.Admin, change: single, roles: []string{"memproxy-forget"}}, "surface.admin"},
		{"bulk read", ask{kind: memproxy.Recall, change: bulk}, ""},
		{"steering by an agent", ask{change: steered}, "surface.steering"},
		{"steering by an established caller", ask{change: steered, trust: memproxy.TrustEstablished}, ""},
		{"steering by an owner", ask{change: steered, roles: []string{"memproxy-owner"}}, ""},
		{"steering by whom nobody knows, with an owner's role", ask{change: steered, roles: []string{"memproxy-owner"}, trust: memproxy.TrustAnonymous, who: memproxy.KindAnonymous}, "surface.steering"},
		{"steering by an administrator", ask{change: steered, roles: []string{"memproxy-admin"}}, ""},
		{"steering by an anonymous caller, with an administrator's role", ask{change: steered, roles: []string{"memproxy-admin"}, trust: memproxy.TrustAnonymous, who: memproxy.KindAnonymous}, "surface.steering"},
		{"administration by an owner", ask{kind: memproxy.Admin, roles: []string{"memproxy-owner"}}, "surface.admin"},
		{"administration that steers", ask{kind: memproxy.Admin, change: steered}, "surface.admin"},
		{"steering while developing", ask{change: steered, profile: "development"}, ""},
		{"summary by anonymous", ask{kind: memproxy.Recall, change: derived, trust: memproxy.TrustAnonymous}, "surface.derived"},
		{"summary by an identified caller", ask{kind: memproxy.Recall, change: derived}, ""},

		{"content that nobody saw", ask{change: url}, "content.unseen"},
		{"a read for which the backend fetches", ask{kind: memproxy.Recall, change: url}, "content.unseen"},
		{"a setting that is an address, by an administrator", ask{kind: memproxy.Admin, change: url, roles: []string{"memproxy-admin"}}, ""},
		{"content that nobody saw, while developing", ask{change: url, profile: "development"}, ""},
		{"backdating", ask{change: backdate}, "content.backdated"},
		{"backdating by a person", ask{change: backdate, who: memproxy.KindHuman, trust: memproxy.TrustHuman}, ""},
		{"backdating by an owner", ask{change: backdate, roles: []string{"memproxy-owner"}}, ""},
		{"backdating by whom nobody knows, with an owner's role", ask{change: backdate, roles: []string{"memproxy-owner"}, trust: memproxy.TrustAnonymous, who: memproxy.KindAnonymous}, "content.backdated"},
		{"backdating while developing", ask{change: backdate, profile: "development"}, ""},

		{"constitution", ask{field: "constitution"}, "field.protected"},
		{"authority, by a human", ask{field: "authority", who: memproxy.KindHuman, trust: memproxy.TrustHuman}, "field.protected"},
		{"system, in capitals and spaces", ask{field: " System "}, "field.protected"},
		{"credentials, with the admin role", ask{field: "credentials", roles: []string{"memproxy-admin"}}, "field.protected"},
		{"a look-alike of system", ask{field: "ѕystem"}, "field.name"},
		{"learnings at the size", ask{field: "learnings", size: 500}, ""},
		{"learnings over the size", ask{field: "learnings", size: 501}, "field.learnings.size"},
		{"a mandatory pattern in learnings", ask{field: "learnings", found: "synapse.role"}, "synapse.pattern"},
		{"a mandatory pattern in a change of preferences", ask{kind: memproxy.Correct, field: "preferences", found: "synapse.importance"}, "synapse.pattern"},
		{"markup in gotchas", ask{field: "gotchas", roles: []string{"qa"}, found: "synapse.markup"}, "synapse.pattern"},
		{"a line that directs in conventions", ask{field: "conventions", roles: []string{"dev"}, found: "synapse.line"}, "synapse.pattern"},
		{"an authority's word in decisions", ask{field: "decisions", roles: []string{"pm"}, found: "synapse.authority"}, "synapse.pattern"},
		{"escapes in learnings", ask{field: "learnings", found: "synapse.encoded"}, "synapse.pattern"},
		{"a system's mark in learnings, of a trusted source", ask{field: "learnings", found: "synapse.directive", source: memproxy.SourceTrusted}, "synapse.pattern"},
		{"a mandatory pattern elsewhere", ask{field: "human", found: "synapse.role"}, ""},
		{"a mandatory pattern elsewhere, of a trusted source", ask{found: "synapse.role", source: memproxy.SourceTrusted}, ""},
		{"a mandatory pattern elsewhere, of an untrusted source", ask{found: "synapse.role", source: memproxy.SourceUntrusted}, "synapse.source"},
		{"a mandatory pattern elsewhere, of a hostile source", ask{field: "human", found: "synapse.markup", source: memproxy.SourceHostile}, "synapse.source"},
		{"a search of an untrusted source", ask{kind: memproxy.Recall, found: "synapse.role", source: memproxy.SourceUntrusted}, ""},
		{"a trait that a model noted", ask{found: "trait.person", change: guessed}, "field.trait.text"},
		{"a trait that a model noted, while developing", ask{found: "trait.person", change: guessed, profile: "development"}, ""},
		{"a trait that the user stated", ask{found: "trait.person"}, ""},
		{"something else that a model noted", ask{change: guessed}, ""},
		{"entropy in learnings", ask{field: "learnings", found: "synapse.entropy"}, "synapse.heuristic"},
		{"agents in learnings", ask{field: "learnings", found: "synapse.agents"}, "synapse.heuristic"},
		{"orders in learnings", ask{field: "learnings", found: "synapse.imperative"}, "synapse.heuristic"},
		{"orders elsewhere", ask{field: "human", found: "synapse.imperative", source: memproxy.SourceHostile}, ""},
		{"learnings by anonymous", ask{field: "learnings", trust: memproxy.TrustAnonymous}, "field.anonymous"},
		{"preferences at the size", ask{field: "preferences", size: 200}, ""},
		{"preferences over the size", ask{field: "preferences", size: 201}, "field.preferences.size"},
		{"gotchas by dev", ask{field: "gotchas", roles: []string{"dev"}, size: 300}, ""},
		{"gotchas by qa", ask{field: "gotchas", roles: []string{"qa"}}, ""},
		{"gotchas by pm", ask{field: "gotchas", roles: []string{"pm"}}, "field.gotchas.role"},
		{"gotchas over the size", ask{field: "gotchas", roles: []string{"dev"}, size: 301}, "field.gotchas.size"},
		{"conventions by architect", ask{field: "conventions", roles: []string{"architect"}, size: 400}, ""},
		{"conventions by qa", ask{field: "conventions", roles: []string{"qa"}}, "field.conventions.role"},
		{"conventions over the size", ask{field: "conventions", roles: []string{"dev"}, size: 401}, "field.conventions.size"},
		{"decisions by pm", ask{field: "decisions", roles: []string{"pm"}, size: 500}, ""},
		{"decisions by dev", ask{field: "decisions", roles: []string{"dev"}}, "field.decisions.role"},
		{"decisions over the size", ask{field: "decisions", roles: []string{"pm"}, size: 501}, "field.decisions.size"},
		{"human, Letta's own", ask{field: "human", size: 2000}, ""},
		{"persona, Letta's own", ask{field: "persona", size: 2000}, ""},
		{"another field over the size", ask{field: "notes", size: 5001}, "field.other.size"},
		{"no field has no size", ask{size: 9000}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := must.Get(p.Rule(context.Background(), tc.ask.question()))(t)
			if tc.rule == "" {
				expect.Equal(t, got.Verdict, memproxy.Allow)
				expect.Len(t, got.Reasons, 0)
				return
			}
			want := memproxy.Deny
			if tc.rule == "synapse.source" || tc.rule == "field.trait.text" || tc.rule == "synapse.heuristic" {
				want = memproxy.Hold
			}
			if got.Verdict != want || len(got.Reasons) == 0 {
				t.Fatalf("got %v %v, want %v by %s", got.Verdict, got.Reasons, want, tc.rule)
			}
			found := false
			for _, r := range got.Reasons {
				found = found || r.Rule == tc.rule || string(r.Code) == tc.rule
				if r.Code == memproxy.PolicyNoPermit {
					expect.Text(t, r.Detail, "a refusal says what would allow it").Has("tier anonymous", "allows it")
				} else if r.Detail == "" || r.Rule == "" {
					t.Errorf("reason %+v lacks its rule or its sentence", r)
				}
			}
			if !found {
				t.Errorf("reasons %v, want %s", got.Reasons, tc.rule)
			}
		})
	}
}

func own(text string) func(*policy.Bundle) {
	return func(b *policy.Bundle) {
		b.Policies = append(b.Policies, policy.Source{Name: "own.cedar", Text: text})
	}
}

const onLearn = `forbid (principal, action == Action::"learn", resource) `

func TestHoldShadowAndErrors(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(*policy.Bundle)
		verdict memproxy.Verdict
		shadow  memproxy.Verdict
		codes   string
	}{
		{"hold", own(`@id("h") @verdict("hold") ` + onLearn + `;`), memproxy.Hold, 0, "policy.forbid"},
		{"hold beside deny is deny", own(`@id("h") @verdict("hold") ` + onLearn + `; @id("d") @reason("policy.bulk") ` + onLearn + `;`), memproxy.Deny, 0, "policy.bulk policy.forbid"},
		{"a shadowed deny does not decide", own(`@id("d") @enforce("false") ` + onLearn + `;`), memproxy.Allow, memproxy.Deny, ""},
		{"shadowed by the bundle's list", func(b *policy.Bundle) {
			own(`@id("d") ` + onLearn + `;`)(b)
			b.Shadowed = []string{"d"}
		}, memproxy.Allow, memproxy.Deny, ""},
		{"a shadowed permit permits nothing", func(b *policy.Bundle) { b.Shadowed = []string{"access.write"} }, memproxy.Deny, 0, "policy.no_permit"},
		{"disabled", func(b *policy.Bundle) { b.Disabled = []string{"access.write"} }, memproxy.Deny, 0, "policy.no_permit"},
		{"a shadowed one that fails would deny", own(`@id("e") @enforce("false") ` + onLearn + `when { context.size + 9223372036854775807 > 0 };`), memproxy.Allow, memproxy.Deny, ""},
		{"a forbid that fails denies", own(`@id("e") ` + onLearn + `when { context.size + 9223372036854775807 > 0 };`), memproxy.Deny, 0, "policy.error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := must.Get(compile(t, tc.change).Rule(context.Background(), ask{}.question()))(t)
			var codes []string
			for _, r := range got.Reasons {
				codes = append(codes, string(r.Code))
			}
			if got.Verdict != tc.verdict || got.ShadowVerdict != tc.shadow || strings.Join(codes, " ") != tc.codes {
				t.Errorf("got %v (shadow %v) %v, want %v (%v) %s", got.Verdict, got.ShadowVerdict, codes, tc.verdict, tc.shadow, tc.codes)
			}
			if tc.shadow != 0 && len(got.Shadow) == 0 {
				t.Error("the shadowed reason is missing")
			}
		})
	}
}

// What opens a rule is a sentence of its own where the rule has no detail.
func TestOpensWithoutDetail(t *testing.T) {
	for opens, want := range map[string]string{
		`@opens("the role tea")`: "the role tea allows it",
		`@opens`:                 "disable: [o] in the bundle.yaml of policy.dir allows it",
		`@detail("no tea") @opens("the role tea")`: "no tea; the role tea allows it",
	} {
		got := must.Get(compile(t, own(`@id("o") `+opens+` `+onLearn+`;`)).Rule(context.Background(), ask{}.question()))(t)
		expect.Equal(t, got.Reasons[0].Detail, want)
	}
}

func TestQuestionsOutsideTheSchemaAreErrors(t *testing.T) {
	q := ask{}.question()
	q.Operation.Kind = "conquer"
	if got, err := compile(t, nil).Rule(context.Background(), q); err == nil {
		t.Errorf("an unknown action was answered: %v", got.Verdict)
	}
}

// The strictest field decides, and each field is measured on its own, as the sum of its
// parts, whatever their origin.
func TestSeveralFields(t *testing.T) {
	q := ask{field: "learnings", size: 400}.question()
	q.Operation.Items = append(q.Operation.Items,
		memproxy.Item{Kind: memproxy.ItemContent, Field: "preferences", Text: strings.Repeat("x", 150)})
	p := compile(t, nil)
	if got, err := p.Rule(context.Background(), q); err != nil || got.Verdict != memproxy.Allow {
		t.Errorf("two fields within their sizes: %v %v", got, err)
	}
	q.Operation.Items = append(q.Operation.Items, memproxy.Item{Kind: memproxy.ItemContent, Field: "preferences", Text: strings.Repeat("x", 51), Inferred: true})
	if got, err := p.Rule(context.Background(), q); err != nil || got.Verdict != memproxy.Deny || got.Reasons[0].Rule != "field.preferences.size" {
		t.Errorf("one field over its size in two pieces: %v %v", got, err)
	}
}

func TestWhere(t *testing.T) {
	file, line, ok := compile(t, nil).Position("surface.bulk")
	if !ok || !strings.HasSuffix(file, "surfaces.cedar") || line == 0 {
		t.Errorf("%s:%d %v", file, line, ok)
	}
}

func BenchmarkRule(b *testing.B) {
	p := compile(b, nil)
	q := ask{field: "gotchas", roles: []string{"dev"}, size: 200}.question()
	b.ReportAllocs()
	for b.Loop() {
		if r, err := p.Rule(context.Background(), q); err != nil || r.Verdict != memproxy.Allow {
			b.Fatal(fmt.Sprint(r, err))
		}
	}
}

// Proves EDGE-9: a change that permits is named, whatever the rule of that name did before.
func TestPermitsAreLooser(t *testing.T) {
	of := func(text string) *cedar.Policy {
		return compile(t, func(b *policy.Bundle) {
			b.Policies = append(b.Policies, policy.Source{Name: "own.cedar", Text: `@id("own") ` + text})
		})
	}
	const permit, forbid, shadow = "permit (principal, action, resource);", "forbid (principal, action, resource);", `@enforce("false") `
	for from, want := range map[string]string{
		shadow + permit: "policy own permits: it was in shadow",
		shadow + forbid: "policy own permits: it was in shadow",
		forbid:          "policy own: deny became permit",
	} {
		if got := cedar.Loosened(of(from), of(permit)); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q", from, got)
		}
	}
}

// Proves TRL-5, EDGE-5, TRL-10: who may change whose memories. Each refusal is next to
// the nearest change that is allowed.
func TestAuthorityOverMemories(t *testing.T) {
	p := compile(t, nil)
	reviewer := []string{"memproxy-reviewer"}
	for _, tc := range []struct {
		name   string
		ask    ask
		about  memproxy.Question
		passes bool
	}{
		{"one's own", ask{}, memproxy.Question{}, true},
		{"one's own, by anybody identified", ask{kind: memproxy.Forget}, memproxy.Question{}, true},
		{"an equal's", ask{}, memproxy.Question{Others: true, AuthorTrust: 700}, false},
		{"an equal's deleted", ask{kind: memproxy.Forget}, memproxy.Question{Others: true, AuthorTrust: 700}, false},
		{"an equal's by a reviewer", ask{roles: reviewer}, memproxy.Question{Others: true, AuthorTrust: 700}, true},
		{"an equal's by somebody with another role", ask{roles: []string{"reviewer", "memproxy-admin"}}, memproxy.Question{Others: true, AuthorTrust: 700}, false},
		{"an equal's by a service", ask{who: memproxy.KindService, trust: memproxy.TrustSystem}, memproxy.Question{Others: true, AuthorTrust: 700}, false},
		{"an equal's while developing", ask{profile: "development"}, memproxy.Question{Others: true, AuthorTrust: 700}, true},
		{"a better one's while developing", ask{profile: "development"}, memproxy.Question{Others: true, AuthorTrust: 701}, false},
		{"a better one's by a reviewer", ask{roles: reviewer}, memproxy.Question{Others: true, AuthorTrust: 1000}, false},
		{"one's own that a person corrected since", ask{}, memproxy.Question{AuthorTrust: 1000}, false},
		{"anybody's by a person", ask{who: memproxy.KindHuman, trust: memproxy.TrustHuman}, memproxy.Question{Others: true, AuthorTrust: 1000}, true},
		{"a better one's by a person of little trust", ask{who: memproxy.KindHuman}, memproxy.Question{Others: true, AuthorTrust: 1000}, true},
		{"one's own, anchored", ask{}, memproxy.Question{AuthorAttestation: memproxy.LogAnchored}, false},
		{"one's own, anchored, while developing", ask{profile: "development"}, memproxy.Question{AuthorAttestation: memproxy.LogAnchored}, false},
		{"anchored, by a reviewer", ask{roles: reviewer}, memproxy.Question{Others: true, AuthorAttestation: memproxy.LogAnchored}, false},
		{"anchored, by a person", ask{who: memproxy.KindHuman, trust: memproxy.TrustHuman}, memproxy.Question{Others: true, AuthorAttestation: memproxy.LogAnchored}, true},
		{"one's own, confirmed by a person", ask{}, memproxy.Question{AuthorAttestation: memproxy.HumanConfirmed}, true},
		{"something new beside it", ask{kind: memproxy.Learn}, memproxy.Question{Others: true, AuthorTrust: 1000, AuthorAttestation: memproxy.LogAnchored}, true},
		{"a read of it", ask{kind: memproxy.Recall}, memproxy.Question{Others: true, AuthorTrust: 1000}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.ask.kind == "" {
				tc.ask.kind = memproxy.Correct
			}
			q := tc.ask.question()
			q.Others, q.AuthorTrust, q.AuthorAttestation = tc.about.Others, tc.about.AuthorTrust, tc.about.AuthorAttestation
			got := must.Get(p.Rule(context.Background(), q))(t)
			if tc.passes != (got.Verdict == memproxy.Allow) {
				t.Fatalf("%+v", got)
			}
			for _, r := range got.Reasons {
				if got.Verdict != memproxy.Hold || r.Code != memproxy.TrustAuthority || !strings.HasPrefix(r.Rule, "trust.") {
					t.Errorf("%v: %+v", got.Verdict, r)
				}
			}
		})
	}
}
