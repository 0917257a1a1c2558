package gate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/content"
)

// RefuseHold makes a refusal of the decision on a write that cannot wait for review: there
// are not enough reviewers, or too many writes of the caller, or of its end user, are
// waiting. Any other error is not one of these.
func RefuseHold(d *memproxy.Decision, err error) bool {
	if no, full := errors.AsType[*memproxy.HoldLimitError](err); full {
		line := memproxy.Line{Reason: memproxy.HoldQueue, Key: no.Key, Window: memproxy.WindowTotal, Limit: int64(no.Limit)}
		d.Allowance = &memproxy.Allowance{Lines: []memproxy.LineState{{Line: line, Used: int64(no.Limit)}}}
		d.Refuse(memproxy.StatusTooMany, memproxy.Reason{Code: memproxy.HoldQueue, Rule: no.Key, Detail: fmt.Sprintf(
			"the limit of %d writes awaiting review is reached; decide on some of them (memproxy holds list) or raise %s", no.Limit, no.Setting)})
	} else if errors.Is(err, memproxy.ErrNoReviewer) {
		d.Refuse(memproxy.StatusForbidden, memproxy.Reason{Code: memproxy.HoldReviewer, Detail: "the write requires review, and not enough reviewers are configured; see review.reviewers"})
	} else {
		return false
	}
	return true
}

// canWait reports whether a request can be sent once a reviewer has approved it: what it
// does is then still wanted, and its body is kept.
func canWait(r *evaluation) bool {
	return !r.call.NoMemoryAccess && (writes(r) || r.op.Kind == memproxy.Admin && !safe(r.call.Request.Method))
}

func isHeld(r *evaluation) bool {
	return r.Decision.Verdict == memproxy.Hold && r.g.opt.Holds != nil && r.op != nil
}

// hold stores a held write, encrypted, and composes the answer. The decision is on
// record already, so a write that cannot be stored is refused. A tool call is
// stored as the equivalent client request, to be sent once it is approved; without
// such a request it is not stored.
func hold(ctx context.Context, r *evaluation) error {
	g := r.g
	a, w := r.Admission, r.reworded
	if isToolCall(r) {
		if a, w = asClientRequest(r), nil; a == nil {
			g.accounts.release(ctx, r.Admission)
			why := memproxy.Reason{Code: memproxy.HoldReviewer, Detail: "the call cannot be held for review, because it cannot be repeated later"}
			r.Decision.Reasons = append([]memproxy.Reason{why}, r.Decision.Reasons...)
			return nil
		}
	}
	held, content := heldWriteOf(a, w)
	if err := storeHold(ctx, g, held, content); err != nil {
		if !RefuseHold(&r.Decision, err) {
			g.opt.Meter.LedgerFailed(ctx)
			return err
		}
		g.accounts.release(ctx, r.Admission)
		g.recordOutcome(ctx, &answer{Admission: r.Admission, g: g, reasons: r.Decision.Reasons})
		return answerRefused(ctx, r)
	}
	g.opt.Steps.At(memproxy.StepHoldKept)
	if reply, ok := heldReply(r); ok {
		r.Reply = &reply
	}
	return nil
}

// heldReply returns the answer to a held write in a form that the backend's clients know. It
// returns false if there is none; the write is then refused.
func heldReply(r *evaluation) (memproxy.Reply, bool) {
	if r.g.opt.RefuseHolds || r.op == nil || isToolCall(r) {
		return memproxy.Reply{}, false
	}
	return r.call.Backend.Adapter.HeldReply(r.call.Route, r.call.Request, r.op, r.Decision)
}

// storeHold stores a write for reviewers, even if the caller has disconnected.
func storeHold(ctx context.Context, g *Gate, h memproxy.HeldWrite, content memproxy.HoldContent) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.StoreTimeout)
	defer cancel()
	return g.opt.Holds.Put(ctx, h, content)
}

// asClientRequest converts a tool call to the equivalent client request; nil: there is none.
func asClientRequest(r *evaluation) *Admission {
	if r.tool.Direct == nil {
		return nil
	}
	req := r.tool.Direct.Request
	req.Header = headersToKeep(r.call.Request.Header)
	req.Header["Content-Type"] = []string{"application/json"}
	route, known := r.call.Backend.Adapter.Route(req)
	if !known {
		return nil
	}
	c, as := *r.call, *r.Admission
	c.Request, c.Route, c.Body = req, route, r.tool.Direct.Body
	as.call = &c
	return &as
}

