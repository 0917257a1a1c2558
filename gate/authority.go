package gate

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/trust"
)

// A word is what is known of one memory that the operation would change: its
// text, its owner, and the authority over it.
type word struct {
	target string             // as the operation names it
	at     int                // its place among the memories of an answer
	row    memproxy.Ownership // of the original author; Actor is "" where it is not known
	text   string             // as it was, where that was fetched
	trust.Authority
}

func (w *word) key() memproxy.MemoryKey {
	return memproxy.MemoryKey{Backend: w.row.Backend, Kind: w.row.Kind, ID: w.row.ID}
}

// loadAuthors finds out whose words the targets are: who wrote them, by the ledger
// and by the stamp, who changed them since, and how well their source is
// known. A ledger that cannot say so refuses the change.
func loadAuthors(ctx context.Context, r *run, targets []string) {
	if r.op.Kind != memproxy.Correct && r.op.Kind != memproxy.Forget || r.verdict.worst.Stops() && r.enforced() {
		return
	}
	brings, rewritten := brings(r.call, r.op), content.Replaced(r.op)
	for _, target := range targets {
		inspectTarget(ctx, r, target)
		if r.op.Current[target].Missing || slices.Contains(brings, target) && !slices.Contains(rewritten, target) {
			continue // nothing is there, or nothing of it is changed
		}
		r.words = append(r.words, wordOf(r, target))
	}
	if err := recorded(ctx, r.Admission, r.known, r.words); err != nil {
		ledgerFailed(ctx, r, err, noAuthors)
	}
}

// wordOf is what the ledger's row and the stamp on the memory say of a target.
func wordOf(r *run, target string) word {
	m := r.op.Current[target]
	w := word{target: target, row: r.owners[target], text: m.Text}
	if w.row.ID == "" {
		w.row = memproxy.Ownership{Backend: r.op.Backend, Kind: r.op.TargetKind, ID: target}
		if m.ID != "" {
			w.row.ID = m.ID
		}
	}
	if w.row.Kind == "" {
		w.row.Kind = memproxy.TargetMemory
	}
	var stamp memproxy.Stamp
	if m.Stamp != nil {
		stamp = *m.Stamp
		stamp.Tenant = r.Principal.Tenant
		if !r.g.opt.Signer.Verify(stamp) {
			stamp = memproxy.Stamp{}
		}
	}
	w.Authority = trust.AuthorityOf(r.rules.Ceilings, r.Principal.ID, &w.row, &stamp)
	return w
}

// loadReplaced finds out whose words a call of a running agent would change: another
// tenant's it does not, also where a tool that nobody could read attached them to
// the agent. What it replaces is asked for by name; what a run that is watched has
// changed already stands otherwise by now, so the ledger alone is asked.
func loadReplaced(ctx context.Context, r *run, watched bool) {
	op := r.op
	if op == nil {
		return
	}
	targets := op.Targets
	if len(targets) == 0 {
		targets = content.Replaced(op)
	}
	if len(targets) == 0 || op.Kind != memproxy.Correct && op.Kind != memproxy.Forget {
		return
	}
	if err := loadOwners(ctx, r, targets); err != nil {
		ledgerFailed(ctx, r, err, noAuthors)
		return
	}
	if op.Kind == memproxy.Correct { // what is let go of may be anybody's
		for _, id := range targets {
			if row, known := r.owners[id]; known && !r.alone() && row.Scope.Tenant != r.Principal.Tenant {
				r.verdict.missing("target:" + id)
				return
			}
		}
	}
	if loc, ok := r.call.Backend.Adapter.(Locator); ok && !watched && r.call.Backend.Fetch != nil {
		if err := fetchTargets(ctx, r, loc, targets); err != nil {
			r.g.opt.Log.ErrorContext(ctx, "the backend cannot be asked whose words a call changes", "decision", r.Decision.ID, "error", err)
			r.verdict.refuse(StatusUnavailable, memproxy.Reason{Code: memproxy.UpstreamUnavailable, Detail: "who wrote the memory cannot be looked up"})
			return
		}
		recognise(ctx, r)
	}
	if r.blind {
		ledgerFailed(ctx, r, errBlind, noAuthors)
		return
	}
	loadAuthors(ctx, r, targets)
}

