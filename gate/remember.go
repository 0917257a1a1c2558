package gate

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/limits"
	"github.com/memproxy/memproxy/internal/metadata"
)

// effects collects the changes that an answer makes to the ledger.
type effects struct {
	*answer
	rows []memproxy.Ownership // the last of an object counts
	gone []memproxy.Ownership // deleted memories, whose authors are credited once this is recorded
}

// recordEffects records the effects of the operation in the ledger: who owns the new
// memories, and which are deleted. An error of the ledger cannot undo the write. The
// owner is then looked up in the backend the next time.
func (ret *effects) recordEffects(ctx context.Context) {
	if wroteNothing(ret.status) {
		ret.g.accounts.unbind(ctx, ret.Admission)
		ret.g.accounts.release(ctx, ret.Admission)
	}
	if ret.op == nil || !ret.enforced() && ret.reading == nil {
		return
	}
	if !memproxy.IsSuccess(ret.status) {
		if ret.status == memproxy.StatusNotFound && ret.DeletesOwner() {
			ret.recordScopeDeletion(ctx)
		}
		ret.recordUnconfirmed(ctx)
		return
	}
	if ret.reading != nil && ret.reading.Failed {
		ret.Failed = true
		if ret.edits != nil {
			recordEdits(ctx, ret.answer) // it may have changed something all the same
		}
		return
	}
	for _, row := range ret.lateEntry.Owners {
		ret.setOwner(row)
	}
	if ret.rules.Screener != nil && ret.op.Kind.Writes() {
		ret.rules.Screener.RecordWrite(ret.screening())
	}
	settleChange(ctx, ret.g, ret.Admission)
	completeReading(ctx, ret)
	ret.settleBill(ctx)
	if ret.edits != nil && !ret.byAgent {
		recordEdits(ctx, ret.answer)
		return
	}
	switch ret.op.Kind {
	case memproxy.Learn:
		ret.recordAdded(ctx)
	case memproxy.Correct:
		ret.recordChanged()
	case memproxy.Forget:
		ret.recordDeleted(ctx)
	case memproxy.Recall:
		recordExport(ret)
	}
	ret.adopt(ctx)
	// The status of memories that wait for review is stored before they can be
	// read. The rest is history and does not delay the answer.
	states := append(ret.newStates(), ret.lateEntry.States...)
	if ret.flaggedAs != "" || ret.needsReview() {
		_ = commit(ctx, ret.g, &ret.Decision, memproxy.Entry{States: states}, "the status of new memories could not be recorded") // the error is logged
		states = nil
	}
	ret.commitEffects(ctx, states)
}

// sortOwners sorts the rows by object, one for each.
func sortOwners(rows []memproxy.Ownership) []memproxy.Ownership {
	slices.Reverse(rows) // the last one of an object comes first
	slices.SortStableFunc(rows, byObject)
	return slices.CompactFunc(rows, func(a, b memproxy.Ownership) bool { return byObject(a, b) == 0 })
}

func byObject(a, b memproxy.Ownership) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Kind, b.Kind))
}

// evictCached removes the memories that a request deleted or replaced, or may have, from the
// adapter's cache, also in shadow mode: its targets, or all memories if they are not known.
func evictCached(ret *answer) {
	if ret.op == nil || wroteNothing(ret.status) && ret.status != memproxy.StatusNotFound || safe(ret.call.Request.Method) {
		return
	}
	switch kind := ret.op.Kind; {
	case kind == memproxy.Admin || ret.op.DeletesScope:
		ret.call.Backend.Adapter.Evict()
	case kind == memproxy.Correct || kind == memproxy.Forget:
		ret.call.Backend.Adapter.Evict(ret.op.Targets...)
	}
}

func (ret *effects) setOwner(row memproxy.Ownership) { ret.rows = append(ret.rows, row) }

func (ret *effects) newOwner(kind memproxy.TargetKind, id string) memproxy.Ownership {
	row := memproxy.Ownership{
		Backend: ret.op.Backend, Kind: kind, ID: id, Scope: ret.op.Scope,
		Actor: ret.Principal.ID, Trust: ret.Principal.Trust, Confidence: ret.event.Confidence,
		Source: ret.op.SourceClaim, Decision: ret.Decision.ID, Written: ret.begun,
	}
	row.Scope.Tenant = ret.Principal.Tenant
	return row
}

