package gate

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/limits"
	"github.com/memproxy/memproxy/gate/seen"
	"github.com/memproxy/memproxy/gate/trust"
)

// bindLate records the owners of memories that were made after their write was
// answered (asynchronous extraction), by the decision in their stamps. Memories that the
// answer reports only as past events may have been deleted in the meantime, so they are
// fetched from the backend.
func bindLate(ctx context.Context, ret *answer) (refused bool, err error) {
	var late []*item
	var past []string
	e := examinerOf(ret.g, ret.Admission)
	for i := range ret.items {
		it := &ret.items[i]
		if ret.toWrite || it.Drop || it.row != nil || it.Memory.TargetKind() != memproxy.TargetMemory || it.ID == "" || !ret.signed(it.Memory) || e.IsCopiedStamp(ctx, nil, it.Memory) {
			continue
		}
		if m := ret.op.Current[it.ID]; m.Missing {
			it.statusUnknown = "the memory was deleted before its addition was read"
		}
		if ret.targetsChecked && slices.Contains(ret.op.Targets, it.ID) {
			continue
		}
		late = append(late, it)
		if it.Event != "" && !slices.Contains(past, it.ID) {
			past = append(past, it.ID)
		}
	}
	// Those that the backend does not answer for are not found.
	found, _ := fetch(ctx, ret.call, past[:min(len(past), limits.MaxUnknown)])
	for _, it := range late {
		switch m, asked := found[it.ID]; {
		case it.Event == "" || asked && !m.Missing:
			bindOne(ret, it)
		case !asked:
			it.statusUnknown = "it is unknown whether the memory still exists, so it is withheld"
		default:
			it.statusUnknown = "the memory was deleted before its addition was read"
		}
	}
	return false, nil
}

func idsOfAll(memories []memproxy.Memory) (ids []string) {
	for i := range memories {
		ids = append(ids, memories[i].ID)
	}
	return ids
}

// bindOne adds the owner, first version and expiry of a memory to the late entry. Its
// author is the one in its stamp, which was verified.
func bindOne(ret *answer, it *item) {
	m, s := it.Memory, *it.Stamp
	s.Tenant = ret.Principal.Tenant
	owner := OwnerFromStamp(ret.op.Backend, m, s.Tenant)
	it.boundTo = &owner
	ret.lateEntry.Owners = append(ret.lateEntry.Owners, owner)
	ret.lateEntry.Versions = append(ret.lateEntry.Versions, memproxy.Version{
		MemoryKey: memproxy.MemoryKey{Backend: ret.op.Backend, Kind: memproxy.TargetMemory, ID: m.ID},
		Tenant:    s.Tenant, Op: memproxy.OpWrite, Actor: s.Actor, Trust: s.Trust, Confidence: s.Confidence,
		Attestation: s.Attestation, Decision: s.ID, Score: s.Score,
		Text: m.Text, Field: m.Field, Metadata: m.Metadata,
	})
	c, ends := lateExpiry(ret, m, &s)
	if !ends {
		return
	}
	if !c.Expires.After(ret.begun) {
		it.statusUnknown = "the memory expired before it was first read"
	}
	ret.lateEntry.States = append(ret.lateEntry.States, c)
	// The expiry is also for a memory that has a status already, such as a contested one.
	again := memproxy.Renewal{MemoryKey: c.MemoryKey, Expires: c.Expires, Sooner: true}
	ret.lateEntry.Renewed = append(ret.lateEntry.Renewed, again)
}

// receipts replaces the receipt of a write that was set aside by one that says whether it
// was written and with what status, but not its content.
func receipts(_ context.Context, ret *answer) (refused bool, err error) {
	extractor, ok := ret.call.Backend.Adapter.(backend.Extractor)
	if !ok {
		return false, nil
	}
	for i := range ret.items {
		it := &ret.items[i]
		if it.display != withhold || it.statusUnknown != "" || it.Drop || it.Memory.TargetKind() != memproxy.TargetEvent || it.Pointer != "" {
			continue
		}
		memories, state, err := extractor.ReadExtracted(ret.reply)
		h := memproxy.HeldWrite{ID: it.ID, Created: it.rec.Status.Changed, State: state}
		if state != memproxy.HoldPending {
			h.Reviewed, h.Result.Memories = h.Created, idsOfAll(memories)
		}
		ret.reply = extractor.ReceiptReply(ret.call.Route, ret.call.Request, h)
		ret.shown = append(ret.shown, it.ID)
		return true, err
	}
	return false, nil
}

