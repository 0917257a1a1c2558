package gate

import (
	"context"
	"errors"
	"fmt"

	"github.com/memproxy/memproxy"
)

// reserve charges a write that is to be held. What there is no budget for is
// refused instead.
func (g *Gate) reserve(ctx context.Context, r *run) {
	if !r.keeps() || gratis(r) {
		return
	}
	if err := charge(ctx, r); err != nil {
		g.opt.Log.ErrorContext(ctx, "a held write could not be charged", "decision", r.Decision.ID, "error", err)
		r.refuse(StatusUnavailable, memproxy.Reason{Code: memproxy.InternalError, Detail: "memproxy could not finish ruling on this request"})
	}
}

// full refuses a hold of a caller of whom too much waits, or of one of its end
// users.
func full(ctx context.Context, r *run, no *memproxy.HoldsFull) {
	d := &r.Decision
	line := memproxy.Line{Reason: memproxy.HoldQueue, Key: no.Key, Window: memproxy.WindowTotal, Limit: int64(no.Limit)}
	d.Allowance = &memproxy.Allowance{Lines: []memproxy.LineState{{Line: line, Used: int64(no.Limit)}}}
	d.Status = StatusTooMany
	unheld(ctx, r, memproxy.Reason{Code: memproxy.HoldQueue, Rule: no.Key, Detail: fmt.Sprintf(
		"%d writes wait for review, as many as may; a reviewer makes room (memproxy holds list), and %s sets the number", no.Limit, no.Setting)})
}

// unheld refuses what cannot wait for review. The status is that of the decision.
func unheld(ctx context.Context, r *run, why memproxy.Reason) {
	d := &r.Decision
	d.Verdict, d.Reasons = memproxy.Deny, []memproxy.Reason{why}
	reply := r.call.Backend.Adapter.Refuse(r.call.Request, d.Shown())
	r.Reply = &reply
	r.g.outcome(ctx, &answer{Admission: r.Admission, g: r.g, reasons: d.Reasons})
}

// keep puts a write that is held away, encrypted, and words the answer. The
// decision is on record already: what cannot be kept is refused.
func (g *Gate) keep(ctx context.Context, r *run) {
	if r.Decision.Verdict != memproxy.Hold || g.opt.Keeper == nil || r.op == nil {
		return
	}
	kctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.RecordTimeout)
	defer cancel()
	hold, content := r.hold()
	if err := g.opt.Keeper.Keep(kctx, hold, content); err != nil {
		if no := (*memproxy.HoldsFull)(nil); errors.As(err, &no) {
			g.release(ctx, r.Admission)
			full(ctx, r, no)
			return
		}
		if errors.Is(err, memproxy.ErrNoReviewer) {
			g.release(ctx, r.Admission)
			r.Decision.Status = StatusForbidden
			unheld(ctx, r, memproxy.Reason{Code: memproxy.HoldReviewer, Detail: "it would wait for review, and there are not enough reviewers for it; review.reviewers lists them"})
			return
		}
		g.opt.Log.ErrorContext(ctx, "a held write could not be kept", "decision", r.Decision.ID, "error", err)
		g.unwritten(ctx, r, "the write waits for review and could not be kept")
		return
	}
	if holder, ok := r.call.Backend.Adapter.(Holder); ok && !g.opt.RefuseHolds {
		if reply, ok := holder.Held(r.call.Route, r.call.Request, r.op, r.Decision); ok {
			r.Reply = &reply
		}
	}
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

// keepCall keeps a tool call that is held, as the request by which it can be
// made from outside once it is approved. The agent reads that it waits.
func (g *Gate) keepCall(ctx context.Context, a *Admission, tc memproxy.ToolCall) {
	if a.Decision.Verdict != memproxy.Hold || g.opt.Keeper == nil || a.op == nil {
		return
	}
	if tc.Direct == nil {
		g.release(ctx, a) // nothing is kept
		return
	}
	req := tc.Direct.Request
	req.Header = memproxy.Header{"Content-Type": {"application/json"}}
	for _, name := range keptHeaders {
		if v := a.call.Request.Header[name]; len(v) > 0 && name != "Content-Type" {
			req.Header[name] = v
		}
	}
	route, known := a.call.Backend.Adapter.Route(req)
	if !known {
		g.release(ctx, a)
		return
	}
	c := *a.call
	c.Request, c.Route, c.Body = req, route, tc.Direct.Body
	as := *a
	as.call = &c
	r := &run{Admission: &as, g: g}
	hold, content := r.hold()
	kctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.RecordTimeout)
	defer cancel()
	if err := g.opt.Keeper.Keep(kctx, hold, content); err != nil {
		g.release(ctx, a)
		g.opt.Meter.LedgerFailed(ctx)
		g.opt.Log.ErrorContext(ctx, "a held tool call could not be kept; it stays refused", "decision", a.Decision.ID, "error", err)
	}
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
	if !ok || h.Backend != r.call.Backend.Name || h.Tenant != r.Principal.Tenant || !r.mayName(h.Scope) {
		return nil
	}
	r.held = &h
	return nil
}

// mayName reports whether the principal may name all of a scope.
func (r *run) mayName(s memproxy.Scope) bool {
	for _, d := range dimensions {
		if v := s.In(d); v != "" && !r.Principal.May(d).Allows(v) {
			return false
		}
	}
	return true
}

// answerPoll answers in the backend's place.
func (r *run) answerPoll(ctx context.Context) {
	if r.held == nil || r.Reply != nil || !r.enforced() {
		return
	}
	reply := r.call.Backend.Adapter.(Holder).Polled(r.call.Route, r.call.Request, *r.held)
	r.Reply = &reply
	r.g.outcome(ctx, &answer{Admission: r.Admission, g: r.g, status: reply.Status, shown: r.held.Result.Memories})
}