// recordAdded records new memories and receipts. A backend whose own model decides may
// also have updated or deleted other memories, as its answer reports. Those keep their
// owners: an addition must not make its caller the owner of memories that it changed.
func (ret *effects) recordAdded(ctx context.Context) {
	if ret.reading == nil {
		return
	}
	known := ret.lookups()
	var changed []memproxy.MemoryKey
	for i := range ret.reading.Memories {
		if m := &ret.reading.Memories[i]; m.Event != memproxy.MemoryAdded && m.Event != memproxy.MemoryUnchanged {
			changed = append(changed, known.key(memproxy.TargetMemory, m.ID))
		}
	}
	if known.need(ctx, changed...) != nil {
		known = nil // after an error no owner is known
	}
	var gone []memproxy.Ownership
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		if m.ID == "" || m.Event == memproxy.MemoryUnchanged || m.Drop {
			continue
		}
		ret.shown = append(ret.shown, m.ID)
		row := known.owner(memproxy.TargetMemory, m.ID)
		switch {
		case m.Event == memproxy.MemoryAdded, m.Event == "" && row == nil:
			row = new(ret.newOwner(memproxy.TargetMemory, m.ID))
			row.Scope.Agent = cmp.Or(row.Scope.Agent, m.Scope.Agent) // what is made with an agent belongs to the agent
		case row == nil:
			continue // it remains unattributed
		case m.Event == memproxy.MemoryDeleted:
			gone = append(gone, *row)
			row.Deleted = true
		default:
			row.Decision = ret.Decision.ID
			if m.Event != "" && (!ret.byAgent || row.Actor == ret.Principal.ID) { // what an agent adds leaves the authority of another author
				row.Confidence = min(row.Confidence, max(0, ret.event.Confidence))
				row.Source = row.Source.Lower(ret.op.SourceClaim)
			}
		}
		if m.Event != memproxy.MemoryDeleted {
			row.SHA256 = memproxy.Hash(m.Text)
		}
		ret.setOwner(*row)
	}
	ret.g.accounts.creditAuthors(ctx, ret.Admission, gone)
	for _, id := range ret.reading.Events {
		receipt := ret.newOwner(memproxy.TargetEvent, id)
		if ret.reading.Settles {
			receipt.Decision = "" // all its memories are known, so the stamp binds no others
		}
		ret.setOwner(receipt)
	}
}

// recordChanged records the new text's hash and keeps the author. A memory without a known
// author remains unattributed until its new stamp is read. If it was changed in an
// agent, it is recorded with that agent, because later answers may not name the agent.
func (ret *effects) recordChanged() {
	for _, id := range ret.op.Targets {
		row, known := ret.owners[id]
		m := ret.op.Current[id]
		if !known {
			if ret.op.Stamp == nil || ret.op.Scope.Agent == "" || m.ID == "" || m.Missing {
				continue
			}
			row = ret.newOwner(memproxy.TargetMemory, m.ID)
		}
		switch it, _ := content.TargetItems(ret.op, id); {
		case it != nil && it.Target != "": // items without a target are of objects, which have no text
			row.SHA256 = memproxy.Hash(it.Text)
			row.Confidence = max(0, ret.event.Confidence) // the confidence of the new text
		case m.Stamp != nil && m.Stamp.ID > row.Decision && ret.signed(&m): // a later change that the ledger lacks
			row.SHA256 = memproxy.Hash(m.Text)
		case len(ret.op.ConfidenceClaims) > 0 || ret.op.SourceClaim != "": // about the text that stays, which gets no more than it had
			row.Confidence = min(row.Confidence, max(0, ret.event.Confidence))
		}
		row.Source = row.Source.Lower(ret.op.SourceClaim)
		row.Decision = ret.Decision.ID
		ret.setOwner(row)
	}
	ret.shown = ret.op.Targets
}

