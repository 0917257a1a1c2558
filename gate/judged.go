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
func (ret *returning) judge(ctx context.Context, memories []memproxy.Memory) (map[int]judged, error) {
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
func (ret *returning) risks(ctx context.Context, memories []memproxy.Memory) (map[int]memproxy.PerMille, error) {
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
func (ret *returning) vouched(m *memproxy.Memory) bool {
	if m.Mutable || len(m.Also) > 0 || ret.rules.Changed == ChangedIgnore || slices.Contains(ret.broken, m.ID) {
		return false
	}
	st := ret.lookups().of(kindOf(m), m.ID).Status
	return st.State == memproxy.StateValidated && st.Attestation == memproxy.HumanConfirmed && st.Unverified == ""
}

// unseen reports whether a memory's text is not the one that last went through
// memproxy: it was put there, or changed, around it. What came to be by it is
// ruled on by its state.
func (ret *returning) unseen(m *memproxy.Memory) bool {
	if kindOf(m) == memproxy.TargetEvent || kindOf(m) == memproxy.TargetExport || m.Uncounted || m.Common || m.Compiled || m.ID == "" {
		return false
	}
	row := ret.lookups().owner(kindOf(m), m.ID)
	return row == nil || len(m.Also) > 0 || row.SHA256 != textHash(m.Text)
}

// hidden says what of a memory's text is replaced (DOL-4, DOL-5): of a flagged
// one the spans for which it was flagged, as long as it is the text of which
// they are. Any other text is judged anew, as are those that came in around the
// proxy. Where neither says what is dangerous in a flagged one, all of it is.
// Nil is nothing.
func (ret *returning) hidden(m *memproxy.Memory, j judged, screened bool) []memproxy.Finding {
	st, flagged := ret.flagged[m]
	switch {
	case flagged && st.Text != "" && st.Text == textHash(m.Text) && len(st.Findings) > 0:
		return st.Findings
	case screened && ret.rules.Sanitise > 0 && j.score >= ret.rules.Sanitise && (flagged || ret.unseen(m)):
	case flagged && (!screened || st.Text == "" || st.Text == textHash(m.Text)):
		return []memproxy.Finding{{Rule: memproxy.RuleUnspecified, Severity: "high", End: len(m.Text)}}
	default:
		return nil
	}
	if spans := dangerous(j.spans); len(spans) > 0 {
		return spans
	}
	return j.spans
}

// unparted reports whether a memory that came in around the proxy says
// something dangerous and cannot be shown in part.
func (ret *returning) unparted(m *memproxy.Memory, j judged) bool {
	return ret.rules.Sanitise > 0 && j.risk >= ret.rules.Sanitise && (m.TextAt == "" || j.score < ret.rules.Sanitise) && ret.unseen(m)
}

// withhold leaves out what looks like an attack, and hides what of a memory is
// dangerous: it may have come in around the proxy, or before a rule knew it. It
// reports whether the whole answer was refused.
func (ret *returning) withhold(ctx context.Context) (refused bool, err error) {
	if ret.rules.Withhold <= 0 && ret.rules.Sanitise <= 0 && len(ret.flagged) == 0 {
		return false, nil
	}
	found, err := ret.judge(ctx, ret.reading.Memories)
	if err != nil {
		return false, err
	}
	n, sanitised := 0, 0
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		j := found[i]
		if m.Drop || ret.vouched(m) || ret.ownWords(m) || ret.answers && ret.op.Kind == memproxy.Learn && m.Event != "" && m.Event != eventNone {
			continue // what the write made was ruled on with it
		}
		if (ret.rules.Withhold <= 0 || j.risk < ret.rules.Withhold) && !ret.unparted(m, j) {
			if spans := ret.hidden(m, j, found != nil); spans != nil {
				text := memproxy.Described(memproxy.Sanitise(m.Text, spans))
				m.Show = &text
				sanitised++
			}
			continue
		}
		if ret.leave(m, StatusForbidden, memproxy.ScreenWithheld, "the memory looks like an attack and is withheld") {
			return true, nil
		}
		n++
	}
	if n > 0 {
		ret.filtered += n
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.ScreenWithheld, Detail: "memories that look like attacks were left out of the answer"})
	}
	if sanitised > 0 {
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.StateSanitised, Detail: "dangerous spans of memories were replaced in the answer"})
	}
	return false, nil
}
