package gate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/tamper"
	"github.com/memproxy/memproxy/gate/trust"
)

// newStates returns the states and expiry times of the memories that a write makes or
// confirms by repeating them.
func (ret *effects) newStates() []memproxy.StateChange {
	if ret.enforced() && ret.op.Kind == memproxy.Correct {
		return ret.resetStatuses()
	}
	if !ret.enforced() || ret.reading == nil || ret.op.Kind != memproxy.Learn {
		return nil
	}
	var changes []memproxy.StateChange
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		if m.ID == "" || m.Drop || m.Event == memproxy.MemoryUnchanged || m.Event == memproxy.MemoryDeleted || m.Layer == memproxy.Episodic {
			continue
		}
		c, _ := plannedStatus(ret.Admission, memproxy.MemoryKey{Backend: ret.op.Backend, Kind: m.TargetKind(), ID: m.ID}, ret.marksOf(m.ID))
		c.Text = memproxy.Hash(m.Text)
		if ret.flaggedAs != "" && !ret.confirmed {
			c.Findings, c.Text = spansIn(ret.Admission, m), memproxy.TextSHA256(m.Text)
		}
		if ttl := lifetime(ret.Admission, fieldsOf(ret.op, m), ret.op.SourceClaim); ttl > 0 {
			c.Expires = ret.begun.Add(ttl)
		}
		changes = append(changes, c)
	}
	return append(changes, ret.endPlannedStatus(len(changes))...)
}

// endPlannedStatus ends the status that was stored in advance for a write's memories,
// because each of them now has a status of its own. The status in advance is kept while
// the backend may make more memories.
func (ret *effects) endPlannedStatus(memories int) []memproxy.StateChange {
	if memories == 0 || len(ret.reading.Events) > 0 && !ret.reading.Settles || len(ret.receipts) > 1 || ret.flaggedAs != "" || !ret.traceable() {
		return nil
	}
	c, ordinary := plannedStatus(ret.Admission, memproxy.MemoryKey{Backend: ret.op.Backend, Kind: memproxy.TargetDecision, ID: ret.Decision.ID}, nil)
	if ordinary {
		return nil
	}
	c.State, c.Reason, c.From, c.Attestation = memproxy.StateUntrusted, "its memories are known", nil, ""
	c.Text = memproxy.AnyText
	return []memproxy.StateChange{c}
}

// recordUnconfirmed fetches the targets of a change that the backend did not confirm, and
// records the change of those that have it. Otherwise a deleted memory could still be
// read where the backend keeps a copy, and a sweep would report an out-of-band change.
// The request may still change the other targets, so they are fetched again later
// (Options.Unconfirmed).
func (ret *answer) recordUnconfirmed(ctx context.Context) {
	if ret.op != nil && ret.edits != nil && !wroteNothing(ret.status) {
		recordEdits(ctx, ret)
		return
	}
	if ret.op == nil || !ret.enforced() || ret.op.Kind != memproxy.Forget && (ret.op.Kind != memproxy.Correct || wroteNothing(ret.status)) {
		return
	}
	op := *ret.op
	op.Targets = nil // those that the backend shows with the change; none if there are more than maxImages
	if len(ret.op.Targets) <= maxImages {
		found, _ := fetch(context.WithoutCancel(ctx), ret.call, ret.op.Targets)
		for _, id := range ret.op.Targets {
			if m, asked := found[id]; asked && tamper.IsAsLeftBy(ret.g.opt.Signer, ret.Principal.Tenant, ret.Decision.ID, ret.op.Kind, &m) {
				op.Targets = append(op.Targets, id)
			}
		}
	}
	if !wroteNothing(ret.status) && len(op.Targets) < max(1, len(ret.op.Targets)) {
		ret.g.opt.Unconfirmed(ret.event)
	}
	if len(op.Targets) == 0 {
		return
	}
	a := *ret.Admission
	op.Items = slices.DeleteFunc(slices.Clone(op.Items), func(it memproxy.Item) bool {
		return it.Target != "" && !slices.Contains(op.Targets, it.Target)
	})
	a.op = &op
	a.changedMemories = slices.DeleteFunc(slices.Clone(a.changedMemories), func(w changedMemory) bool { return !slices.Contains(op.Targets, w.target) })
	done := &effects{answer: &answer{Admission: &a, g: ret.g, status: 200}}
	settleChange(ctx, ret.g, &a)
	if op.Kind == memproxy.Correct {
		done.recordChanged()
	} else {
		done.recordDeleted(ctx)
	}
	done.commitEffects(ctx, nil)
	ret.shown = done.shown
}