// recordDeleted records tombstones, also of memories without a known author, ends recorded
// histories, and lowers the authors' totals.
func (ret *effects) recordDeleted(ctx context.Context) {
	if ret.DeletesOwner() {
		ret.recordScopeDeletion(ctx)
	}
	for _, id := range ret.op.Targets {
		row, known := ret.owners[id]
		m := ret.op.Current[id]
		switch {
		case slices.Contains(ret.op.Kept, id), !known && (m.ID == "" || m.Missing):
			continue
		case known:
			if !m.IsContainer { // the blocks of an agent or a group were charged, and they stay
				ret.gone = append(ret.gone, row)
			}
		default: // it bypassed memproxy or existed before; the backend may keep its history
			row = memproxy.Ownership{Backend: ret.op.Backend, Kind: m.TargetKind(), ID: m.ID, Scope: m.Scope, Written: ret.begun}
			row.Scope.Tenant = ret.Principal.Tenant
		}
		row.Deleted = true
		ret.setOwner(row)
	}
	ret.shown = ret.op.Targets
}

// recordScopeDeletion records that everything within the scope was deleted, and cancels the held
// writes within it, so that none of them restores deleted content. Only these are cancelled where
// a backend that has nothing of the owner answers 404, which confirms no deletion, and where the
// owner itself is deleted (an agent of Letta, whose blocks and archive the server keeps).
func (ret *effects) recordScopeDeletion(ctx context.Context) {
	now := ret.g.opt.Clock()
	ret.g.scopeDeleted.Store(&now)
	var v *memproxy.Version
	if ret.op.DeletesScope && ret.status != memproxy.StatusNotFound {
		v = new(memproxy.Version)
		if ret.enforced() {
			*v = ret.version(memproxy.TargetMemory, "", memproxy.OpDelete)
		}
	}
	// There is no deadline, because the ledger bounds each of its steps.
	swept, err := ret.g.opt.Ledger.DeleteScope(context.WithoutCancel(ctx), ret.op.Backend, ret.op.Scope, v)
	if err != nil {
		ret.g.opt.Log.ErrorContext(ctx, "bulk deletion not recorded in the ledger", "decision", ret.Decision.ID, "error", err)
	}
	for _, who := range swept.Tallies {
		ret.g.accounts.creditTotals(ctx, ret.Admission, ret.Decision.ID, who)
	}
	for i := range swept.Holds {
		ret.g.accounts.recordAsync(ctx, clearedEvent(&swept.Holds[i], ret.Decision.ID, now))
	}
}

// clearedEvent is the record that a held write is never sent, because a decision deleted
// everything of its owner. It is the hold's tenant's, which may be another's than the
// decision's.
func clearedEvent(h *memproxy.HeldWrite, decision string, at time.Time) memproxy.Event {
	return h.ServiceEvent(at, memproxy.SystemActor, memproxy.Act{
		Action: "hold.clear", Stage: memproxy.ActDone,
		Reason: "everything of its owner was deleted: decision " + decision,
	})
}

// DeletesOwner reports whether the operation deletes everything of an owner, or an owner
// itself. The end of the answer must then wait until the deletion is recorded.
func (a *Admission) DeletesOwner() bool {
	return a.op != nil && a.op.Kind == memproxy.Forget && (a.op.DeletesScope || a.op.SingleOwner)
}

func recordExport(ret *effects) {
	if ret.reading == nil || !ret.op.Derived {
		return
	}
	for _, id := range ret.reading.Events {
		row := ret.newOwner(memproxy.TargetExport, id)
		row.Scope = access.RestrictedTo(ret.op)
		row.Scope.Tenant = ret.Principal.Tenant
		ret.setOwner(row)
	}
}

