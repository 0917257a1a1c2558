package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/gate/content"
)

// full refuses a hold of a caller of whom too much waits, or of one of its end
// users.
func full(ctx context.Context, r *run, no *memproxy.HoldsFull) {
	d := &r.Decision
	line := memproxy.Line{Reason: memproxy.HoldQueue, Key: no.Key, Window: memproxy.WindowTotal, Limit: int64(no.Limit)}
	d.Allowance = &memproxy.Allowance{Lines: []memproxy.LineState{{Line: line, Used: int64(no.Limit)}}}
	d.Status = StatusTooMany
	unqueued(ctx, r, memproxy.Reason{Code: memproxy.HoldQueue, Rule: no.Key, Detail: fmt.Sprintf(
		"%d writes wait for review, as many as may; a reviewer makes room (memproxy holds list), and %s sets the number", no.Limit, no.Setting)})
}

// unqueued refuses what cannot wait for review. The status is that of the decision.
func unqueued(ctx context.Context, r *run, why memproxy.Reason) {
	d := &r.Decision
	d.Verdict, d.Reasons = memproxy.Deny, []memproxy.Reason{why}
	_ = answerRefused(ctx, r) // which cannot fail
	r.g.outcome(ctx, &answer{Admission: r.Admission, g: r.g, reasons: d.Reasons})
}

// unheld: nothing waits for review, or what waits is not kept.
func unheld(r *run) bool {
	return r.Decision.Verdict != memproxy.Hold || r.g.opt.Keeper == nil || r.op == nil
}

// hold puts a write that is held away, encrypted, and words the answer. The
// decision is on record already: what cannot be kept is refused. A tool call is
// kept as the request that makes it from outside once it is approved; one without
// such a request is not kept.
func hold(ctx context.Context, r *run) error {
	g := r.g
	a, w := r.Admission, r.reworded
	if inside(r) {
		if a, w = direct(r), nil; a == nil {
			g.accounts.release(ctx, r.Admission)
			return nil
		}
	}
	kctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.RecordTimeout)
	defer cancel()
	held, content := toKeep(a, w)
	switch err, no := g.opt.Keeper.Keep(kctx, held, content), (*memproxy.HoldsFull)(nil); {
	case errors.As(err, &no):
		g.accounts.release(ctx, r.Admission)
		full(ctx, r, no)
		return nil
	case errors.Is(err, memproxy.ErrNoReviewer):
		g.accounts.release(ctx, r.Admission)
		r.Decision.Status = StatusForbidden
		unqueued(ctx, r, memproxy.Reason{Code: memproxy.HoldReviewer, Detail: "it would wait for review, and there are not enough reviewers for it; review.reviewers lists them"})
		return nil
	case err != nil:
		return err
	}
	g.opt.Steps.At(memproxy.StepHoldKept)
	if holder, ok := r.call.Backend.Adapter.(Holder); ok && !g.opt.RefuseHolds && !inside(r) {
		if reply, ok := holder.Held(r.call.Route, r.call.Request, r.op, r.Decision); ok {
			r.Reply = &reply
		}
	}
	return nil
}

// direct is a tool call as the request that makes it from outside; nil: there is
// none.
func direct(r *run) *Admission {
	if r.tool.Direct == nil {
		return nil
	}
	req := r.tool.Direct.Request
	req.Header = memproxy.Header{"Content-Type": {"application/json"}}
	for _, name := range keptHeaders {
		if v := r.call.Request.Header[name]; len(v) > 0 && name != "Content-Type" {
			req.Header[name] = v
		}
	}
	route, known := r.call.Backend.Adapter.Route(req)
	if !known {
		return nil
	}
	c, as := *r.call, *r.Admission
	c.Request, c.Route, c.Body = req, route, r.tool.Direct.Body
	as.call = &c
	return &as
}

// keptHeaders are the headers that a held write is sent with later: how the
// body is to be read, and in which version of the API. Never a credential.
var keptHeaders = [...]string{"Content-Type", "Accept", "X-Mem0-Mode", "X-Stainless-Package-Version", "User_id", "X-Project", "X-Project-Id"}

// toKeep is what is kept of a call, and of what it says in other words.
func toKeep(a *Admission, w *reworded) (memproxy.HeldWrite, memproxy.HoldContent) {
	c := a.call
	h := memproxy.HeldWrite{
		ID: a.Decision.ID, Backend: c.Backend.Name, Route: c.Route.ID, Method: c.Request.Method, EscapedPath: c.Request.EscapedPath,
		Tenant: a.Principal.Tenant, Principal: a.Principal.ID, Trust: a.Principal.Trust, Session: a.event.Session,
		Scope: a.op.Scope, Kind: a.op.Kind, Reasons: a.Decision.Recorded(), Findings: a.findings, Policy: a.Decision.Policy,
		ContentSHA256: a.event.ContentSHA256, Created: a.begun, State: memproxy.HoldPending,
	}
	for i := range a.findings {
		h.Score = max(h.Score, a.findings[i].Score)
	}
	author := a.Principal
	said := memproxy.HoldContent{Query: c.Request.Query, Body: c.Body, Header: memproxy.Header{}, Author: &author}
	if a.bill != nil {
		said.Reserved = a.bill.charge.Cost
	}
	for _, name := range keptHeaders {
		if v := c.Request.Header[name]; len(v) > 0 {
			said.Header[name] = v
		}
	}
	for _, it := range content.Screened(a.op, brings(a.call, a.op)) {
		said.Texts = append(said.Texts, memproxy.HeldText{Pointer: it.Pointer, Text: it.Text})
	}
	w.into(&said)
	return h, said
}