// related rules on totals and relations, which are derived from memories without
// naming them. They are shown if all those memories are of owners of the tenant that the
// caller may name. Relations are not shown if one of them looks like an attack, or if a
// memory of the answer is withheld, from which they may be drawn.
func related(ctx context.Context, ret *answer) (refused bool, err error) {
	ret.reading.CountsOthers, ret.reading.Limited = !oneOwner(ret), !access.Confined(&ret.Principal, ret.op)
	if len(ret.reading.Relations) == 0 {
		return false, nil
	}
	withheld := slices.ContainsFunc(ret.reading.Memories, func(m memproxy.Memory) bool { return m.Drop })
	if ret.reading.Unrelated = ret.reading.CountsOthers || ret.reading.Limited || withheld; ret.reading.Unrelated {
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.OwnerFiltered, Detail: "relations that may be of other owners' or withheld memories were removed from the response"})
		return false, nil
	}
	ret.reading.Unrelated, err = attacks(ctx, ret, ret.reading.Relations)
	if ret.reading.Unrelated {
		ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.ScreenWithheld, Detail: "relations that look like attacks were removed from the response"})
	}
	return false, err
}

// derived refuses an answer that is made of many memories if a text in it looks like an
// attack, or if it may be older than the deletion of one of them. A memory that was written
// out-of-band, which reads would withhold, cannot be removed from such an answer.
func derived(ctx context.Context, ret *answer) (refused bool, err error) {
	if refused, err = attacks(ctx, ret, ret.reading.Derived); refused && err == nil {
		ret.refuse(memproxy.StatusForbidden, memproxy.ScreenWithheld, "the response is derived from many memories and contains a suspected attack")
	}
	if made := ret.reading.Made; made != nil && !refused && err == nil && deletedSince(ctx, ret.g, ret.Admission, *made, access.RestrictedTo(ret.op)) {
		ret.refuse(memproxy.StatusForbidden, memproxy.StateWithheld, "the response may contain memories that were deleted since it was made; regenerate it")
		return true, nil
	}
	return refused, err
}

func attacks(ctx context.Context, ret *answer, texts []string) (bool, error) {
	if ret.rules.Withhold <= 0 {
		return false, nil
	}
	memories := make([]memproxy.Memory, len(texts))
	for i, text := range texts {
		memories[i].Text = text
	}
	found, err := ret.judge(ctx, memories)
	for _, j := range found {
		if j.risk >= ret.rules.Withhold {
			return true, err
		}
	}
	return false, err
}

// oneOwner reports whether the backend made an answer only from memories of the caller's
// tenant: the backend has no other tenant, or the operation is narrowed to owners that
// the ledger records as the tenant's and nothing in the answer contradicts that.
func oneOwner(ret *answer) bool {
	if ret.singleTenant() {
		return true
	}
	if ret.ownersUnknown || len(ret.op.Masked) > 0 || ret.leftovers.unreadable > 0 || slices.ContainsFunc(ret.reasons, func(why memproxy.Reason) bool { return why.Code == memproxy.OwnerFiltered }) {
		return false
	}
	pinned := false
	for _, c := range access.Narrowing(ret.op) {
		for _, name := range c.Values {
			row := ret.namedRecords.owner(memproxy.TargetEntity, memproxy.OwnerID(c.Dim, name))
			if row == nil || row.Scope.Tenant != ret.Principal.Tenant {
				return false
			}
			pinned = true
		}
	}
	return pinned
}

// foreignIDs removes from an answer the objects that the ledger records as another
// tenant's: an identity attached to an agent, a tool, a member of a group. The
// memories of the answer were ruled on before.
func foreignIDs(ctx context.Context, ret *answer) (refused bool, err error) {
	lister, ok := ret.call.Backend.Adapter.(backend.AgentRunner)
	if !ok || !ret.Inspect || ret.singleTenant() || !memproxy.IsSuccess(ret.reply.Status) || len(bytes.TrimSpace(ret.reply.Body)) == 0 {
		return false, nil
	}
	refs, err := lister.Names(ret.call.Route, ret.reply)
	if err != nil {
		return false, err
	}
	theirs, err := lookUpForeign(ctx, ret, refs)
	if err != nil {
		return false, fmt.Errorf("look up the owners of the objects in the response: %w", err)
	}
	var gone []string
	for i := range refs {
		if theirs[ret.lookups().key(refs[i].Kind, refs[i].ID)] {
			gone = append(gone, refs[i].Pointer)
		}
	}
	if len(gone) == 0 {
		return false, nil
	}
	ret.filtered += len(gone)
	ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.OwnerFiltered, Detail: "data of other tenants was removed from the response"})
	if slices.Contains(gone, "") { // the pointer of the whole answer
		ret.refuse(memproxy.StatusNotFound, memproxy.OwnerUnknown, "not found in this caller's tenant")
		return true, nil
	}
	body, err := lister.RemovePointers(ret.reply, gone)
	if err != nil {
		return false, err
	}
	ret.reply.Body = body
	return false, nil
}

// maxStreamObjects bounds the objects of a stream that are remembered.
const maxStreamObjects = 4096

