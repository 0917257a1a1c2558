package gate

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/trust"
)

// mark notes for what reasons what is written bears a mark. It goes through
// all the same.
func mark(r *run, reasons []memproxy.Reason) {
	r.marks = codesOf(reasons)
	r.verdict.note(reasons...)
}

// codesOf are the codes of reasons, sorted, each once.
func codesOf(reasons []memproxy.Reason) []string {
	var out []string
	for _, why := range reasons {
		out = append(out, string(why.Code))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// attested is how well the source of what is written is known.
func (a *Admission) attested(marks []string) memproxy.Attestation {
	switch {
	case a.confirmed:
		return memproxy.HumanConfirmed
	case slices.Contains(marks, string(memproxy.LayerInferred)):
		return memproxy.Inferred
	}
	return cmp.Or(a.attestation, memproxy.SelfReported)
}

// attributeTexts settles which texts of a running agent's call a user stated in the
// request that started it: the agent only writes them down.
func attributeTexts(r *run, started *memproxy.Operation) {
	if r.op == nil {
		return
	}
	said := trust.SaidBy(started)
	for i := range r.op.Items {
		if it := &r.op.Items[i]; it.Inferred {
			it.Inferred = !said.States(it.Text)
		}
	}
}

// marksOf are the codes for which a memory that a write made is marked: those
// of the write, and what is said of this one alone.
func (ret *answer) marksOf(id string) []string {
	if own, ok := ret.made[id]; ok {
		return own
	}
	return ret.marks
}

// layerOf is the layer of what a write made.
func layerOf(a *Admission, field string) memproxy.Layer {
	for i := range a.op.Items {
		if it := a.op.Items[i]; it.Kind == memproxy.ItemContent {
			it.Field = field
			return a.rules.Governance.LayerOf(&it)
		}
	}
	return memproxy.Semantic
}

// ruleOnInferred asks the policy about each fact that the backend's model made
// of a write and that no user stated there. What is not admitted is taken back;
// what is held waits for review with the write that it was made of; what is
// marked is so in the ledger, for the one stamp is the whole write's.
func (ret *making) ruleOnInferred(ctx context.Context, found map[int]judged) error {
	if !ret.op.Extracts || ret.confirmed {
		return nil
	}
	said := trust.SaidBy(ret.op)
	for i := range ret.memories {
		m := &ret.memories[i]
		if m.Drop || m.Text == "" || m.Event == eventNone || m.Event == eventDelete || !m.Inferred && said.States(m.Text) {
			continue
		}
		q := ret.inferredFact(m)
		for _, f := range found[i].spans {
			f.Item, f.Score = 0, 0 // what it risks was ruled on
			q.Findings = append(q.Findings, f)
		}
		ruling, err := ret.rules.Policy.Rule(ctx, q)
		if err != nil {
			return err
		}
		ret.reasons = append(ret.reasons, ruling.Shadow...)
		switch {
		case ruling.Verdict.Stops():
			why := ruling.Reasons[0]
			ret.reasons = append(ret.reasons, ret.retract(ctx, m, why))
			if ruling.Verdict == memproxy.Hold {
				ret.keepExtracted(ctx, *m, why)
			}
		case len(ruling.Marks) > 0:
			if ret.made == nil {
				ret.made = map[string][]string{}
			}
			ret.made[m.ID] = codesOf(ruling.Marks)
			for _, why := range ruling.Marks {
				ret.reasons = append(ret.reasons, memproxy.Reason{Code: why.Code, Rule: why.Rule, Pointer: m.Pointer, Detail: why.Detail})
			}
		}
	}
	return nil
}

// inferredFact is the question about a fact that a model made.
func (ret *making) inferredFact(m *memproxy.Memory) memproxy.Question {
	field := fieldOf(ret.op, m)
	confidence := max(0, ret.event.Confidence)
	return memproxy.Question{
		Principal: ret.Principal, Confidence: confidence, Claimed: confidence, Profile: string(ret.rules.Profile), Governance: ret.rules.Governance,
		Ceiling: ret.rules.Ceilings.Ceiling(ret.Principal.Trust, ""),
		Operation: &memproxy.Operation{
			Kind: memproxy.Learn, Backend: ret.op.Backend, Route: ret.op.Route, Scope: ret.op.Scope, SourceClaim: ret.op.SourceClaim, LayerClaims: ret.op.LayerClaims,
			Items: []memproxy.Item{{
				Kind: memproxy.ItemContent, Pointer: m.Pointer, Text: m.Text, Field: field, Layer: layerOf(ret.Admission, field), Role: "assistant", Inferred: true,
			}},
		},
	}
}

// markLater notes in the ledger how the memories of a write stand of which the
// backend told only later: as they would had it told at once.
func (ret *making) markLater(ctx context.Context) {
	reading := &memproxy.Reading{}
	for i := range ret.memories {
		if !ret.memories[i].Drop {
			reading.Memories = append(reading.Memories, ret.memories[i])
		}
	}
	if ret.reading = reading; len(reading.Memories) > 0 {
		_ = commit(ctx, ret.g, &ret.Decision, memproxy.Entry{States: (&effects{answer: ret.answer}).newStates()}, "the state of new memories is not kept") // it is in the log
	}
}

// markOf is the stamp's form of codes.
func markOf(codes []string) string { return strings.Join(codes, " ") }