func (a *Admission) needsReview() bool {
	return a.rules.Pending != nil && a.rules.Pending(a.Principal, a.op.SourceClaim, a.track, a.begun)
}

// lifetime returns the shortest lifetime of a memory in fields. A claim of another layer
// can only shorten it.
func lifetime(a *Admission, fields []string, source memproxy.Source) (ttl time.Duration) {
	if a.rules.TTL == nil {
		return 0
	}
	for _, field := range fields {
		ttl = memproxy.Shorter(ttl, a.rules.TTL(field, layerOf(a, field), source))
		for _, claimed := range a.op.LayerClaims {
			ttl = memproxy.Shorter(ttl, a.rules.TTL(field, claimed, source))
		}
	}
	return ttl
}

// fieldsOf returns all governed fields of a new memory, its own one first: those in the
// answer, else those in the write.
func fieldsOf(op *memproxy.Operation, m *memproxy.Memory) []string {
	it := memproxy.Item{Field: m.Field, OtherFields: m.OtherFields}
	for i := range op.Items {
		if in := &op.Items[i]; m.Field == "" && (in.Field != "" || len(in.OtherFields) > 0) {
			it.OtherFields = append(it.OtherFields, in.Written()...)
		}
	}
	return it.Written()
}

// lateExpiry returns the expiry of a memory that was made after its write was answered,
// by what its stamp says, or false if it does not expire.
func lateExpiry(ret *answer, m *memproxy.Memory, s *memproxy.Stamp) (memproxy.StateChange, bool) {
	if ret.rules.TTL == nil {
		return memproxy.StateChange{}, false
	}
	var ttl time.Duration
	for _, field := range (&memproxy.Item{Field: m.Field, OtherFields: m.OtherFields}).Written() {
		layer := ret.rules.Governance.LayerOf(&memproxy.Item{Kind: memproxy.ItemContent, Field: field})
		ttl = memproxy.Shorter(ttl, ret.rules.TTL(field, layer, s.Source))
	}
	return memproxy.StateChange{
		MemoryKey: memproxy.MemoryKey{Backend: ret.op.Backend, Kind: memproxy.TargetMemory, ID: m.ID}, Tenant: s.Tenant,
		State: memproxy.StateUntrusted, From: []memproxy.MemoryState{memproxy.StateUntrusted},
		Decision: s.ID, Attestation: s.Attestation, Text: memproxy.Hash(m.Text), Expires: s.Time.Add(ttl),
	}, ttl > 0
}

// codesOf returns the codes of reasons, sorted and without duplicates.
func codesOf(reasons []memproxy.Reason) []string {
	out := memproxy.Codes(reasons)
	slices.Sort(out)
	return out
}

// attestationOf returns how well the source of the written content is known.
func (a *Admission) attestationOf(marks []string) memproxy.Attestation {
	switch {
	case a.confirmed:
		return memproxy.HumanConfirmed
	case slices.Contains(marks, string(memproxy.LayerInferred)):
		return memproxy.Inferred
	}
	return cmp.Or(a.attestation, memproxy.SelfReported)
}

// marksOf returns the mark codes of a memory that a write made: its own, else those of
// the write.
func (ret *answer) marksOf(id string) []string {
	if own, ok := ret.marksByID[id]; ok {
		return own
	}
	return ret.marks
}

func layerOf(a *Admission, field string) memproxy.Layer {
	for i := range a.op.Items {
		if it := a.op.Items[i]; it.Kind == memproxy.ItemContent {
			it.Field = field
			return a.rules.Governance.LayerOf(&it)
		}
	}
	return memproxy.Semantic
}