// lookUpForeign looks up which of the objects are another tenant's. In a stream each
// object is looked up once, because its events repeat the same run and message.
func lookUpForeign(ctx context.Context, ret *answer, refs []memproxy.Ref) (map[memproxy.MemoryKey]bool, error) {
	m := map[memproxy.MemoryKey]bool{}
	if ret.isEvent {
		if ret.streamObjects == nil || len(ret.streamObjects) > maxStreamObjects {
			ret.streamObjects = m
		}
		m = ret.streamObjects
	}
	known := ret.lookups()
	var ask []memproxy.MemoryKey
	for i := range refs {
		k := known.key(refs[i].Kind, refs[i].ID)
		if _, is := m[k]; !is {
			ask = append(ask, k)
		}
	}
	if err := known.need(ctx, ask...); err != nil {
		return nil, err
	}
	for _, k := range ask {
		row := known.owner(k.Kind, k.ID)
		m[k] = row != nil && row.Scope.Tenant != ret.Principal.Tenant
	}
	return m, nil
}

// secrets removes secrets from ordinary answers, and for callers who may not administer
// the backend everything else that only administrators are shown.
func secrets(ctx context.Context, ret *answer) (refused bool, err error) {
	w, ok := ret.call.Backend.Adapter.(backend.AgentRunner)
	if !ok || !ret.Inspect || !memproxy.IsSuccess(ret.reply.Status) || len(ret.reply.Body) == 0 || ret.op.Kind == memproxy.Admin || ret.op.Administers {
		return false, nil
	}
	body := ret.reply.Body
	if ret.reply.Body, err = w.Withhold(ret.call.Route, body, false); err != nil || bytes.Equal(ret.reply.Body, body) {
		return false, err
	}
	op := *ret.op
	op.Kind = memproxy.Admin
	if ruling, no := ret.rules.Policy.Rule(ctx, ret.asking(&op)); no == nil && !ruling.Verdict.Stops() {
		ret.reply.Body, err = w.Withhold(ret.call.Route, body, true)
	}
	return false, err
}

// recordToolResults records the results of tools that are shown to the caller, as possible sources
// of its later writes. The caller's own texts, in its request or in the arguments of its
// agent's calls, are not a source, even if a tool repeats them. Neither is a text that
// the caller may have said but that is no longer remembered, nor the result of a call
// that memproxy did not see.
func recordToolResults(_ context.Context, ret *answer) (refused bool, err error) {
	who := readerOf(ret.Admission)
	o, ok := ret.call.Backend.Adapter.(backend.AgentRunner)
	if !ok || who.Session == "" || ret.op == nil || !ret.enforced() {
		return false, nil
	}
	if ret.op.Kind != memproxy.Recall {
		var own []string
		for i := range ret.op.Items {
			own = append(own, ret.op.Items[i].Text)
		}
		ret.g.readers.RecordOwn(who, own)
	}
	if ret.op.Kind != memproxy.Run || !memproxy.IsSuccess(ret.reply.Status) {
		return false, nil
	}
	if ret.toolObserver == nil {
		ret.toolObserver, ret.calls = o.ObserveTools(ret.call.Route), map[string]bool{}
	}
	calls, results := ret.toolObserver.Observe(ret.reply.Body)
	for _, c := range calls {
		// The result of a call whose id is used twice, or whose arguments are unclear, is
		// no source.
		if _, again := ret.calls[c.Call]; again || len(ret.calls) < maxCalls {
			ret.calls[c.Call] = !again && !c.Unclear
		}
		if c.Unclear {
			ret.g.readers.SaidUnknown(who)
			continue
		}
		ret.g.readers.RecordOwn(who, c.Texts)
	}
	var all []trust.ShownText
	for _, r := range results {
		if r.Call == "" || ret.calls[r.Call] {
			all = append(all, ret.g.readers.WithoutOwn(who, r.Texts)...)
		}
	}
	ret.g.readers.RecordShown(who, all)
	return false, nil
}

// maxCalls bounds the calls of one turn whose results may be sources.
const maxCalls = 1024

func readerOf(a *Admission) seen.Reader {
	return seen.Reader{Tenant: a.Principal.Tenant, Principal: a.Principal.ID, Session: a.namedSession()}
}

// reportMissing reports a memory that was requested by its id and that the backend
// does not have, although it was not deleted through the proxy.
func reportMissing(ctx context.Context, ret *answer) {
	if ret.op.Kind != memproxy.Recall || ret.rules.Changed == ChangedIgnore || !isLocateRequest(ret.Admission, ret.op.Targets) {
		return
	}
	row, known := ret.owners[ret.op.Targets[0]] // visibility was ruled on before
	if !known {
		return
	}
	code, detail, _ := examinerOf(ret.g, ret.Admission).ExamineMissing(ctx, row.ID)
	if code == "" {
		return
	}
	ret.Unverified = append(ret.Unverified, row.ID)
	ret.reasons = append(ret.reasons, memproxy.Reason{Code: code, Rule: row.ID, Detail: detail})
}
