package gate_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

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