// keptHeaders are the headers that are stored with a held write: those that
// determine how the body is parsed and which API version applies. Never a
// credential.
var keptHeaders = [...]string{"Content-Type", "Accept", "X-Mem0-Mode", "X-Stainless-Package-Version", "User_id", "X-Project", "X-Project-Id"}

func headersToKeep(of memproxy.Header) memproxy.Header {
	kept := memproxy.Header{}
	for _, name := range keptHeaders {
		if v := of[name]; len(v) > 0 {
			kept[name] = v
		}
	}
	return kept
}

// heldWriteOf returns what is stored of a held call, and of its rewritten form.
func heldWriteOf(a *Admission, w *reworded) (memproxy.HeldWrite, memproxy.HoldContent) {
	c := a.call
	h := memproxy.HeldWrite{
		ID: a.Decision.ID, Backend: c.Backend.Name, Route: c.Route.ID, Method: c.Request.Method, EscapedPath: c.Request.EscapedPath,
		Tenant: a.Principal.Tenant, Principal: a.Principal.ID, Trust: a.Principal.Trust, Session: a.event.Session,
		Scope: scopeOf(a), Kind: a.op.Kind, Reasons: a.Decision.Recorded(), Findings: a.findings, Policy: a.Decision.Policy,
		ContentSHA256: a.event.ContentSHA256, Created: a.begun, State: memproxy.HoldPending, Score: memproxy.Risk(a.findings),
	}
	said := memproxy.HoldContent{
		Query:   c.Request.Query,
		Body:    c.Body,
		Header:  headersToKeep(c.Request.Header),
		Author:  new(a.Principal),
		Objects: map[string]string{},
		Before:  map[string]string{},
		Texts:   heldTexts(a),
	}
	for name, m := range a.op.Current {
		if m.Missing {
			m.ID = ""
		}
		if m.ID != name {
			said.Objects[name] = m.ID
		}
	}
	if a.bill != nil {
		said.Reserved = a.bill.charge.Cost
	}
	for i := range a.changedMemories {
		changed := &a.changedMemories[i]
		m := a.op.Current[changed.target]
		if sum := changed.row.SHA256; sum != "" {
			said.Before[changed.row.ID] = sum
		} else if m.TextAt != "" { // it was not made through memproxy
			said.Before[changed.row.ID] = memproxy.Hash(m.Text)
		}
	}
	if w == nil {
		return h, said
	}
	said.Texts = w.before
	for _, ptr := range slices.Sorted(maps.Keys(w.texts)) {
		said.Rewritten = append(said.Rewritten, memproxy.HeldText{Pointer: ptr, Text: w.texts[ptr]})
	}
	if w.waits {
		said.Body = w.body
	}
	return h, said
}

// holdExtracted stores a retracted memory for reviewers, as a write of its text alone:
// the write that it was made of stays, and would be read anew by the backend's model.
func (ret *extraction) holdExtracted(ctx context.Context, m memproxy.Memory, j judged, why memproxy.Reason) {
	if ret.g.opt.Holds == nil {
		return
	}
	body, err := ret.extractor.Verbatim(ret.reworded.toSend(ret.call.Body), m.Text)
	if err == nil {
		hold, content := heldWriteOf(ret.Admission, nil)
		hold.ID, hold.ContentSHA256 = ret.g.opt.NewID(), memproxy.SumInHex(sha256.Sum256(body))
		content.Body, content.Reserved = body, 0 // the write itself was charged
		why.Detail = "created by the backend's model from the write of decision " + ret.Decision.ID
		hold.Reasons, hold.Findings, hold.Score = []memproxy.Reason{why}, slices.Clone(j.spans), j.risk
		for i := range hold.Findings {
			hold.Findings[i].Item = 0
		}
		content.Texts = []memproxy.HeldText{{Pointer: m.Pointer, Text: m.Text}}
		err = storeHold(ctx, ret.g, hold, content)
	}
	if d := (memproxy.Decision{}); RefuseHold(&d, err) {
		ret.reasons = append(ret.reasons, d.Reasons...) // the record says why the text is lost
	} else if err != nil {
		ret.g.opt.Meter.LedgerFailed(ctx)
		ret.g.opt.Log.ErrorContext(ctx, "a retracted memory could not be kept for review", "decision", ret.Decision.ID, "error", err)
	}
}