// attributeTexts clears Inferred for the texts of a running agent's call that a user
// stated in the request that started the run, because the agent only writes them down.
func attributeTexts(r *evaluation, started *memproxy.Operation) {
	said := trust.UserStatements(started)
	for i := range r.op.Items {
		if it := &r.op.Items[i]; it.Inferred {
			it.Inferred = !said.States(it.Text)
		}
	}
}

// maxStatuses bounds the statuses of one state that are searched for memories that an
// answer could be derived from. If there are more, the answer counts as derived from one
// of them.
const maxStatuses = 1000

// refuseDerived refuses a read that the backend derives from many memories (a summary, an
// export, an agent's context) if one of them may be withheld or redacted for this
// caller, because a derived answer cannot be filtered memory by memory. If the rules never
// refuse, dangerous memories are stored among them.
func refuseDerived(ctx context.Context, r *evaluation) {
	if r.op.Kind != memproxy.Recall || !r.op.Derived {
		return
	}
	if r.rules.NeverRefuse {
		r.verdict.Forbid(memproxy.StateWithheld, "", "the response is derived from all memories, "+
			"including stored ones that must not be shown (memories.never_refuse)")
	}
	switch {
	case r.call.ReadOptions.MinTrust > 0:
		r.verdict.Forbid(memproxy.TrustBelow, "", "the response is derived from many memories, so a minimum confidence cannot be enforced")
	case mayReadWithheld(ctx, r.g, r.Admission):
		r.verdict.Forbid(memproxy.StateWithheld, "", "the response is derived from many memories, and some of them are withheld from this caller because of their status")
	case exportsDeleted(ctx, r):
		r.verdict.Forbid(memproxy.StateWithheld, "", "the export may contain memories that were deleted since; create a new export and get it by its id")
	}
}

// exportsDeleted reports whether an export may contain memories that were deleted after it
// was made. The age of one that is asked for by its owners is not known.
func exportsDeleted(ctx context.Context, r *evaluation) bool {
	if r.op.TargetKind != memproxy.TargetExport {
		return false
	}
	since, scope := time.Time{}, access.RestrictedTo(r.op)
	for _, id := range r.op.Targets {
		if row, known := r.owners[id]; known {
			since, scope = row.Written, row.Scope
		}
	}
	return deletedSince(ctx, r.g, r.Admission, since, scope)
}

// deletedSince reports whether memories of the caller's tenant and of owners, to which an
// operation is restricted, were deleted since a time, or may have been.
func deletedSince(ctx context.Context, g *Gate, a *Admission, since time.Time, scope memproxy.Scope) bool {
	for _, d := range memproxy.Dimensions {
		if scope.In(d) == access.AnyOwner {
			*scope.Owner(d) = ""
		}
	}
	gone, err := g.opt.Ledger.ListStatuses(ctx, memproxy.StatusFilter{Backend: a.op.Backend, Tenant: &a.Principal.Tenant, Deleted: &since, Within: scope})
	return err != nil || len(gone) > 0
}

// mayReadWithheld reports whether an answer that is derived from the memories of the
// operation's owners could contain one that is withheld or redacted for the caller.
func mayReadWithheld(ctx context.Context, g *Gate, a *Admission) bool {
	filters := []memproxy.StatusFilter{{Overdue: true}}
	for _, state := range memproxy.MemoryStates {
		if a.rules.display(state, a.Principal.Roles) != show {
			filters = append(filters, memproxy.StatusFilter{State: state})
		}
	}
	if a.rules.Changed == ChangedWithhold || a.rules.WithholdUntrusted && a.rules.Changed != ChangedIgnore {
		filters = append(filters, memproxy.StatusFilter{Unverified: true})
	}
	for _, f := range filters {
		f.Backend, f.Tenant, f.Limit = a.op.Backend, &a.Principal.Tenant, maxStatuses
		list, err := g.opt.Ledger.ListStatuses(ctx, f)
		if err != nil {
			return a.rules.WithholdUntrusted // without the ledger every memory is untrusted
		}
		if len(list) == maxStatuses || readsAny(ctx, g, a, f.State, list) {
			return true
		}
	}
	return false
}