// unpolled: nobody asks about a receipt that could be a held write's.
func unpolled(r *run) bool {
	if r.op == nil || r.g.opt.Keeper == nil {
		return true
	}
	holder, ok := r.call.Backend.Adapter.(Holder)
	return !ok || holder.Polls(r.call.Route) == ""
}

// polled finds the held write that a receipt stands for. It is shown to those
// who could have written it; for others there is none, and the backend, which
// does not know it either, says so.
func polled(ctx context.Context, r *run) error {
	id := r.call.Backend.Adapter.(Holder).Polls(r.call.Route)
	ctx, cancel := context.WithTimeout(ctx, r.g.opt.FetchTimeout)
	defer cancel()
	h, ok, err := r.g.opt.Keeper.Kept(ctx, id)
	if err != nil {
		return err
	}
	if !ok || h.Backend != r.call.Backend.Name || h.Tenant != r.Principal.Tenant || !access.MayName(&r.Principal, h.Scope) {
		return nil
	}
	r.held = &h
	return nil
}

// unasked: no receipt of a held write is asked about, or the answer is there.
func unasked(r *run) bool { return r.held == nil || r.Reply != nil || !r.enforced() }

// answerPoll answers in the backend's place.
func answerPoll(ctx context.Context, r *run) error {
	reply := r.call.Backend.Adapter.(Holder).Polled(r.call.Route, r.call.Request, *r.held)
	r.Reply = &reply
	r.g.outcome(ctx, &answer{Admission: r.Admission, g: r.g, status: reply.Status, shown: r.held.Result.Memories})
	return nil
}

// setAside turns a ruling against what a new memory says into a state of the
// memory (DOL-2): it is written, and the state decides what is shown of it. A
// ruling that has any other reason stands, and so does one about a credential,
// which is a leak wherever it lies.
func setAside(r *run, ruling *memproxy.Ruling) {
	if !r.rules.NeverRefuse || !r.enforced() || !ruling.Verdict.Stops() || r.verdict.worst.Stops() || r.op.Kind != memproxy.Learn {
		return
	}
	carrier, ok := r.call.Backend.Adapter.(Carrier)
	if !ok || !carrier.Carries(r.call.Route, r.op) || slices.ContainsFunc(ruling.Reasons, func(why memproxy.Reason) bool {
		return why.Code != memproxy.ScreenRisk
	}) {
		return
	}
	r.aside = memproxy.StateFlagged
	if ruling.Verdict == memproxy.Deny {
		r.aside = memproxy.StateQuarantined
	}
	ruling.Verdict, ruling.Led = memproxy.Amend, 0
	ruling.Reasons = append(ruling.Reasons, memproxy.Reason{
		Code: memproxy.ScreenStored, Detail: "written as " + string(r.aside) + ": its state decides what is shown of it",
	})
}

// unfiltered refuses what is made of many memories at once where some of them
// must not be shown: it cannot be taken apart.
func unfiltered(r *run) {
	if r.rules.NeverRefuse && r.op.Kind == memproxy.Recall && r.op.Derived {
		r.verdict.refuse(StatusForbidden, memproxy.Reason{
			Code:   memproxy.StateWithheld,
			Detail: "this is made of all memories, also of those that are written and must not be shown (memories.never_refuse)",
		})
	}
}

// ordinary: what the write makes is an ordinary memory, or nothing is made.
func ordinary(r *run) bool {
	return r.Decision.Verdict.Stops() || !r.confirmed && r.aside == "" && !r.waits() || !r.traceable()
}

// putAside notes the state of what a write will make, by its decision, before
// it is sent, where that is another than an ordinary memory's: from its first
// moment on nobody reads it as one, whether this process is there then or not.
// What cannot be noted is refused.
func putAside(ctx context.Context, r *run) error {
	change, ordinary := foreseen(r.Admission, memproxy.MemoryKey{Backend: r.op.Backend, Kind: memproxy.TargetDecision, ID: r.Decision.ID})
	if ordinary {
		return nil
	}
	if ttl := lifetime(r.Admission, &memproxy.Memory{}); ttl > 0 {
		change.Expires = r.begun.Add(ttl)
	}
	return commit(ctx, r.g, &r.Decision, memproxy.Entry{States: []memproxy.StateChange{change}}, "the state of a write could not be noted")
}

// traceable reports whether what the write makes can be told by its stamp.
func (a *Admission) traceable() bool {
	if a.op == nil || a.op.Kind != memproxy.Learn || !a.enforced() {
		return false
	}
	carrier, ok := a.call.Backend.Adapter.(Carrier)
	return ok && carrier.Carries(a.call.Route, a.op)
}