// signStamp signs a stamp together with the metadata that the adapter writes next to it. An
// existing stamp is signed again only if this installation signed it for the memory's
// tenant.
func (r *evaluation) signStamp(s memproxy.Stamp, members []memproxy.Member) memproxy.Stamp {
	mixed := func(string) bool { return false }
	if mixer, ok := r.call.Backend.Adapter.(backend.Extractor); ok {
		mixed = mixer.IsBackendField
	}
	hashes := metadata.Hashes(s.ID, members, mixed)
	if s != *r.op.Stamp {
		if hashes == s.Metadata {
			return s
		}
		s.Tenant = r.Principal.Tenant
		if !r.g.opt.Signer.Verify(s) {
			return s
		}
	}
	s.Metadata = hashes
	return r.g.opt.Signer.Sign(s)
}

// stampOf returns the stamp of the write, which signStamp signs.
func stampOf(r *evaluation) memproxy.Stamp {
	found := foundAtArrival(r.Admission)
	return memproxy.Stamp{
		ID:          r.Decision.ID,
		Actor:       r.Principal.ID,
		Tenant:      r.Principal.Tenant,
		Trust:       r.Principal.Trust,
		Confidence:  r.q.Confidence,
		Source:      cmp.Or(r.op.SourceClaim, memproxy.SourceUnstated),
		Attestation: r.attestationOf(r.marks),
		Time:        r.begun.UTC().Truncate(time.Second),
		SHA256:      content.Hash(r.op),
		Mark:        strings.Join(r.marks, " "),
		Received:    arrivalTime(r.Admission).UTC().Truncate(time.Second),
		Session:     r.namedSession(),
		Trigger:     r.call.Route.ID,
		Score:       memproxy.Risk(found),
		Flags:       ruleFlags(found),
	}
}

// arrivalTime returns when the client's request arrived: a held write waited since.
func arrivalTime(a *Admission) time.Time {
	if a.heldWrite != nil {
		return a.heldWrite.Created
	}
	return a.begun
}

// foundAtArrival returns the findings in a write when it arrived. A write that is sent
// after its review is not screened again.
func foundAtArrival(a *Admission) []memproxy.Finding {
	if a.heldWrite != nil {
		return a.heldWrite.Findings
	}
	return a.findings
}

// Bounds of the rules that a stamp names, so that a stamp stays below 1 KB.
const (
	maxFlags     = 3
	maxFlagBytes = 120
)

// ruleFlags returns the rules behind the worst findings, without duplicates. A rule
// describes what a text looks like and does not quote it.
func ruleFlags(findings []memproxy.Finding) string {
	var out []string
	size := 0
	findings = memproxy.Dangerous(findings) // without the total, which is the score
	for _, f := range limits.Worst(findings, len(findings)) {
		if len(out) < maxFlags && size+len(f.Rule) <= maxFlagBytes && !slices.Contains(out, f.Rule) {
			out, size = append(out, f.Rule), size+len(f.Rule)
		}
	}
	return strings.Join(out, " ")
}

// signed reports whether a memory's stamp was signed by this installation for the
// caller's tenant.
func (ret *answer) signed(m *memproxy.Memory) bool {
	return examinerOf(ret.g, ret.Admission).Signed(m)
}

// OwnerFromStamp returns the ownership of a memory by its stamp, which was verified for tenant.
func OwnerFromStamp(backend string, m *memproxy.Memory, tenant string) memproxy.Ownership {
	s := m.Stamp
	row := memproxy.Ownership{
		Backend: backend, Kind: memproxy.TargetMemory, ID: m.ID, Scope: m.Scope,
		Actor: s.Actor, Trust: s.Trust, Confidence: s.Confidence, Source: s.Source,
		Decision: s.ID, SHA256: memproxy.Hash(m.Text), Written: s.Time,
	}
	row.Scope.Tenant = tenant
	// The row is cached, and its strings are slices of an answer, which they would retain.
	for _, s := range [...]*string{&row.ID, &row.Scope.User, &row.Scope.Agent, &row.Scope.App, &row.Scope.Run, &row.Actor, (*string)(&row.Trust), (*string)(&row.Source), &row.Decision} {
		*s = strings.Clone(*s)
	}
	return row
}

// wroteNothing reports whether the backend refused a request, or redirected it, and so wrote
// nothing. After a 303 the request was processed, and its result is elsewhere.
func wroteNothing(status int) bool { return status >= 300 && status <= 499 && status != 303 }
