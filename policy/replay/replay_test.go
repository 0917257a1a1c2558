package replay_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
	"github.com/memproxy/memproxy/policy/replay"
)

// line is an audit record with facts. What they do not say of its writes is that ten
// characters were written to each field.
func line(id, verdict, kind, fields, rule, principal, facts string) string {
	if kind == "learn" && !strings.Contains(facts, "writes") {
		var writes []string
		for field := range strings.SplitSeq(cmp.Or(fields, `""`), ",") {
			writes = append(writes, wrote(field, "semantic", 10))
		}
		facts = strings.TrimSuffix(`"writes":[`+strings.Join(writes, ",")+`],`+facts, ",")
	}
	reasons := ""
	if rule != "" {
		reasons = fmt.Sprintf(`"reasons":[{"code":"field.forbidden","rule":"%s"},{"code":"trust.clamped"}],`, rule)
	}
	return fmt.Sprintf(`{"type":"decision","decision":"%s","verdict":"%s",%s"principal":{"id":"%s","kind":"agent","method":"key","tenant":"acme","trust":"authenticated"},"operation":{"backend":"mem0","route":"mem0.add","kind":"%s","fields":[%s],"items":1},"confidence":{"given":700},"facts":{%s}}`+"\n",
		id, verdict, reasons, principal, kind, fields, facts)
}

func wrote(field, layer string, size int) string {
	return fmt.Sprintf(`{"field":%s,"layer":"%s","size":%d}`, field, layer, size)
}

// found adds a screening finding to a line.
func found(line, rule string) string {
	return strings.Replace(line, `"facts"`, `"findings":[{"rule":"`+rule+`","score":0}],"facts"`, 1)
}

func run(t *testing.T, to policy.Bundle, lines ...string) replay.Report {
	t.Helper()
	from := policy.Builtin()
	cases := must.Get(replay.Read(strings.NewReader(strings.Join(lines, ""))))(t)
	opt := replay.Options{Ceilings: memproxy.DefaultCeilings(), Profile: "production"}
	opt.From = must.Get(cedar.Compile(from))(t)
	opt.To = must.Get(cedar.Compile(to))(t)
	return must.Get(replay.Run(context.Background(), opt, cases))(t)
}

func without(ids ...string) policy.Bundle {
	b := policy.Builtin()
	b.Disabled = ids
	return b
}

func with(text string) policy.Bundle {
	b := policy.Builtin()
	b.Policies = append(b.Policies, policy.Source{Name: "own.cedar", Text: text})
	return b
}