// errBlind says that the ledger did not know the owner by the name either.
var errBlind = errors.New("gate: the ledger did not answer")

// noAuthors says that a change is refused because nobody knows whose texts it changes.
const noAuthors = "who wrote the memory cannot be looked up"

// ledgerFailed refuses what the ledger had to be asked about.
func ledgerFailed(ctx context.Context, r *run, err error, detail string) {
	r.g.opt.Log.ErrorContext(ctx, "ledger lookup failed", "decision", r.Decision.ID, "error", err)
	r.verdict.refuse(StatusUnavailable, memproxy.Reason{Code: memproxy.LedgerUnavailable, Detail: detail})
}

// recorded adds what the ledger has recorded about words: how well their source is
// known, and who corrected them.
func recorded(ctx context.Context, a *Admission, known *lookups, words []word) error {
	keys := make([]memproxy.MemoryKey, len(words))
	for i := range words {
		keys[i] = words[i].key()
	}
	if err := known.need(ctx, keys...); err != nil {
		return err
	}
	for i := range words {
		w := &words[i]
		w.Attested(known.of(w.row.Kind, w.row.ID).Status.Attestation)
		if w.row.Actor == "" {
			continue
		}
		list, err := known.ledger.Corrections(ctx, keys[i])
		if err != nil {
			return err
		}
		w.Corrected(a.rules.Ceilings, a.Principal.ID, list)
	}
	return nil
}

// addAuthors adds the authors of the memories being changed to the policy question.
func addAuthors(r *run) {
	for i := range r.words {
		w := &r.words[i]
		r.q.AuthorTrust = max(r.q.AuthorTrust, w.Others)
		if w.Attestation.Outranks(r.q.AuthorAttestation) {
			r.q.AuthorAttestation = w.Attestation
		}
		if w.row.Actor == "" || w.Own {
			continue
		}
		r.q.Others = true
		why := memproxy.Reason{
			Code:   memproxy.TrustCorrection,
			Detail: "written by " + w.row.Actor + " (" + string(w.row.Trust) + ", " + string(cmp.Or(w.Attestation, memproxy.AttestationUnknown)) + ")",
		}
		if !slices.Contains(r.verdict.notes, why) {
			r.verdict.note(why)
		}
	}
}

// uncontested: no correction was refused for the word of somebody else.
func uncontested(r *run) bool {
	return r.op == nil || !r.enforced() || !r.Decision.Verdict.Stops() || !has(r.Decision.Reasons, memproxy.TrustAuthority)
}

// contest keeps a correction that was not let through against the word of
// somebody else: the memory is contested from then on, and readers see it so.
func contest(ctx context.Context, r *run) error {
	for i := range r.words {
		if w := &r.words[i]; !w.Own || w.Others > 0 {
			dissent(ctx, r.g, r.Admission, w, content.NewText(r.op, w.target))
		}
	}
	return nil
}

// unmade: the call is refused.
func unmade(r *run) bool { return r.op == nil || r.Decision.Verdict.Stops() }

// credit takes a call of a running agent that is let through for made: whoever
// asked runs it next.
func credit(ctx context.Context, r *run) error {
	settleChange(ctx, r.g, r.Admission)
	return nil
}

// dissent notes that somebody would have a memory say something else.
func dissent(ctx context.Context, g *Gate, a *Admission, w *word, text string) {
	d := memproxy.Dissent{Open: true, Text: text, SHA256: textHash(text), Correction: correction(a, w, string(memproxy.TrustAuthority))}
	_ = commit(ctx, g, &a.Decision, memproxy.Entry{Dissents: []memproxy.Dissent{d}}, "a dissent was not kept") // it is in the log
}

// correction says that the admission changes, or would change, a word.
func correction(a *Admission, w *word, reason string) memproxy.Correction {
	tenant := w.row.Scope.Tenant
	if tenant == "" {
		tenant = a.Principal.Tenant
	}
	return memproxy.Correction{
		Backend: w.row.Backend, Kind: w.row.Kind, ID: w.row.ID, Tenant: tenant, Author: w.row.Actor,
		Corrector: a.Principal.ID, Trust: a.Principal.Trust, Decision: a.Decision.ID, Reason: reason, Time: a.begun,
	}
}

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