func heldTexts(a *Admission) (all []memproxy.HeldText) {
	for _, it := range content.Screened(a.op, attachedTargets(a.call, a.op)) {
		empty := it.Text == "" && !it.Moved && a.op.Kind != memproxy.Forget
		all = append(all, memproxy.HeldText{Pointer: it.Pointer, Text: it.Text, Empty: empty})
	}
	return all
}

// asksForReceipt reports whether the request asks for a receipt, which may be a held write's.
func asksForReceipt(r *evaluation) bool {
	extractor, ok := r.call.Backend.Adapter.(backend.Extractor)
	return ok && r.op != nil && r.g.opt.Holds != nil && extractor.ReceiptID(r.call.Route) != ""
}

// findHeldReceipt finds the held write that a receipt is about. It is shown to callers who could
// have written it; for others the request goes to the backend, which does not know
// the receipt and says so.
func findHeldReceipt(ctx context.Context, r *evaluation) error {
	id := r.call.Backend.Adapter.(backend.Extractor).ReceiptID(r.call.Route) // asksForReceipt is true
	ctx, cancel := r.call.Backend.Within(ctx)
	defer cancel()
	h, ok, err := r.g.opt.Holds.Get(ctx, id)
	if err != nil {
		return err
	}
	if !ok || h.Backend != r.call.Backend.Name || h.Tenant != r.Principal.Tenant || !access.MayName(&r.Principal, h.Scope) {
		return nil
	}
	r.polledHold = &h
	return nil
}

// answersPoll reports whether memproxy answers a request for the receipt of a held write,
// because the rules allow the request. It does so in shadow mode as well: the backend does
// not know the receipt.
func answersPoll(r *evaluation) bool {
	return r.polledHold != nil && r.Reply == nil && !r.verdict.Worst.Stops() && !r.call.ObserveOnly
}

func answerPoll(ctx context.Context, r *evaluation) error {
	extractor := r.call.Backend.Adapter.(backend.Extractor) // asksForReceipt was true
	if r.polledHold.State == memproxy.HoldDone && len(r.polledHold.Result.Memories) == 0 {
		followReceipt(ctx, r, extractor)
	}
	reply := extractor.ReceiptReply(r.call.Route, r.call.Request, *r.polledHold)
	r.Reply = &reply
	r.g.recordOutcome(ctx, &answer{Admission: r.Admission, g: r.g, status: reply.Status, shown: r.polledHold.Result.Memories})
	return nil
}

// admitFlagged turns a ruling against the content of a new memory into a status of the
// memory (DOL-2): the write goes through, and the status decides how the memory is
// shown. A ruling with any other reason remains, and so does one about a
// credential, which is a leak wherever it is stored.
func admitFlagged(r *evaluation, ruling *memproxy.Ruling) {
	if !r.rules.NeverRefuse || !ruling.Verdict.Stops() || r.verdict.Worst.Stops() || !r.traceable() ||
		slices.ContainsFunc(ruling.Reasons, func(why memproxy.Reason) bool { return why.Code != memproxy.ScreenRisk }) {
		return
	}
	r.flaggedAs = memproxy.StateFlagged
	if ruling.Verdict == memproxy.Deny {
		r.flaggedAs = memproxy.StateQuarantined
	}
	ruling.Verdict, ruling.Led = memproxy.Amend, 0
	ruling.Reasons = append(ruling.Reasons, memproxy.Reason{
		Code: memproxy.ScreenStored, Detail: "written as " + string(r.flaggedAs) + ": reads treat it according to this status",
	})
}

// plansStatus reports whether the memories that the write makes get another status than
// ordinary ones.
func plansStatus(r *evaluation) bool {
	return !r.Decision.Verdict.Stops() && r.traceable() && (r.confirmed || r.flaggedAs != "" || r.needsReview())
}

// storePlannedStatus stores the status that the new memories will have under the write's
// decision before the write is forwarded, so that they are never readable without
// it, even if this process ends in between. If the status cannot be stored the
// write is refused.
func storePlannedStatus(ctx context.Context, r *evaluation) error {
	change, ordinary := plannedStatus(r.Admission, memproxy.MemoryKey{Backend: r.op.Backend, Kind: memproxy.TargetDecision, ID: r.Decision.ID}, r.marks)
	if ordinary {
		return nil
	}
	if ttl := lifetime(r.Admission, fieldsOf(r.op, &memproxy.Memory{}), r.op.SourceClaim); ttl > 0 {
		change.Expires = r.begun.Add(ttl)
	}
	return commit(ctx, r.g, &r.Decision, memproxy.Entry{States: []memproxy.StateChange{change}}, "the status of the memories of a write could not be recorded")
}

