package gate_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves SYN-1, EDGE-3: a change by id is ruled on under the field that it
// changes, though the payload does not name it; a rename under both; and a
// target by another name is known by its id.
func TestChangesByIDHaveTheirField(t *testing.T) {
	for name, tc := range map[string]struct {
		said string
		want []string
	}{
		"not said": {"", []string{"authority"}},
		"renamed":  {"notes", []string{"notes", "authority"}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			r := newRig(t, func(r *rig) {
				r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) {
					for _, it := range q.Operation.Items {
						asked = append(asked, it.Field)
					}
					return memproxy.Ruling{}, nil
				})
			})
			r.ledger.rows["block-1"] = object("block-1", "globex", "")
			r.fake.merges = true
			r.fake.located = map[string]memproxy.Memory{"agent-1/authority": {ID: "block-1", Field: "authority"}}
			op := byID(memproxy.Correct, "agent-1/authority")
			op.Items = []memproxy.Item{{Kind: memproxy.ItemContent, Text: "x", Field: tc.said}}
			a := r.admit(op)
			wantCodes(t, a.Decision, memproxy.Deny, memproxy.OwnerForeign)

			r.ledger.rows["block-1"] = object("block-1", "acme", "")
			op.Items = []memproxy.Item{{Kind: memproxy.ItemContent, Text: "x", Field: tc.said}}
			asked = nil
			a = r.admit(op)
			wantCodes(t, a.Decision, memproxy.Allow)
			expect.List(t, asked, tc.want, "asked about")
		})
	}
}

// Proves SYN-1, GOV-2, CARD-4: a memory that is moved without its text counts
// with the text that is there in the fields that it comes to, with none in
// those that it leaves, and on the budgets of all of them.
func TestMovesCountInEveryField(t *testing.T) {
	type asked struct {
		field string
		size  int
	}
	text := strings.Repeat("x", 300)
	for name, tc := range map[string]struct {
		item memproxy.Item
		want []asked
	}{
		"to another": {memproxy.Item{Field: "notes", OtherFields: []string{"tone"}}, []asked{{"notes", 300}, {"tone", 300}, {"learnings", 0}, {"food", 0}}},
		"nowhere":    {memproxy.Item{}, []asked{{"learnings", 0}, {"food", 0}}},
		"half":       {memproxy.Item{Field: "Food"}, []asked{{"Food", 0}, {"learnings", 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []asked
			var lines []string
			r := newRig(t, func(r *rig) {
				r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) {
					for i := range q.Operation.Items {
						it := &q.Operation.Items[i]
						for _, field := range it.Written() {
							got = append(got, asked{field, it.Characters()})
						}
					}
					return memproxy.Ruling{}, nil
				})
				r.rules.Lines = func(_ memproxy.Principal, _ memproxy.Kind, _ string, fields []string) []memproxy.Line {
					lines = fields
					return nil
				}
			})
			r.ledger.rows["m1"] = memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: "m1", Scope: memproxy.Scope{Tenant: "acme"}}
			r.fake.merges = true
			r.fake.located = map[string]memproxy.Memory{"m1": {ID: "m1", Text: text, Field: "learnings", OtherFields: []string{"food"}}}
			op := byID(memproxy.Correct, "m1")
			op.Cost = 1
			tc.item.Kind, tc.item.Target, tc.item.Moved = memproxy.ItemContent, "m1", true
			op.Items = []memproxy.Item{tc.item}
			wantCodes(t, r.admit(op).Decision, memproxy.Allow)
			expect.List(t, got, tc.want, "asked about")
			expect.Len(t, lines, len(tc.want), "charged to")
		})
	}
}

