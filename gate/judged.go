package gate

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
)

// judged is what screening says of a memory as the answer shows it.
type judged struct {
	risk memproxy.PerMille
	// spans are what was found in the memory's own text, and score the worst of
	// them. What was found beside it counts for the risk alone.
	spans []memproxy.Finding
	score memproxy.PerMille
}

// judge screens memories as the answer shows them, by their places in the
// list. Raw messages are what somebody said, and are left to those who read
// them. Nil is that nothing is screened.
func (ret *answer) judge(ctx context.Context, memories []memproxy.Memory) (map[int]judged, error) {
	if ret.rules.Screener == nil {
		return nil, nil
	}
	op := &memproxy.Operation{Kind: ret.op.Kind, Backend: ret.op.Backend, Route: ret.op.Route, Scope: ret.op.Scope}
	asked := ret.screening()
	if ret.op.Kind.Writes() { // it is judged as the write was
		op.SourceClaim = asked.Operation.SourceClaim
	}
	type place struct {
		memory int
		beside bool
	}
	var places []place
	for i := range memories {
		m := &memories[i]
		if m.Drop || m.Missing || m.Layer == memproxy.Episodic {
			continue
		}
		for j, text := range append([]string{m.Text}, m.Also...) {
			if text == "" {
				continue
			}
			op.Items = append(op.Items, memproxy.Item{Kind: memproxy.ItemContent, Text: text, Field: m.Field, Layer: memproxy.Semantic})
			places = append(places, place{i, j > 0})
		}
	}
	found := map[int]judged{}
	if len(places) == 0 {
		return found, nil
	}
	asked.Operation, asked.Reading = op, true
	findings, err := ret.rules.Screener.Screen(ctx, asked)
	if err != nil {
		return nil, err
	}
	for _, f := range findings {
		if f.Item < 0 || f.Item >= len(places) {
			continue
		}
		at := places[f.Item]
		j := found[at.memory]
		if j.risk = max(j.risk, f.Score); !at.beside {
			j.score = max(j.score, f.Score)
			j.spans = append(j.spans, f)
		}
		found[at.memory] = j
	}
	return found, nil
}

// dangerous are the spans for which a text is flagged: all but the sum over
// the text, which is of no place.
func dangerous(findings []memproxy.Finding) []memproxy.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f memproxy.Finding) bool {
		return f.Score == 0 || f.Rule == string(memproxy.ScreenRisk)
	})
}

// risks are the risks of memories' texts, by their places in the list.
func (ret *answer) risks(ctx context.Context, memories []memproxy.Memory) (map[int]memproxy.PerMille, error) {
	if ret.rules.Withhold <= 0 {
		return nil, nil
	}
	found, err := ret.judge(ctx, memories)
	risks := make(map[int]memproxy.PerMille, len(found))
	for i, j := range found {
		risks[i] = j.risk
	}
	return risks, err
}

// vouched reports whether reviewers read a memory as it is now and let it be
// shown: it is then no attack, whatever it looks like. What could have been
// changed since without being seen is not vouched for, and what it said at
// another time is not what they read.
func vouched(ret *answer, it *item) bool {
	if it.Mutable || len(it.Also) > 0 || ret.rules.Changed == ChangedIgnore || it.altered != "" {
		return false
	}
	st := &it.rec.Status
	return st.State == memproxy.StateValidated && st.Attestation == memproxy.HumanConfirmed && st.Unverified == ""
}

// unseen reports whether a memory's text is not the one that last went through
// memproxy: it was written, or changed, around it. What came to be by it is ruled
// on by its status.
func unseen(it *item) bool {
	if kind := kindOf(it.Memory); kind == memproxy.TargetEvent || kind == memproxy.TargetExport || it.Uncounted || it.Common || it.Compiled || it.ID == "" {
		return false
	}
	return it.row == nil || len(it.Also) > 0 || it.row.SHA256 != textHash(it.Text)
}

// hidden says what of a memory's text is replaced (DOL-4, DOL-5): of a flagged
// one the spans for which it was flagged, as long as it is the text of which
// they are. Any other text is judged anew, as are those that were written around
// memproxy. Where neither says what is dangerous in a flagged one, all of it is.
// Nil is nothing.
func hidden(ret *answer, it *item) []memproxy.Finding {
	st, j, flagged := &it.rec.Status, &it.judged, it.display == sanitise
	switch {
	case flagged && st.Text != "" && st.Text == textHash(it.Text) && len(st.Findings) > 0:
		return st.Findings
	case ret.screened && ret.rules.Sanitise > 0 && j.score >= ret.rules.Sanitise && (flagged || unseen(it)):
	case flagged && (!ret.screened || st.Text == "" || st.Text == textHash(it.Text)):
		return []memproxy.Finding{{Rule: memproxy.RuleUnspecified, Severity: "high", End: len(it.Text)}}
	default:
		return nil
	}
	if spans := dangerous(j.spans); len(spans) > 0 {
		return spans
	}
	return j.spans
}

// unparted reports whether a memory that was written around memproxy says
// something dangerous and cannot be shown in part.
func unparted(ret *answer, it *item) bool {
	return ret.rules.Sanitise > 0 && it.judged.risk >= ret.rules.Sanitise && (it.TextAt == "" || it.judged.score < ret.rules.Sanitise) && unseen(it)
}
