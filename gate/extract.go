package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/limits"
	"github.com/memproxy/memproxy/gate/trust"
)

var errUndo = errors.New("the backend did not undo the change")

type extraction struct {
	*answer
	extractor    backend.Extractor
	memories     []memproxy.Memory
	deletedEarly int64 // of memories: deleted with all that their owner has, before they were recorded
}

// checkExtracted checks the memories that the backend's model extracted from a write. A
// memory that is more dangerous than the write itself, and would have been refused or
// held as a write, is retracted and kept for review. The answer does not show it, and
// its record has the hashes of both texts.
func (ret *extraction) checkExtracted(ctx context.Context) error {
	if ret.extractor == nil || ret.op.Kind != memproxy.Learn {
		return nil
	}
	if err := ret.removeForeign(ctx); err != nil || ret.confirmed {
		return err
	}
	if err := ret.checkModelChanges(ctx); err != nil {
		return err
	}
	var found map[int]judged
	if ret.rules.Withhold > 0 {
		var err error
		if found, err = ret.judge(ctx, ret.memories); err != nil {
			return err
		}
	}
	var said trust.Statements
	if ret.op.Extracts { // otherwise every text is the caller's
		said = trust.UserStatements(ret.op)
	}
	for i := range ret.memories {
		m := &ret.memories[i]
		if m.Drop || m.Event == memproxy.MemoryUnchanged || m.Event == memproxy.MemoryDeleted {
			continue
		}
		worse, err := ret.worseThanWrite(ctx, m, found[i])
		switch {
		case worse:
			why := memproxy.Reason{Code: memproxy.ScreenExtracted}
			ret.retract(ctx, m, why)
			ret.holdExtracted(ctx, *m, found[i], why)
		case err == nil && ret.op.Extracts && m.Text != "" && (m.Inferred || !said.States(m.Text)):
			err = ret.ruleOnInferred(ctx, m, found[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// worseThanWrite reports whether an extracted memory is more dangerous than its write: whether
// the policy that ruled on the write would have stopped it for its content if the caller
// had written it. A memory that every answer would withhold is worse whatever the policy
// says.
func (ret *extraction) worseThanWrite(ctx context.Context, m *memproxy.Memory, j judged) (bool, error) {
	input, secret := memproxy.Risk(ret.findings), slices.ContainsFunc(ret.findings, memproxy.Finding.IsSecret)
	if leaks := !secret && slices.ContainsFunc(j.spans, memproxy.Finding.IsSecret); j.risk <= input && !leaks {
		return false, nil
	}
	if j.risk > input && j.risk >= ret.rules.Withhold {
		return true, nil
	}
	q := ret.inferredFact(m, j)
	q.Operation.Items[0].Inferred, q.Operation.Items[0].Role = false, ""
	ruling, err := ret.rules.Policy.Rule(ctx, q)
	return err == nil && ruling.Verdict.Stops() && aboutScreening(ruling.Reasons), err
}

// retract removes a memory from the backend and from the answer. The reason that it adds
// to the outcome reports whether that succeeded.
func (ret *extraction) retract(ctx context.Context, m *memproxy.Memory, why memproxy.Reason) {
	m.Drop = true
	what := "undone"
	if err := ret.undo(ctx, *m); err != nil {
		what = "not undone"
		ret.notRetracted++
		ret.g.opt.Log.ErrorContext(ctx, "a refused memory of the backend's model could not be retracted", "decision", ret.Decision.ID, "memory", memproxy.InertID(m.ID), "error", err)
	} else if m.Event != memproxy.MemoryUpdated { // a tombstone: receipts and histories still have its text
		gone := ret.lookups().owner(memproxy.TargetMemory, m.ID)
		if gone == nil {
			gone = new((&effects{answer: ret.answer}).newOwner(memproxy.TargetMemory, m.ID))
		}
		gone.Deleted = true
		_ = commit(ctx, ret.g, &ret.Decision, memproxy.Entry{Owners: []memproxy.Ownership{*gone}}, "the retraction of a memory could not be recorded") // commit logs the error
	}
	why.Detail = fmt.Sprintf("the backend's model derived sha256 %s from sha256 %s: %s", memproxy.Hash(m.Text), ret.event.ContentSHA256, what)
	ret.reasons = append(ret.reasons, why)
}

func (ret *extraction) undo(ctx context.Context, m memproxy.Memory) error {
	backend := &ret.call.Backend
	requests, known := ret.extractor.Undo(ret.call.Route, ret.call.Request, m)
	if backend.Fetch == nil || !known {
		return errUndo
	}
	ctx, cancel := backend.Within(context.WithoutCancel(ctx))
	defer cancel()
	for _, q := range requests {
		q.Request.Header, q.Request.Base = ret.call.Request.Header, ret.call.Request.Base
		reply, err := backend.Fetch.Send(ctx, q.Request, q.Body)
		if err != nil {
			return err
		}
		if !memproxy.IsSuccess(reply.Status) && reply.Status != memproxy.StatusNotFound {
			return fmt.Errorf("%w: status %d", errUndo, reply.Status)
		}
	}
	return nil
}

// FollowUpRequests returns the requests for the memories that the backend extracts from
// an admitted write asynchronously. The listener repeats them until ReadFollowUp reports
// the end.
func (g *Gate) FollowUpRequests(a *Admission) []memproxy.Request {
	if len(a.countRequests) > 0 && a.bill.open() {
		return a.countRequests
	}
	extractor, ok := a.call.Backend.Adapter.(backend.Extractor)
	if !ok || !a.enforced() {
		return nil
	}
	out := make([]memproxy.Request, len(a.receipts))
	for i, id := range a.receipts {
		out[i] = extractor.Receipt(a.call.Route, a.call.Request, id)
	}
	return out
}

// followReceipt asks the backend for the result of an approved write that it answered with a
// receipt of its own. Until the result is known, the write counts as being sent.
func followReceipt(ctx context.Context, r *evaluation, extractor backend.Extractor) {
	b, h := &r.call.Backend, r.polledHold
	ctx, cancel := b.Within(ctx)
	defer cancel()
	own, known, err := r.g.opt.Ledger.Decision(ctx, h.Backend, h.ID)
	if b.Fetch == nil || err == nil && (!known || own.Kind != memproxy.TargetEvent) {
		return
	}
	var reply memproxy.Reply
	if err == nil {
		reply, err = b.Fetch.Fetch(ctx, extractor.Receipt(r.call.Route, r.call.Request, own.ID))
	}
	made, state, unread := extractor.ReadExtracted(reply)
	if err != nil || unread != nil || state == memproxy.HoldPending {
		state = memproxy.HoldReplaying
	}
	if reply.Status != memproxy.StatusNotFound {
		h.State = state
	}
	h.Result.Memories = append(h.Result.Memories, idsOfAll(made)...)
}

// ReadFollowUp takes the answer to one of FollowUpRequests, and reports whether it is
// final.
func (g *Gate) ReadFollowUp(ctx context.Context, a *Admission, reply memproxy.Reply) (over bool) {
	if counter, ok := a.call.Backend.Adapter.(backend.AgentRunner); ok && len(a.countRequests) > 0 {
		return g.accounts.settleCounted(ctx, a, counter, reply)
	}
	extractor, ok := a.call.Backend.Adapter.(backend.Extractor)
	if !ok || !memproxy.IsSuccess(reply.Status) {
		return !ok || reply.Status == memproxy.StatusNotFound
	}
	memories, state, err := extractor.ReadExtracted(reply)
	over = state != memproxy.HoldPending
	ret := &extraction{answer: &answer{Admission: a, g: g, reply: reply, status: reply.Status}, extractor: extractor, memories: memories}
	if err == nil && over {
		err = ret.checkExtracted(ctx)
	}
	if err != nil {
		g.opt.Log.ErrorContext(ctx, "the memories made from a write could not be screened", "decision", a.Decision.ID, "error", err)
		if len(ret.reasons) == 0 {
			return false // nothing was retracted yet, so the request can be repeated
		}
	} else {
		ret.recordLate(ctx)
	}
	if over {
		ret.settleLater(ctx)
	}
	if len(ret.reasons) > 0 {
		g.recordOutcome(ctx, ret.answer)
	}
	return over
}

// removeForeign removes from an addition's answer the events about other tenants'
// memories, because they show present and previous texts. It undoes changes of such
// memories. Deletions cannot be undone and are only reported. If the ledger is
// unavailable it removes all events about existing memories, and returns an error if one
// of them was changed, because its author is unknown.
func (ret *extraction) removeForeign(ctx context.Context) error {
	if !ret.enforced() {
		return nil
	}
	known := ret.lookups()
	var keys []memproxy.MemoryKey
	var bare []memproxy.Memory
	for i := range ret.memories {
		if m := &ret.memories[i]; m.ID != "" && !m.Drop {
			keys = append(keys, known.key(memproxy.TargetMemory, m.ID))
			if !ret.singleTenant() {
				bare = append(bare, ret.withOwners(m))
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	v := ret.viewer(ret.g.opt.Signer, known)
	err := v.lookUp(ctx, nil, bare, keys...)
	var unknown error // why the author of a changed memory is unknown
	for i := range ret.memories {
		m := &ret.memories[i]
		row := known.owner(memproxy.TargetMemory, m.ID)
		old := m.Event != "" && m.Event != memproxy.MemoryAdded
		placed := ret.withOwners(m)
		switch {
		case m.ID == "" || m.Drop || err != nil && !old:
		case err != nil:
			m.Drop = true
			if m.Event != memproxy.MemoryUnchanged {
				unknown = err
			}
		case row != nil && row.Scope.Tenant != ret.Principal.Tenant, row == nil && old && !ret.singleTenant() && v.Descent(&placed) == access.Foreign:
			ret.rejectForeign(ctx, m)
		}
	}
	return unknown
}

// withOwners returns a memory with the addition's owners if its event names none.
func (ret *extraction) withOwners(m *memproxy.Memory) memproxy.Memory {
	placed := *m
	if !placed.Scope.HasOwner() {
		placed.Scope = ret.op.Scope
	}
	return placed
}

func (ret *extraction) rejectForeign(ctx context.Context, m *memproxy.Memory) {
	why := memproxy.Reason{Code: memproxy.OwnerForeign, Rule: m.ID}
	switch m.Event {
	case memproxy.MemoryUpdated:
		ret.retract(ctx, m, why)
		return
	case memproxy.MemoryDeleted:
		why.Detail = "the backend's model deleted a memory of another tenant"
		ret.g.opt.Log.ErrorContext(ctx, why.Detail, "decision", ret.Decision.ID, "memory", memproxy.InertID(m.ID))
	default:
		why.Detail = "an entry about a memory of another tenant was removed from the response"
	}
	m.Drop = true
	ret.filtered++
	ret.reasons = append(ret.reasons, why)
}

// ruleOnInferred asks the policy about a fact that the backend's model inferred: no user
// stated it in the write. A fact that is denied or held is retracted, and a held one
// waits for review together with its write. A marked fact is marked in the ledger,
// because the stamp covers the whole write.
func (ret *extraction) ruleOnInferred(ctx context.Context, m *memproxy.Memory, j judged) error {
	q := ret.inferredFact(m, j)
	for i := range q.Findings {
		q.Findings[i].Score = 0 // worse ruled on the risk
	}
	ruling, err := ret.rules.Policy.Rule(ctx, q)
	if err != nil {
		return err
	}
	ret.reasons = append(ret.reasons, ruling.Shadow...)
	switch {
	case ruling.Verdict.Stops():
		ret.retract(ctx, m, ruling.Reasons[0])
		if ruling.Verdict == memproxy.Hold {
			ret.holdExtracted(ctx, *m, j, ruling.Reasons[0])
		}
	case len(ruling.Marks) > 0:
		if ret.marksByID == nil {
			ret.marksByID = map[string][]string{}
		}
		ret.marksByID[m.ID] = codesOf(ruling.Marks)
		for _, why := range ruling.Marks {
			ret.reasons = append(ret.reasons, memproxy.Reason{Code: why.Code, Rule: why.Rule, Pointer: m.Pointer, Detail: why.Detail})
		}
	}
	return nil
}

// inferredFact returns the policy question about a fact that a model inferred, with the
// findings in it.
func (ret *extraction) inferredFact(m *memproxy.Memory, j judged) memproxy.Question {
	fields := fieldsOf(ret.op, m)
	q := ret.asking(&memproxy.Operation{
		Kind: memproxy.Learn, Backend: ret.op.Backend, Route: ret.op.Route, Scope: ret.op.Scope, SourceClaim: ret.op.SourceClaim, LayerClaims: ret.op.LayerClaims,
		Items: []memproxy.Item{{
			Kind: memproxy.ItemContent, Pointer: m.Pointer, Text: m.Text, Field: fields[0], OtherFields: fields[1:], Layer: layerOf(ret.Admission, ""), Role: "assistant", Inferred: true,
		}},
	})
	q.Confidence = max(0, ret.event.Confidence)
	q.Claimed, q.Findings = q.Confidence, slices.Clone(j.spans)
	for i := range q.Findings {
		q.Findings[i].Item = 0
	}
	return q
}

// recordLate records the memories that the backend reported after the write, as if the
// answer had contained them, except those that were deleted or rewritten meanwhile.
func (ret *extraction) recordLate(ctx context.Context) {
	known := newLookups(ret.g, ret.Admission)
	var gone map[string]memproxy.Memory
	// Everything of some owner may have been deleted meanwhile.
	if at := ret.g.scopeDeleted.Load(); at != nil && !at.Before(ret.begun) {
		gone, _ = fetch(ctx, ret.call, idsOfAll(ret.memories[:min(len(ret.memories), limits.MaxUnknown)]))
	}
	_ = known.memories(ctx, ret.memories) // after an error they count as unchanged
	ret.reading = &memproxy.Reading{Memories: slices.DeleteFunc(slices.Clone(ret.memories), func(m memproxy.Memory) bool {
		row := known.owner(m.TargetKind(), m.ID)
		rewritten := row != nil && m.Event != memproxy.MemoryUpdated && row.Decision != ret.Decision.ID && row.SHA256 != memproxy.Hash(m.Text)
		if row == nil && gone[m.ID].Missing && !m.Drop && m.Event == memproxy.MemoryAdded {
			ret.deletedEarly++
		}
		return m.Drop || rewritten || row != nil && row.Deleted || gone[m.ID].Missing
	})}
	if made := (&effects{answer: ret.answer}); len(ret.reading.Memories) > 0 {
		_ = commit(ctx, ret.g, &ret.Decision, memproxy.Entry{States: made.newStates()}, "the status of new memories could not be recorded") // commit logs the error
		made.recordAdded(ctx)
		made.commitEffects(ctx, nil)
	}
}

// settleCounted reads the answer to one of FollowUpRequests. The last one settles the bill.
func (acc *accounts) settleCounted(ctx context.Context, a *Admission, counter backend.AgentRunner, reply memproxy.Reply) (over bool) {
	if reply.Status == memproxy.StatusNotFound {
		reply = memproxy.Reply{Status: reply.Status} // deleted meanwhile: it contains nothing
	} else if !memproxy.IsSuccess(reply.Status) {
		return false
	}
	more, over, err := counter.ReadCount(reply)
	if err != nil {
		acc.opt.Log.WarnContext(ctx, "the number of memories of a write cannot be read; the estimate remains charged", "decision", a.Decision.ID, "error", err)
		return true
	}
	if !over {
		return false
	}
	if last, n := a.bill.count(made{added: more}, -1); last {
		acc.settleTo(ctx, a, n.added, n.added)
	}
	return true
}