// foreseen is the state that something will have which the write makes, or
// ordinary.
func foreseen(a *Admission, k memproxy.MemoryKey) (c memproxy.StateChange, ordinary bool) {
	c = memproxy.StateChange{
		MemoryKey: k, Tenant: a.Principal.Tenant, Decision: a.Decision.ID, Attestation: a.attested(a.marks),
		From: []memproxy.MemoryState{memproxy.StateUntrusted, memproxy.StateExpired},
	}
	switch {
	case a.confirmed:
		c.State, c.Reason, c.Person = memproxy.StateValidated, reasonApproved, true
	case a.aside != "":
		return asideOf(a, k), false
	case a.waits():
		c.State, c.Reason = memproxy.StatePending, reasonWaits
	default:
		return c, true
	}
	return c, false
}

// Why memories stand as they do when they come to be.
const (
	reasonApproved = "approved by a reviewer"
	reasonWaits    = "its author or its source is not trusted enough to be read without a review"
)

// asideOf is the state of something that a write made which is set aside. What
// was quarantined before stays so.
func asideOf(a *Admission, k memproxy.MemoryKey) memproxy.StateChange {
	c := memproxy.StateChange{
		MemoryKey: k, Tenant: a.Principal.Tenant, State: a.aside, Decision: a.Decision.ID, Attestation: memproxy.SelfReported,
		Rules: a.rules.Version, Reason: "it looked dangerous when it was written",
	}
	for _, s := range memproxy.MemoryStates {
		if s != memproxy.StateQuarantined {
			c.From = append(c.From, s)
		}
	}
	return c
}

// spansIn are the findings of a write that hold for a memory's text: those of
// the one item that the backend took over word for word. Of any other text
// nothing is known, and all of it is replaced.
func spansIn(a *Admission, m *memproxy.Memory) []memproxy.Finding {
	if a.aside != memproxy.StateFlagged || m.Text == "" {
		return nil
	}
	for i := range a.op.Items {
		if a.op.Items[i].Kind != memproxy.ItemContent || a.op.Items[i].Text != m.Text {
			continue
		}
		var spans []memproxy.Finding
		for _, f := range a.findings {
			if f.Item == i && f.Rule != string(memproxy.ScreenRisk) && f.Start >= 0 && f.End > f.Start && f.End <= len(m.Text) {
				spans = append(spans, f)
			}
		}
		return spans
	}
	return nil
}

// asideLater gives what became of a write its state, once its ids are known.
func (ret *making) asideLater(ctx context.Context) error {
	if ret.aside == "" {
		return nil
	}
	var changes []memproxy.StateChange
	for i := range ret.memories {
		if m := &ret.memories[i]; m.ID != "" && m.Event != eventNone && m.Event != eventDelete {
			c := asideOf(ret.Admission, memproxy.MemoryKey{Backend: ret.op.Backend, Kind: kindOf(m), ID: m.ID})
			c.Findings, c.Text = spansIn(ret.Admission, m), memproxy.TextSHA256(m.Text)
			changes = append(changes, c)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return ret.g.opt.Ledger.Commit(ctx, memproxy.Entry{States: changes})
}

// recallStates remembers the state of targets that were found in the backend, and
// that nothing is known of, by the writes that they came of: a change may take
// the stamp away that tells it.
func recallStates(ctx context.Context, r *run) {
	if _, carries := r.call.Backend.Adapter.(Carrier); !carries || r.dry() {
		return
	}
	known := r.known
	ret := &answer{Admission: r.Admission, g: r.g, looked: known, reading: &memproxy.Reading{}}
	for id, m := range r.op.Current {
		if _, known := r.owners[id]; !known && m.ID != "" && !m.Missing && stamped(ret, &m) != "" {
			ret.reading.Memories = append(ret.reading.Memories, m)
		}
	}
	if len(ret.reading.Memories) == 0 {
		return
	}
	ret.items = itemsOf(ret.reading)
	made := origins(ret, false)
	keys := known.keys(memproxy.TargetDecision, made...)
	for i := range ret.items {
		keys = append(keys, known.key(memproxy.TargetMemory, ret.items[i].ID))
	}
	if err := known.need(ctx, keys...); err != nil {
		return
	}
	for i := range ret.items {
		it := &ret.items[i]
		if it.rec = known.of(memproxy.TargetMemory, it.ID); it.rec.Rated() && it.rec.Status.Decision == made[i] {
			made[i] = "" // it may have been reviewed since
		}
	}
	settleAside(ctx, ret, made)
}

// unwritten refuses a write that was let through, because something that goes
// with it could not be noted.
func unwritten(ctx context.Context, r *run, code memproxy.ReasonCode, detail string) {
	g := r.g
	g.opt.Meter.LedgerFailed(ctx)
	ret := &answer{Admission: r.Admission, g: g}
	ret.refuse(StatusUnavailable, code, detail)
	r.Decision.Verdict, r.Decision.Status, r.Reply = memproxy.Deny, StatusUnavailable, &ret.reply
	g.outcome(ctx, ret)
}