// traceable reports whether the memories that the write makes can be recognised by
// its stamp.
func (a *Admission) traceable() bool {
	if a.op == nil || a.op.Kind != memproxy.Learn || !a.enforced() {
		return false
	}
	echoer, ok := a.call.Backend.Adapter.(backend.Extractor)
	return ok && echoer.Echoes(a.call.Route, a.op)
}

// plannedStatus is the status that a memory made by the write, and marked so, will have;
// ordinary reports that it needs none in advance.
func plannedStatus(a *Admission, k memproxy.MemoryKey, marks []string) (c memproxy.StateChange, ordinary bool) {
	c = memproxy.StateChange{
		MemoryKey: k, Tenant: a.Principal.Tenant, Decision: a.Decision.ID, Attestation: a.attestationOf(marks),
		From: []memproxy.MemoryState{memproxy.StateUntrusted, memproxy.StateExpired},
	}
	switch {
	case a.confirmed:
		c.State, c.Reason, c.Person = memproxy.StateValidated, reasonApproved, true
	case a.flaggedAs != "": // a memory that is quarantined already stays quarantined
		c.State, c.Rules, c.Reason = a.flaggedAs, a.rules.Version, "it looked dangerous when it was written"
		c.From = slices.DeleteFunc(slices.Clone(memproxy.MemoryStates[:]), func(s memproxy.MemoryState) bool { return s == memproxy.StateQuarantined })
	case a.needsReview():
		c.State, c.Reason = memproxy.StatePending, reasonWaits
	default:
		c.State, c.Reason = memproxy.StateUntrusted, strings.Join(marks, " ")
		return c, true
	}
	return c, false
}

// The recorded reasons for the status of new memories.
const (
	reasonApproved = "approved by a reviewer"
	reasonWaits    = "its author or its source is not trusted enough to be read without a review"
)

// spansIn returns the findings that apply to a memory's text: those of the one item
// that the backend stored word for word. The findings do not apply to any other
// text, which is replaced as a whole.
func spansIn(a *Admission, m *memproxy.Memory) []memproxy.Finding {
	if a.flaggedAs != memproxy.StateFlagged || m.Text == "" {
		return nil
	}
	at := slices.IndexFunc(a.op.Items, func(it memproxy.Item) bool { return it.Kind == memproxy.ItemContent && it.Text == m.Text })
	var spans []memproxy.Finding
	for _, f := range a.findings {
		if at >= 0 && f.Item == at && f.Rule != string(memproxy.ScreenRisk) && f.Start >= 0 && f.End > f.Start && f.End <= len(m.Text) {
			spans = append(spans, f)
		}
	}
	return spans
}

// recallStates derives the author and the status of targets that have none recorded
// from the writes that made them: the change may remove the stamp that links a target
// to its write.
func recallStates(ctx context.Context, r *evaluation) error {
	if _, echoes := r.call.Backend.Adapter.(backend.Extractor); !echoes || r.dry() {
		return nil
	}
	ret := &answer{Admission: r.Admission, g: r.g, cached: r.known, reading: &memproxy.Reading{}}
	for id, m := range r.op.Current {
		if _, known := r.owners[id]; !known && m.ID != "" && !m.Missing && stampedDecision(ret, &m) != "" {
			ret.reading.Memories = append(ret.reading.Memories, m)
		}
	}
	if err := r.known.memories(ctx, ret.reading.Memories); err != nil {
		return err
	}
	ret.items = itemsOf(ret.reading)
	for i := range ret.items {
		ret.items[i].setRecord(r.known)
	}
	findWrites(ret, false)
	if err := applyPlannedStatus(ctx, ret); err != nil {
		return err
	}
	_, _ = bindLate(ctx, ret) // it refuses nothing
	for _, row := range ret.lateEntry.Owners {
		r.owners[row.ID] = row
	}
	return commit(ctx, r.g, &r.Decision, ret.lateEntry, "the author of a memory is not recorded")
}
