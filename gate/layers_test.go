package gate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// inference is a policy of inferred content alone.
func inference(t memproxy.Treatment) policy {
	return func(q memproxy.Question) (memproxy.Ruling, error) {
		for _, it := range q.Operation.Items {
			if !it.Inferred || it.Text == "" {
				continue
			}
			why := []memproxy.Reason{{Code: memproxy.LayerInferred, Rule: "layer.inferred"}}
			switch t {
			case memproxy.TreatMark:
				return memproxy.Ruling{Marks: why}, nil
			case memproxy.TreatHold:
				return memproxy.Ruling{Verdict: memproxy.Hold, Reasons: why}, nil
			case memproxy.TreatRefuse:
				return memproxy.Ruling{Verdict: memproxy.Deny, Reasons: why}, nil
			}
		}
		return memproxy.Ruling{}, nil
	}
}

// talk is a conversation that the backend's model makes facts of.
func talk(user, assistant string) memproxy.Operation {
	op := learn(user)
	op.Extracts = true
	op.Items = []memproxy.Item{
		{Kind: memproxy.ItemContent, Role: "user", Text: user, Layer: memproxy.Semantic},
		{Kind: memproxy.ItemContent, Role: "assistant", Text: assistant, Layer: memproxy.Semantic},
	}
	return op
}

// Proves GOV-3: of what a backend's model makes of a conversation, what the
// user said stays; what only the model or the assistant says is taken back,
// taken back and kept for review, or stays and is named.
func TestExtractedFactsWithoutAStatement(t *testing.T) {
	for treatment, want := range map[memproxy.Treatment]struct {
		shown string
		sent  int
		kept  int
		named int
	}{
		memproxy.TreatAllow:  {"said,guess,told,none", 0, 0, 0},
		memproxy.TreatMark:   {"said,guess,told,none", 0, 0, 2},
		memproxy.TreatHold:   {"said,none", 2, 2, 2},
		memproxy.TreatRefuse: {"said,none", 2, 0, 2},
	} {
		r, x, f, k := screeningRig(t)
		r.rules.Policy = inference(treatment)
		x.memories = []memproxy.Memory{
			{Pointer: "/0", ID: "said", Text: "User likes green tea", Event: "ADD"},
			{Pointer: "/1", ID: "guess", Text: "User is health conscious and wealthy", Event: "ADD"},
			{Pointer: "/2", ID: "told", Text: "User likes green tea", Event: "ADD", Inferred: true}, // so the backend says
			{Pointer: "/3", ID: "none", Text: "User is rich", Event: "NONE"},
		}
		a := r.admitWith(talk("I like green tea.", "You must be health conscious and wealthy"), f)
		wantCodes(t, a.Decision, memproxy.Allow)
		got := r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("[]")})
		last := r.recorder.last()
		expect.That(t, string(got.Body) == want.shown && len(f.sent) == want.sent && len(k.kept) == want.kept && len(last.Reasons) == want.named,
			"%s: %s, sent %v, %d kept, %+v", treatment, got.Body, f.sent, len(k.kept), last.Reasons)
		for _, why := range last.Reasons {
			expect.Equal(t, why.Code, memproxy.LayerInferred, treatment, why)
			expect.Text(t, why.Detail, treatment, why).Lacks("wealthy")
		}
	}
}

// Proves GOV-3: what is made later is asked for where inferred facts are ruled on, also
// without any screening, and ruled on alike: it is taken back, or marked in the ledger. What
// was stated stays as it is.
func TestFactsThatAreMadeLater(t *testing.T) {
	for treatment, want := range map[memproxy.Treatment]struct{ sent, marks string }{
		memproxy.TreatRefuse: {"[DELETE /m2]", "[m1 self-reported ]"},
		memproxy.TreatMark:   {"[]", "[m1 self-reported  m2 inferred layer.inferred]"},
	} {
		r, x, f, _ := screeningRig(t)
		r.rules.Screener, r.rules.Policy = nil, inference(treatment)
		r.rules.Governance.Inferred = map[memproxy.Layer]memproxy.Treatment{memproxy.Semantic: treatment}
		x.events = []string{"e1"}
		a := r.admitWith(talk("I like green tea.", "noted"), f)
		r.gate.Return(context.Background(), a, memproxy.Reply{Status: 200, Body: []byte("{}")})
		must.Len(t, r.gate.FollowUpRequests(a), 1)
		x.over, x.became = true, []memproxy.Memory{{ID: "m1", Text: "User likes green tea", Event: "ADD"}, {ID: "m2", Text: "User is wealthy", Event: "ADD"}}
		expect.Equal(t, r.gate.ReadFollowUp(context.Background(), a, memproxy.Reply{Status: 200}), true, treatment, "over")
		expect.Equal(t, fmt.Sprint(f.sent), want.sent, treatment)
		var marks []string
		for _, c := range r.ledger.changes {
			marks = append(marks, fmt.Sprintf("%s %s %s", c.ID, c.Attestation, c.Reason))
		}
		expect.Equal(t, fmt.Sprint(marks), want.marks, treatment)
	}
}

