package gate

import (
	"cmp"
	"context"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/tamper"
	"github.com/memproxy/memproxy/gate/trust"
)

// changedMemory is a memory that the operation would change: its text, its owner, and the
// authority that a change of it needs.
type changedMemory struct {
	target string             // the name in the operation
	at     int                // its index among the memories of an answer
	row    memproxy.Ownership // the original author; Actor is "" if unknown
	text   string             // the text before the change, if it was fetched
	trust.Authority
}

// loadAuthors loads the authors of the targets: who wrote them (from the ledger and
// the stamp), who corrected them since, and how well their source is known. If the
// ledger is unavailable the change is refused.
func loadAuthors(ctx context.Context, r *evaluation, targets []string) {
	switch {
	case r.verdict.Worst.Stops() && r.enforced():
		return
	case r.op.Kind == memproxy.Attach:
		targets = detachedTargets(r)
	case r.op.Kind != memproxy.Correct && r.op.Kind != memproxy.Forget:
		return
	}
	left, rewritten := attachedTargets(r.call, r.op), content.Replaced(r.op)
	if r.op.Kind == memproxy.Correct {
		left = slices.Concat(left, r.op.Kept)
	}
	for _, target := range targets {
		inspectTarget(ctx, r, target)
		if absent(r, target) || slices.Contains(left, target) && !slices.Contains(rewritten, target) {
			continue // it does not exist, or its text is not changed
		}
		r.changedMemories = append(r.changedMemories, changedMemoryOf(r, target))
	}
	if err := loadRemoved(ctx, r); err != nil {
		ledgerFailed(ctx, r, err, authorsUnknown)
		return
	}
	if err := loadAuthority(ctx, r.Admission, r.known, r.changedMemories); err != nil {
		ledgerFailed(ctx, r, err, authorsUnknown)
	}
	for i := range r.changedMemories {
		w := &r.changedMemories[i]
		changed := w.row.SHA256 != "" && w.row.SHA256 != r.heldContent.Before[w.row.ID]
		others := !w.Own || w.Others > 0 // an author may replace its own later text
		if r.mode == replay && changed && others {
			r.verdict.Forbid(memproxy.TrustAuthority, "target:"+w.target,
				"the memory was changed after the write was held, so the approval does not cover its current text")
		}
	}
}

// absent reports whether a target does not exist. The backend's 404 is not enough: it looks
// for the target under the parent that the request names, which it may ignore when it changes
// the target, so a target with a live row in the ledger exists. A target with a tombstone is
// absent if the backend was asked and shows no text of it: some backends cannot say that a
// memory is missing.
func absent(r *evaluation, target string) bool {
	row, known := r.owners[target]
	m, asked := r.op.Current[target]
	return m.Missing && !known || asked && row.Deleted && m.Text == "" && m.Members == nil
}

// detachedTargets returns the targets that a request removes from an object, such as a block
// from the agent that reads it. This ends the effect of their texts there, so it needs
// authority over them, unless the caller made the object.
func detachedTargets(r *evaluation) []string {
	var out []string
	for i := range r.op.Changes {
		c := &r.op.Changes[i]
		if len(c.Remove) == 0 || c.View || changedMemoryOf(r, c.Object).Own {
			continue
		}
		out = append(out, slices.DeleteFunc(slices.Clone(r.op.Targets), func(id string) bool { return id == c.Object })...)
	}
	return out
}

// changedMemoryOf combines the ledger's row of a target with the stamp on the memory.
func changedMemoryOf(r *evaluation, target string) changedMemory {
	m := r.op.Current[target]
	w := changedMemory{target: target, row: r.owners[target], text: m.Text}
	if w.row.ID == "" {
		w.row = memproxy.Ownership{Backend: r.op.Backend, Kind: r.op.TargetKind, ID: cmp.Or(m.ID, target)}
	}
	w.row.Kind = cmp.Or(w.row.Kind, memproxy.TargetMemory)
	var stamp memproxy.Stamp
	if m.Stamp != nil && tamper.SignedFor(r.g.opt.Signer, r.Principal.Tenant, *m.Stamp) {
		stamp = *m.Stamp
		stamp.Tenant = r.Principal.Tenant
	}
	w.Authority = trust.AuthorityOf(r.rules.Ceilings, r.Principal.ID, &w.row, &stamp)
	return w
}