// Proves TRL-6, EDGE-13: budgets are asked about the members of objects that an
// operation writes, as about fields, and the record names them; a member whose
// text has a field of its own is counted under that.
func TestMembersAreCountedAndNamed(t *testing.T) {
	var lines []string
	r := newRig(t, func(r *rig) {
		r.rules.Lines = func(_ memproxy.Principal, _ memproxy.Kind, _ string, fields []string) []memproxy.Line {
			lines = fields
			return nil
		}
	})
	op := learn("x")
	op.Items = []memproxy.Item{
		{Kind: memproxy.ItemSteering, Member: "agent.system", Text: "s"}, {Kind: memproxy.ItemMetadata, Member: "agent.name", Text: "n"},
		{Kind: memproxy.ItemContent, Member: "block.value", Field: "human", Text: "v"}, {Kind: memproxy.ItemMetadata, Member: "agent.name", Text: "n"},
	}
	wantCodes(t, r.admit(op).Decision, memproxy.Allow)
	want := []string{"agent.name", "agent.system", "human"}
	expect.That(t, slices.Equal(lines, want) && slices.Equal(r.recorder.events[0].Fields, want), "counted under %q, recorded as %q", lines, r.recorder.events[0].Fields)
}

// Proves SYN-5, CARD-2: a change that leaves the text as it is makes a version,
// under the field that the memory now has; a name that is changed next to the
// text is not taken for it.
func TestMovesMakeVersions(t *testing.T) {
	for name, items := range map[string][]memproxy.Item{
		"metadata only": {{Kind: memproxy.ItemContent, Field: "learnings", Target: "m1", Moved: true}},
		"a name beside": {
			{Kind: memproxy.ItemContent, Text: "learnings", Field: "learnings"},
			{Kind: memproxy.ItemContent, Field: "learnings", Target: "m1", Moved: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, l := anyAgent(t, func(r *rig) {
				r.fake.merges = true
				r.fake.located = map[string]memproxy.Memory{"m1": {ID: "m1", Text: "likes tea", Field: "notes"}}
			})
			l.rows["m1"] = memproxy.Ownership{Backend: "mem", Kind: memproxy.TargetMemory, ID: "m1", Scope: memproxy.Scope{Tenant: "acme"}}
			op := byID(memproxy.Correct, "m1")
			op.Items = slices.Clone(items)
			a := r.admit(op)
			wantCodes(t, a.Decision, memproxy.Allow)
			r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("{}")})
			made := 0
			for _, line := range l.history {
				if strings.HasPrefix(line, "update m1 ") {
					made++
					expect.Equal(t, line, `update m1 "likes tea" before true by agent:dev`)
				}
			}
			expect.Equal(t, made, 1, l.history)
		})
	}
}

// rename changes what describes a memory, and leaves its text as it is.
func rename(text, id string) memproxy.Operation {
	op := byID(memproxy.Correct, id)
	op.Items = []memproxy.Item{{Kind: memproxy.ItemContent, Text: text}, {Kind: memproxy.ItemContent, Target: id, Moved: true}}
	return op
}

// Proves TRL-5: a change of a description is no correction of the text: it costs the
// author nothing, and the status of the text still applies.
func TestDescriptionsAreNoCorrections(t *testing.T) {
	for name, tc := range map[string]struct {
		op   memproxy.Operation
		want int // corrections, retractions and new states, of each
	}{
		"the text":            {correct("coffee", "m1"), 1},
		"the description":     {rename("what it is for", "m1"), 0},
		"a text, not for all": {memproxy.Operation{Kind: memproxy.Correct, TargetKind: memproxy.TargetMemory, Targets: []string{"m1", "m2"}, Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: "of neither"}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, j := anyAgent(t, func(r *rig) {
				r.fake.merges = true
				r.fake.located = map[string]memproxy.Memory{"m1": {ID: "m1", Text: "tea"}, "m2": {ID: "m2", Text: "milk"}}
			})
			j.rows["m1"] = by("agent:ci", memproxy.TrustAuthenticated, 500)
			r.gate.Return(t.Context(), r.admit(tc.op), memproxy.Reply{Status: 200})
			expect.That(t, len(j.corrected) == tc.want && len(j.retracted) == tc.want && len(j.changes) == tc.want,
				"corrections %+v, retractions %+v, states %+v", j.corrected, j.retracted, j.changes)
		})
	}
}
