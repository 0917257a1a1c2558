package gate_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
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
			r, l := fullRig(t, func(r *rig) {
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
					if line != `update m1 "likes tea" before true by agent:dev` {
						t.Errorf("%s", line)
					}
				}
			}
			if made != 1 {
				t.Errorf("%d versions: %q", made, l.history)
			}
		})
	}
}