// loadReplaced loads the authors of the memories that a running agent's call would
// change. Another tenant's memory must not be changed, even if a tool without a
// known schema attached it to the agent. Replaced memories are fetched by name; a
// compensated run has changed them already, so only the ledger is asked.
func loadReplaced(ctx context.Context, r *evaluation) {
	op := r.op
	targets := op.Targets
	if len(targets) == 0 {
		targets = content.Replaced(op)
	}
	if len(targets) == 0 || op.Kind != memproxy.Correct && op.Kind != memproxy.Forget {
		return
	}
	if err := loadOwners(ctx, r, targets); err != nil {
		ledgerFailed(ctx, r, err, authorsUnknown)
		return
	}
	if op.Kind == memproxy.Correct { // a deletion may remove anybody's block from the agent
		for _, id := range targets {
			if row, known := r.owners[id]; known && !r.singleTenant() && row.Scope.Tenant != r.Principal.Tenant {
				r.verdict.Missing("target:" + id)
				return
			}
		}
	}
	if r.call.Backend.Fetch != nil && !(r.run != nil && r.run.compensated) {
		var err error
		if op.Current, err = fetch(ctx, r.call, targets); err != nil {
			r.g.opt.Log.ErrorContext(ctx, "the authors of the memories that a call changes cannot be fetched", "decision", r.Decision.ID, "error", err)
			r.verdict.Refuse(memproxy.StatusUnavailable, memproxy.Reason{Code: memproxy.UpstreamUnavailable, Detail: "who wrote the memory cannot be looked up"})
			return
		}
		resolveTargets(ctx, r)
	}
	if err := r.known.err; err != nil {
		ledgerFailed(ctx, r, err, authorsUnknown)
		return
	}
	loadAuthors(ctx, r, targets)
}

// authorsUnknown is the detail of a refusal because the authors of the changed texts are
// unknown.
const authorsUnknown = "who wrote the memory cannot be looked up"

func ledgerFailed(ctx context.Context, r *evaluation, err error, detail string) {
	r.g.opt.Log.ErrorContext(ctx, "ledger lookup failed", "decision", r.Decision.ID, "error", err)
	r.verdict.Refuse(memproxy.StatusUnavailable, memproxy.Reason{Code: memproxy.LedgerUnavailable, Detail: detail})
}

