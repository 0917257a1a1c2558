package gate

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/trust"
)

// settleChange records the consequences of a change that was made, also in the log. A run's
// own changes are settled call by call.
//
// A correction of another's text goes on its author's record; a deletion does not:
// it says nothing against the author. A text that was deleted or replaced is kept as
// retracted, so that its author cannot write it anew with more confidence, unless it
// has the highest confidence that the author can give.
func settleChange(ctx context.Context, g *Gate, a *Admission) {
	if !a.enforced() {
		return
	}
	var e memproxy.Entry
	corrects := a.op.Kind == memproxy.Correct
	for i := range a.words {
		w := &a.words[i]
		if w.row.Actor == "" || corrects && !w.rewrites(a.op) {
			continue
		}
		if corrects && !w.Own {
			c := correction(a, w, right(a))
			e.Corrections = append(e.Corrections, c)
			ev := following(&a.event, memproxy.EventCrossCorrection, g.opt.Clock())
			ev.Targets, ev.Fields = []string{c.ID}, nil
			ev.Detail = "written by " + c.Author + ", corrected by " + c.Corrector + ": " + c.Reason
			g.notes.add(ctx, ev)
		}
		if w.text != "" && w.row.Confidence > 0 && w.row.Confidence < a.rules.Ceilings.Ceiling(w.row.Trust, "") {
			e.Retractions = append(e.Retractions, memproxy.Retraction{
				Tenant: w.row.Scope.Tenant, Author: memproxy.Account(w.row.Actor), Text: w.text,
				Confidence: w.row.Confidence, Attestation: w.Attestation, Time: a.begun,
			})
		}
	}
	_ = commit(ctx, g, &a.Decision, e, "corrections and retractions are not on their authors' records") // corrections are in the log
	for i := range e.Corrections {
		g.tracks.forget(e.Corrections[i].Tenant, e.Corrections[i].Author)
	}
}

// restated says how memories stand whose words were replaced: what was known of
// the old ones does not speak for the new.
func (ret *effects) restated() []memproxy.StateChange {
	if ret.aside != "" {
		return nil
	}
	var changes []memproxy.StateChange
	for i := range ret.words {
		w := &ret.words[i]
		if !w.rewrites(ret.op) {
			continue
		}
		c := memproxy.StateChange{
			MemoryKey: w.key(), Tenant: ret.Principal.Tenant, State: memproxy.StateUntrusted, Decision: ret.Decision.ID,
			Attestation: ret.attested(ret.marksOf(w.row.ID)), Reason: markOf(ret.marksOf(w.row.ID)),
			// What is withheld stays so until it is looked at again.
			From: []memproxy.MemoryState{memproxy.StateUntrusted, memproxy.StateValidated},
			// What was decided of the old text does not hold for the new one.
			Text: w.replacement(ret.op),
		}
		if ret.confirmed {
			c.State, c.Reason, c.Person = memproxy.StateValidated, reasonApproved, true
		}
		changes = append(changes, c)
	}
	return changes
}

// replacement is the hash of the text that the operation gives a memory.
func (w *word) replacement(op *memproxy.Operation) string {
	for i := range op.Items {
		it := &op.Items[i]
		if it.Kind == memproxy.ItemContent && it.Text != "" && it.Text != w.text && (it.Target == w.target || it.Target == "") {
			return textHash(it.Text)
		}
	}
	return ""
}

// rewrites reports whether the operation gives a memory another text.
func (w *word) rewrites(op *memproxy.Operation) bool { return w.replacement(op) != "" }

// right is why the caller may correct others.
func right(a *Admission) string {
	switch {
	case a.confirmed:
		if i := slices.IndexFunc(a.Decision.Notes, func(r memproxy.Reason) bool { return r.Code == memproxy.ReviewApproved }); i >= 0 {
			return a.Decision.Notes[i].Detail
		}
		return reasonApproved
	case a.Principal.Kind == memproxy.KindHuman:
		return "the corrector is a person"
	case slices.Contains(a.Principal.Roles, RoleReviewer):
		return "the corrector has the role " + RoleReviewer
	}
	return "the policy lets the corrector"
}

// usurped looks at what the backend's own model changed or deleted on the way
// of an addition. The word of somebody who is trusted more than the caller is
// put back, and what would stand in its place is kept as dissent; what is
// deleted cannot be put back, and is named.
func (ret *making) usurped(ctx context.Context) {
	for _, w := range ret.stronger(ctx) {
		m := &ret.memories[w.at]
		why := memproxy.Reason{Code: memproxy.TrustAuthority, Rule: m.ID}
		if m.Event == eventDelete {
			why.Detail = "the backend's model deleted the word of " + w.row.Actor + ", who is trusted more"
			ret.reasons = append(ret.reasons, why)
			continue
		}
		text := m.Text
		ret.reasons = append(ret.reasons, ret.retract(ctx, m, why))
		dissent(ctx, ret.g, ret.Admission, &w, text)
	}
}

// stronger are the texts that the backend's model changed or deleted and whose
// authors are trusted more than the caller.
func (ret *making) stronger(ctx context.Context) []word {
	if !ret.enforced() || ret.Principal.Kind == memproxy.KindHuman {
		return nil
	}
	known := ret.lookups()
	changed := func(m *memproxy.Memory) bool {
		return m.ID != "" && !m.Drop && m.Event != "" && m.Event != eventAdd && m.Event != eventNone
	}
	var keys []memproxy.MemoryKey
	for i := range ret.memories {
		if m := &ret.memories[i]; changed(m) {
			keys = append(keys, known.key(memproxy.TargetMemory, m.ID))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	err := known.need(ctx, keys...)
	var words []word
	for i := range ret.memories {
		m := &ret.memories[i]
		if row := known.owner(memproxy.TargetMemory, m.ID); row != nil && row.Actor != "" && changed(m) {
			w := word{target: row.ID, at: i, row: *row}
			w.Authority = trust.AuthorityOf(ret.rules.Ceilings, ret.Principal.ID, &w.row, &memproxy.Stamp{})
			words = append(words, w)
		}
	}
	if err == nil {
		err = recorded(ctx, ret.Admission, known, words)
	}
	if err != nil {
		ret.g.opt.Log.ErrorContext(ctx, "whose words the backend's model changed cannot be looked up", "decision", ret.Decision.ID, "error", err)
		return nil
	}
	ceiling := ret.rules.Ceilings.Ceiling(ret.Principal.Trust, "")
	return slices.DeleteFunc(words, func(w word) bool { return w.Others <= ceiling })
}