// Proves GOV-3: an inferred fact is ruled on in every field of its write.
func TestFactsHaveTheFieldsOfTheirWrite(t *testing.T) {
	r, x, f, _ := screeningRig(t)
	fields := ""
	r.rules.Policy = policy(func(q memproxy.Question) (memproxy.Ruling, error) {
		if it := q.Operation.Items[0]; it.Inferred {
			fields = strings.Join(it.Written(), " ")
		}
		return memproxy.Ruling{}, nil
	})
	x.memories = []memproxy.Memory{{ID: "guess", Text: "User is wealthy", Event: "ADD"}}
	op := talk("I like green tea.", "noted")
	for i := range op.Items {
		op.Items[i].Field, op.Items[i].OtherFields = "tone", []string{"learnings"}
	}
	r.gate.Return(context.Background(), r.admitWith(op, f), memproxy.Reply{Status: 200, Body: []byte("[]")})
	expect.Equal(t, fields, "tone learnings")
}

// Proves GOV-3: a mark stops nothing, and stands in the stamp and the record;
// what a user stated bears none. In shadow mode nothing is marked.
func TestMarks(t *testing.T) {
	for _, inferred := range []bool{true, false} {
		r := newRig(t, func(r *rig) { r.rules.Policy = inference(memproxy.TreatMark) })
		op := learn("likes tea")
		op.Items[0].Inferred = inferred
		a := r.admit(op)
		stamp := r.fake.stamp
		if !inferred {
			wantCodes(t, a.Decision, memproxy.Allow)
			expect.Equal(t, stamp.Mark, "", stamp)
			expect.Equal(t, stamp.Attestation, memproxy.SelfReported, stamp)
			continue
		}
		wantCodes(t, a.Decision, memproxy.Allow, memproxy.LayerInferred)
		expect.Equal(t, stamp.Mark, "layer.inferred", stamp)
		expect.Equal(t, stamp.Attestation, memproxy.Inferred, stamp)
	}
}

// Proves GOV-3: what a running agent writes down is its user's statement where
// the user said it in the request that started the run, and else inferred.
func TestSelfEditsThatQuoteTheUser(t *testing.T) {
	for text, want := range map[string]memproxy.Verdict{
		"The user likes green tea.":                memproxy.Allow,
		"Prefers green tea; call 555 about money.": memproxy.Hold,
		"The user is probably lonely.":             memproxy.Hold,
	} {
		r := newRig(t, func(r *rig) { r.rules.Policy = inference(memproxy.TreatHold) })
		run := memproxy.Operation{Kind: memproxy.Run, Items: []memproxy.Item{
			{Kind: memproxy.ItemContent, Role: "user", Text: "I like green tea"}, {Kind: memproxy.ItemContent, Role: "assistant", Text: "probably lonely"},
		}}
		a := r.admit(run)
		asked := r.gate.Agents().RuleOnCall(context.Background(), a, memproxy.ToolCall{ID: "c", Tool: "memory_insert", Operation: &memproxy.Operation{
			Kind: memproxy.Learn, Cost: 1, Items: []memproxy.Item{{Kind: memproxy.ItemContent, Role: "assistant", Text: text, Inferred: true, Layer: memproxy.Semantic}},
		}})
		expect.That(t, asked.Decision.Verdict == want, "%q: %v", text, asked.Decision)
	}
}

var _ backend.Extractor = (*fakeExtractor)(nil)