// loadAuthority adds what the ledger has recorded of memories: how well their source is
// known, and who corrected them.
func loadAuthority(ctx context.Context, a *Admission, known *lookups, words []changedMemory) error {
	keys := make([]memproxy.MemoryKey, len(words))
	for i := range words {
		keys[i] = words[i].row.Key()
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
func addAuthors(r *evaluation) {
	for i := range r.changedMemories {
		w := &r.changedMemories[i]
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
		if !slices.Contains(r.verdict.Notes, why) {
			r.verdict.Note(why)
		}
	}
}

func isContested(r *evaluation) bool {
	return r.op != nil && r.enforced() && r.Decision.Verdict.Stops() && has(r.Decision.Reasons, memproxy.TrustAuthority)
}

// contest records a correction that was refused for lack of authority: from then on
// the memory is shown to readers as contested.
func contest(ctx context.Context, r *evaluation) error {
	for i := range r.changedMemories {
		if w := &r.changedMemories[i]; !w.Own || w.Others > 0 {
			recordDissent(ctx, r.g, r.Admission, w, content.NewText(r.op, w.target))
		}
	}
	return nil
}

func recordDissent(ctx context.Context, g *Gate, a *Admission, w *changedMemory, text string) {
	d := memproxy.Dissent{Open: true, Text: text, SHA256: memproxy.Hash(text), Correction: correctionOf(a, w, string(memproxy.TrustAuthority))}
	_ = commit(ctx, g, &a.Decision, memproxy.Entry{Dissents: []memproxy.Dissent{d}}, "a dissenting text could not be stored") // it is in the log
}

// correctionOf describes the change that the admission makes, or would make, to a
// memory.
func correctionOf(a *Admission, w *changedMemory, reason string) memproxy.Correction {
	return memproxy.Correction{
		MemoryKey: w.row.Key(), Tenant: cmp.Or(w.row.Scope.Tenant, a.Principal.Tenant), Author: w.row.Actor,
		Corrector: a.Principal.ID, Trust: a.Principal.Trust, Decision: a.Decision.ID, Reason: reason, Time: a.begun,
	}
}

// settleChange records the consequences of a change that was made, also in the log.
// A run's own changes are settled call by call.
//
// A correction of another author's text goes on that author's record. A deletion
// does not, because it says nothing about the text. A deleted or replaced text is
// kept as retracted, so that its author cannot write it again with more confidence,
// unless it has the highest confidence that the author can give.
func settleChange(ctx context.Context, g *Gate, a *Admission) {
	if !a.enforced() || a.op.Kind == memproxy.Attach { // a detached object still exists
		return
	}
	var e memproxy.Entry
	corrects := a.op.Kind == memproxy.Correct
	for i := range a.changedMemories {
		w := &a.changedMemories[i]
		if w.row.Actor == "" || corrects && !w.rewrites(a.op) {
			continue
		}
		if corrects && !w.Own {
			c := correctionOf(a, w, correctionReason(a))
			if a.confirmed {
				c.Trust = memproxy.TrustHuman // a reviewer's, not the author's
			}
			e.Corrections = append(e.Corrections, c)
			ev := followUpEvent(&a.event, memproxy.EventCrossCorrection, g.opt.Clock())
			ev.Targets, ev.Fields = []string{c.ID}, nil
			ev.Detail = "written by " + c.Author + ", corrected by " + c.Corrector + ": " + c.Reason
			g.accounts.recordAsync(ctx, ev)
		}
		if w.text != "" && w.row.Confidence > 0 && w.row.Confidence < a.rules.Ceilings.Ceiling(w.row.Trust, "") {
			e.Retractions = append(e.Retractions, memproxy.Retraction{
				Tenant: w.row.Scope.Tenant, Author: memproxy.Account(w.row.Actor), Text: w.text,
				Confidence: w.row.Confidence, Attestation: w.Attestation, Time: a.begun,
			})
		}
	}
	_ = commit(ctx, g, &a.Decision, e, "corrections and retractions could not be added to the authors' track records") // corrections are in the log
	for i := range e.Corrections {
		g.tracks.Remove(author{e.Corrections[i].Tenant, memproxy.Account(e.Corrections[i].Author)})
	}
}

// resetStatuses returns the new status of memories whose text was replaced: what was
// known of the old text does not apply to the new one.
func (ret *effects) resetStatuses() []memproxy.StateChange {
	if ret.flaggedAs != "" {
		return nil
	}
	var changes []memproxy.StateChange
	for i := range ret.changedMemories {
		w := &ret.changedMemories[i]
		if !w.rewrites(ret.op) {
			continue
		}
		// A decision about the old text does not apply to the new one. A withheld memory
		// stays withheld until it is reviewed.
		c, _ := plannedStatus(ret.Admission, w.row.Key(), ret.marksOf(w.row.ID))
		c.Text = w.newTextHash(ret.op)
		c.From = []memproxy.MemoryState{memproxy.StateUntrusted, memproxy.StateValidated}
		changes = append(changes, c)
	}
	return changes
}

// newTextHash returns the hash of the new text that the operation gives a memory, or "".
func (w *changedMemory) newTextHash(op *memproxy.Operation) string {
	if it, _ := content.TargetItems(op, w.target); it != nil && it.Text != w.text {
		return memproxy.Hash(it.Text)
	}
	return ""
}

func (w *changedMemory) rewrites(op *memproxy.Operation) bool { return w.newTextHash(op) != "" }

func correctionReason(a *Admission) string {
	switch {
	case a.confirmed:
		if i := slices.IndexFunc(a.Decision.Notes, func(r memproxy.Reason) bool { return r.Code == memproxy.ReviewApproved }); i >= 0 {
			return a.Decision.Notes[i].Detail
		}
		return reasonApproved
	case a.Principal.Kind == memproxy.KindHuman:
		return "the corrector is a person"
	case slices.Contains(a.Principal.Roles, memproxy.RoleReviewer):
		return "the corrector has the role " + memproxy.RoleReviewer
	}
	return "the policy allows the corrector"
}

// checkModelChanges checks what the backend's own model changed or deleted while it processed
// an addition. A text whose author is trusted more than the caller is restored, and
// the replacement is kept as dissent. A deletion cannot be undone and is only
// reported. The error is the ledger's: it is unknown then whose text was changed.
func (ret *extraction) checkModelChanges(ctx context.Context) error {
	if !ret.enforced() || ret.Principal.Kind == memproxy.KindHuman {
		return nil
	}
	known := ret.lookups() // the owners were looked up before
	var words []changedMemory
	for i := range ret.memories {
		m := &ret.memories[i]
		changed := !m.Drop && m.Event != "" && m.Event != memproxy.MemoryAdded && m.Event != memproxy.MemoryUnchanged
		if row := known.owner(memproxy.TargetMemory, m.ID); changed && row != nil && row.Actor != "" {
			w := changedMemory{target: row.ID, at: i, row: *row}
			w.Authority = trust.AuthorityOf(ret.rules.Ceilings, ret.Principal.ID, &w.row, &memproxy.Stamp{})
			words = append(words, w)
		}
	}
	if err := loadAuthority(ctx, ret.Admission, known, words); err != nil {
		for i := range words {
			ret.memories[words[i].at].Drop = true
		}
		return err
	}
	ceiling := ret.rules.Ceilings.Ceiling(ret.Principal.Trust, "")
	for i := range words {
		w := &words[i]
		m := &ret.memories[w.at]
		why := memproxy.Reason{Code: memproxy.TrustAuthority, Rule: m.ID}
		switch {
		case w.Others <= ceiling:
		case m.Event == memproxy.MemoryDeleted:
			why.Detail = "the backend's model deleted a text of " + w.row.Actor + ", whose trust tier is higher"
			ret.reasons = append(ret.reasons, why)
		default:
			text := m.Text
			ret.retract(ctx, m, why)
			recordDissent(ctx, ret.g, ret.Admission, w, text)
		}
	}
	return nil
}
