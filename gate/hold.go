package gate

import (
	"context"
	"errors"
	"fmt"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
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
	reply := r.call.Backend.Adapter.Refuse(r.call.Request, d.Shown())
	r.Reply = &reply
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
	as := r
	if inside(r) {
		if as = direct(r); as == nil {
			g.release(ctx, r.Admission)
			return nil
		}
	}
	kctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.RecordTimeout)
	defer cancel()
	held, content := as.hold()
	switch err, no := g.opt.Keeper.Keep(kctx, held, content), (*memproxy.HoldsFull)(nil); {
	case errors.As(err, &no):
		g.release(ctx, r.Admission)
		full(ctx, r, no)
		return nil
	case errors.Is(err, memproxy.ErrNoReviewer):
		g.release(ctx, r.Admission)
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
func direct(r *run) *run {
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
	return &run{Admission: &as, g: r.g}
}

// keptHeaders are the headers that a held write is sent with later: how the
// body is to be read, and in which version of the API. Never a credential.
var keptHeaders = [...]string{"Content-Type", "Accept", "X-Mem0-Mode", "X-Stainless-Package-Version", "User_id", "X-Project", "X-Project-Id"}

// hold is what is kept of the call.
func (r *run) hold() (memproxy.HeldWrite, memproxy.HoldContent) {
	c := r.call
	h := memproxy.HeldWrite{
		ID: r.Decision.ID, Backend: c.Backend.Name, Route: c.Route.ID, Method: c.Request.Method, EscapedPath: c.Request.EscapedPath,
		Tenant: r.Principal.Tenant, Principal: r.Principal.ID, Trust: r.Principal.Trust, Session: r.event.Session,
		Scope: r.op.Scope, Kind: r.op.Kind, Reasons: r.Decision.Recorded(), Findings: r.findings, Policy: r.Decision.Policy,
		ContentSHA256: r.event.ContentSHA256, Created: r.begun, State: memproxy.HoldPending,
	}
	for i := range r.findings {
		h.Score = max(h.Score, r.findings[i].Score)
	}
	author := r.Principal
	content := memproxy.HoldContent{Query: c.Request.Query, Body: c.Body, Header: memproxy.Header{}, Author: &author}
	if r.bill != nil {
		content.Reserved = r.bill.charge.Cost
	}
	for _, name := range keptHeaders {
		if v := c.Request.Header[name]; len(v) > 0 {
			content.Header[name] = v
		}
	}
	for _, it := range r.screened() {
		content.Texts = append(content.Texts, memproxy.HeldText{Pointer: it.Pointer, Text: it.Text})
	}
	r.reworded.into(&content)
	return h, content
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