// Each change of the rules next to decisions that it affects and decisions that it does
// not.
// Proves CARD-9
func TestChanges(t *testing.T) {
	for _, tc := range []struct {
		name  string
		to    policy.Bundle
		lines []string
		want  []string
	}{
		{
			"the same rules change nothing", policy.Builtin(),
			[]string{line("1", "deny", "learn", `"constitution"`, "field.protected", "agent:dev", ""), line("2", "allow", "learn", ``, "", "agent:dev", "")},
			nil,
		},
		{
			"a protected field is opened", without("field.protected"),
			[]string{
				line("1", "deny", "learn", `"constitution"`, "field.protected", "agent:dev", ""),
				line("2", "deny", "learn", `"constitution"`, "field.protected", "agent:dev", ""),
				line("3", "allow", "learn", `"learnings"`, "", "agent:dev", ""),
			},
			[]string{"mem0.add: learn by agent:dev at mem0 to constitution: allow, was deny (field.protected); 2 decision(s), first 1"},
		},
		{
			"a role that is known", without("field.decisions.role"),
			[]string{line("1", "deny", "learn", `"decisions"`, "field.decisions.role", "agent:qa", `"roles":["qa"]`), line("2", "deny", "learn", `"conventions"`, "field.conventions.role", "agent:qa", `"roles":["qa"]`)},
			[]string{"mem0.add: learn by agent:qa at mem0 to decisions: allow, was deny (field.decisions.role); 1 decision(s), first 1"},
		},
		{
			"a size that is let through", without("field.learnings.size"),
			[]string{line("1", "deny", "learn", `"learnings"`, "field.learnings.size", "agent:dev", `"writes":[`+wrote(`"learnings"`, "semantic", 501)+`]`), line("2", "allow", "learn", `"learnings"`, "", "agent:dev", "")},
			[]string{"mem0.add: learn by agent:dev at mem0 to learnings: allow, was deny (field.learnings.size); 1 decision(s), first 1"},
		},
		{
			"a new forbid for more than there was", with(`@id("own.size") forbid (principal, action in Action::"write", resource) when { context.field == "learnings" && context.size > 750 };`),
			[]string{line("1", "deny", "learn", `"learnings"`, "field.learnings.size", "agent:dev", `"writes":[`+wrote(`"learnings"`, "semantic", 501)+`]`)},
			nil,
		},
		{
			"a new forbid", with(`@id("own.no") forbid (principal, action == Action::"recall", resource);`),
			[]string{line("1", "allow", "recall", ``, "", "agent:dev", ""), line("2", "allow", "learn", ``, "", "agent:dev", "")},
			[]string{"mem0.add: recall by agent:dev at mem0: deny, was allow (own.no); 1 decision(s), first 1"},
		},
		{
			"a new forbid for a role", with(`@id("own.no") forbid (principal in Role::"temp", action, resource);`),
			[]string{line("1", "allow", "learn", ``, "", "agent:dev", ""), line("2", "allow", "learn", ``, "", "agent:dev", `"roles":["temp"]`)},
			[]string{"mem0.add: learn by agent:dev at mem0: deny, was allow (own.no); 1 decision(s), first 2"},
		},
		{
			"what screening found is known", without("synapse.heuristic"),
			[]string{
				found(line("1", "hold", "learn", `"learnings"`, "synapse.heuristic", "agent:dev", ""), "synapse.imperative"),
				found(line("2", "allow", "learn", `"billing"`, "", "agent:dev", ""), "synapse.imperative"),
			},
			[]string{"mem0.add: learn by agent:dev at mem0 to learnings: allow, was hold (synapse.heuristic); 1 decision(s), first 1"},
		},
		{
			"an event that is written to a field is one", with(`@id("own.events") forbid (principal, action, resource) when { context.layer == "episodic" };`),
			[]string{
				line("1", "allow", "learn", `"billing"`, "", "agent:dev", `"writes":[`+wrote(`"billing"`, "episodic", 9)+`]`),
				line("2", "allow", "learn", `"billing"`, "", "agent:dev", ""),
			},
			[]string{"mem0.add: learn by agent:dev at mem0 to billing: deny, was allow (own.events); 1 decision(s), first 1"},
		},
		{
			"a deny becomes a hold", func() policy.Bundle {
				b := without("field.protected")
				b.Policies = append(b.Policies, policy.Source{Name: "own.cedar", Text: `@id("own.hold") @verdict("hold")
					forbid (principal, action in Action::"write", resource) when { context.field == "constitution" };`})
				return b
			}(),
			[]string{line("1", "deny", "learn", `"constitution"`, "field.protected", "agent:dev", "")},
			[]string{"mem0.add: learn by agent:dev at mem0 to constitution: hold, was deny (field.protected); 1 decision(s), first 1"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rep := run(t, tc.to, tc.lines...)
			var got []string
			for _, c := range rep.Changes {
				got = append(got, c.String())
			}
			expect.Equal(t, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			expect.Equal(t, rep.Decisions, len(tc.lines), rep)
			expect.Equal(t, rep.Unexplained, 0, rep)
		})
	}
}

// Decisions that policies did not make are not replayed; decisions that the policies
// cannot have made, or that lack facts, are counted.
func TestOthersAndUnexplained(t *testing.T) {
	budget := `{"type":"decision","decision":"1","verdict":"deny","reasons":[{"code":"budget.hour"}],"principal":{"id":"a","kind":"agent","trust":"authenticated"},"operation":{"kind":"learn","backend":"mem0","route":"x"}}` + "\n"
	outcome := `{"type":"outcome","decision":"1"}` + "\n"
	undecoded := `{"type":"decision","decision":"2","verdict":"deny"}` + "\n"
	odd := line("3", "allow", "learn", `"constitution"`, "", "agent:dev", "")
	bare := strings.Replace(line("4", "deny", "learn", `"constitution"`, "field.protected", "agent:dev", ""), `,"facts":{"writes":[`+wrote(`"constitution"`, "semantic", 10)+`]}`, "", 1)
	approved := strings.Replace(line("5", "allow", "learn", `"constitution"`, "", "agent:dev", ""), `"principal"`, `"reasons":[{"code":"review.approved"}],"principal"`, 1)
	rep := run(t, without("field.protected"), budget, outcome, undecoded, odd, bare, approved)
	if rep.Decisions != 4 || rep.Others != 2 || rep.Unexplained != 2 || len(rep.Changes) != 0 {
		t.Errorf("%+v", rep)
	}
}

func TestReadSaysTheLine(t *testing.T) {
	expect.ErrorHas(t, expect.Err(replay.Read(strings.NewReader(line("1", "allow", "learn", "", "", "a", "")+"{\n"))), "line 2")
	expect.Error(t, expect.Err(replay.Read(strings.NewReader(`{"verdict":"perhaps","operation":{"kind":"learn"}}`))), "a verdict that is none was read")
}

func FuzzRead(f *testing.F) {
	f.Add(line("1", "deny", "learn", `"a"`, "r", "p", ""))
	f.Add(`{"type":"decision","verdict":"hold","operation":{"kind":"run","items":-1},"confidence":{"claimed":-5},"facts":{"writes":[{"size":-1}]}}`)
	from := must.Get(cedar.Compile(policy.Builtin()))(f)
	f.Fuzz(func(t *testing.T, text string) {
		cases, err := replay.Read(strings.NewReader(text))
		if err != nil {
			return
		}
		opt := replay.Options{From: from, To: from, Ceilings: memproxy.DefaultCeilings(), Profile: "production"}
		if rep, err := replay.Run(context.Background(), opt, cases); err == nil && len(rep.Changes) > 0 {
			t.Errorf("the same rules answer differently: %v", rep.Changes)
		}
	})
}