// readsAny reports whether the operation may read one of the memories. Deleted
// memories, memories of other users, and the caller's own pending memories do not
// count.
func readsAny(ctx context.Context, g *Gate, a *Admission, state memproxy.MemoryState, list []memproxy.Status) bool {
	var keys []memproxy.MemoryKey
	for i := range list {
		st := &list[i]
		// A memory that is missing from the backend is in none of its answers.
		if st.Kind != memproxy.TargetEvent && st.Unverified != memproxy.IntegrityMissing && !plannedStatusOver(a, st) {
			keys = append(keys, st.MemoryKey)
		}
	}
	if len(keys) == 0 {
		return false
	}
	records, err := g.opt.Ledger.Lookup(ctx, keys...)
	if err != nil {
		return true
	}
	narrow := access.Narrowing(a.op)
	for _, k := range keys {
		rec := records.Of(k)
		row := &rec.Owner
		if own := rec.HasOwner() && row.Actor == a.Principal.ID && row.Scope.Tenant == a.Principal.Tenant; own && state == memproxy.StatePending {
			continue
		}
		if !rec.HasOwner() || !row.Deleted && !excludesUser(narrow, row.Scope.User) {
			return true
		}
	}
	return false
}

// resolveWithin bounds the time until the memories of a write are known.
const resolveWithin = 10 * time.Minute

// plannedStatusOver reports whether a status is the one stored in advance for a write's memories
// and is no longer needed: the memories have statuses themselves, or will never exist.
func plannedStatusOver(a *Admission, st *memproxy.Status) bool {
	if st.Kind != memproxy.TargetDecision {
		return false
	}
	return st.State == memproxy.StateUntrusted || st.State == memproxy.StatePending && a.begun.Sub(st.Changed) > resolveWithin
}

func excludesUser(narrow []*memproxy.Claim, user string) bool {
	return user != "" && slices.ContainsFunc(narrow, func(c *memproxy.Claim) bool {
		return c.Dim == memproxy.DimUser && !slices.Contains(c.Values, user)
	})
}

func attachedTargets(c *Call, op *memproxy.Operation) []string {
	if runner, ok := c.Backend.Adapter.(backend.AgentRunner); ok {
		return runner.Attaches(c.Route, op)
	}
	return nil
}

// agentsMayNotRead returns why a memory may not be attached to an agent: readers do not see it, or not
// all of it, and the agent would read it inside the backend. Reviewers and authors are refused too,
// because the reader is the agent.
func agentsMayNotRead(r *evaluation, rec *memproxy.Record, m *memproxy.Memory) *memproxy.Reason {
	shown, state := r.rules.displayTo(nil, rec, m)
	if rec.Owner.Deleted {
		shown, state = withhold, "deleted"
	}
	if shown == show {
		return nil
	}
	return &memproxy.Reason{Code: memproxy.StateWithheld, Pointer: "target:" + cmp.Or(m.ID, rec.Owner.ID), Detail: "the memory is " + state + " and may not be attached to an agent"}
}

// hiddenByStatus reports whether the caller would change, delete or attach another's memory that it
// does not see because it was deleted or because of its state. What is carried out after a review
// was seen.
func hiddenByStatus(r *evaluation, target string, rec *memproxy.Record, attached bool) bool {
	changed := r.op.Kind == memproxy.Correct || r.op.Kind == memproxy.Forget
	if !attached && !changed || r.mode == replay || r.mode == restore || access.MadeBy(&r.Principal, &rec.Owner) {
		return false
	}
	m, fetched := r.op.Current[target]
	if rec.Owner.Deleted { // the backend still has it, or again; one without an author can be deleted once more, and not changed
		return (rec.Owner.Actor != "" || r.op.Kind != memproxy.Forget) && (m.Text != "" || m.Members != nil)
	}
	shown, _ := r.rules.displayTo(&r.Principal, rec, &m)
	if state := rec.Status.State; !fetched { // in a dry run, or one of too many
		shown = r.rules.display(state, r.Principal.Roles)
		if untrusted := state == memproxy.StateUntrusted || state == ""; untrusted && len(r.op.Targets) <= maxImages {
			return false // it may be an object without a text
		}
	}
	return shown == withhold
}
