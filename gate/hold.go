package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	as := r
	if inside(r) {
		if as = direct(r); as == nil {
			g.accounts.release(ctx, r.Admission)
			return nil
		}
	}
	kctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.RecordTimeout)
	defer cancel()
	held, content := toKeep(as)
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

// toKeep is what is kept of the call.
func toKeep(r *run) (memproxy.HeldWrite, memproxy.HoldContent) {
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
	said := memproxy.HoldContent{Query: c.Request.Query, Body: c.Body, Header: memproxy.Header{}, Author: &author}
	if r.bill != nil {
		said.Reserved = r.bill.charge.Cost
	}
	for _, name := range keptHeaders {
		if v := c.Request.Header[name]; len(v) > 0 {
			said.Header[name] = v
		}
	}
	for _, it := range content.Screened(r.op, brings(r.call, r.op)) {
		said.Texts = append(said.Texts, memproxy.HeldText{Pointer: it.Pointer, Text: it.Text})
	}
	r.reworded.into(&said)
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

// ErrGone says that the adapter no longer knows the route of a held write.
var ErrGone = errors.New("gate: the route of the held write is unknown")

// Reviewed rules on what reviewers have sent again, and keeps what became of it:
// held writes that they approved, versions of memories that they put back.
type Reviewed struct{ *Gate }

// Reviewed returns the part of the gate that what reviewers decide goes through.
func (g *Gate) Reviewed() Reviewed { return Reviewed{g} }

// again is a held write as a call.
func (g Reviewed) again(m mode, b Backend, h memproxy.HeldWrite, content memproxy.HoldContent) (*run, error) {
	req := memproxy.Request{Method: h.Method, EscapedPath: h.EscapedPath, Query: content.Query, Header: content.Header}
	if req.Header == nil {
		req.Header = memproxy.Header{}
	}
	route, known := b.Adapter.Route(req)
	if !known || route.ID != h.Route {
		return nil, ErrGone
	}
	r := g.begin(m, &Call{Backend: b, Request: req, Route: route, Known: true, Body: content.Body, Session: memproxy.NameSession(h.Session)})
	r.Decision.ID = h.ID
	return r, nil
}

// Replay admits a held write that was approved: as it came, in its author's
// name and under its own decision, with the attestation of the person who
// confirmed it. What it may be was decided by a person, so policy and screening
// are not asked again. The record names the reviewer. Like Admit's, the admission
// is to be forwarded and its answer given to Return, or is refused.
func (g Reviewed) Replay(ctx context.Context, b Backend, h memproxy.HeldWrite, content memproxy.HoldContent) (*Admission, error) {
	r, err := g.again(replay, b, h, content)
	if err != nil {
		return nil, err
	}
	r.Principal = unlimited(h)
	r.confirmed, r.Inspect = !h.ByRules(), true
	r.waited = &h
	if content.Reserved > 0 {
		r.paid = &memproxy.Charge{ID: h.ID, Tenant: h.Tenant, Cost: int64(content.Reserved), Time: h.Created}
	}
	r.verdict.note(memproxy.Reason{Code: memproxy.ReviewApproved, Detail: "approved by " + h.Reviewer})
	r.walk(ctx)
	return r.Admission, nil
}

// unlimited is the author of a held write, who may name whom it names: that was
// ruled on when it came.
func unlimited(h memproxy.HeldWrite) memproxy.Principal {
	all := memproxy.Limit{All: true}
	return memproxy.Principal{ID: h.Principal, Tenant: h.Tenant, Trust: h.Trust, ActsAs: all, Users: all, Apps: all, Runs: all}
}

// Reconsider asks the rules in force about a held write, as if its author wrote
// it now. Nothing is charged, recorded, changed or sent, but for questions to
// the backend. An error means that there is no answer for now; ErrGone, that
// there never will be.
func (g Reviewed) Reconsider(ctx context.Context, b Backend, h memproxy.HeldWrite, content memproxy.HoldContent) (memproxy.Reevaluation, error) {
	r, err := g.again(recheck, b, h, content)
	if err != nil {
		return memproxy.Reevaluation{}, err
	}
	if r.Principal = unlimited(h); content.Author != nil { // it was not kept at first
		r.Principal = *content.Author
	}
	r.walk(ctx)
	if r.verdict.status >= StatusUnavailable { // a step that could not be finished is no verdict
		return memproxy.Reevaluation{}, errors.New("gate: a held write could not be ruled on: " + r.verdict.reasons[0].Detail)
	}
	v := memproxy.Reevaluation{Verdict: r.verdict.worst, Reasons: slices.Concat(r.verdict.reasons, r.verdict.notes), Findings: r.findings, Policy: r.Decision.Policy}
	for i := range r.findings {
		v.Score = max(v.Score, r.findings[i].Score)
	}
	// What the rules would admit for its state to withhold it, and what they
	// fail on, waits on: only a plain answer settles anything.
	// So does what was rewritten: that is for a person.
	if r.aside != "" || has(r.verdict.reasons, memproxy.PolicyError) || len(content.Rewritten) > 0 && !v.Verdict.Stops() {
		v.Verdict = memproxy.Hold
	}
	return v, nil
}

// PutBack rules on a request with which a reviewer puts an object back to a
// version of it, under the rollback's decision: the rules in force may refuse
// what they once let pass. Whoever reviews may administer what it reviews. Like
// Admit's, the admission is to be forwarded and its answer given to Return, or
// is refused; it is not held, for a person has asked for it.
func (g Reviewed) PutBack(ctx context.Context, b Backend, q memproxy.Search, decision, reviewer, tenant string) (*Admission, error) {
	route, known := b.Adapter.Route(q.Request)
	if !known {
		return nil, ErrGone
	}
	r := g.begin(putBack, &Call{Backend: b, Request: q.Request, Route: route, Known: true, Body: q.Body, restores: true})
	all := memproxy.Limit{All: true}
	r.Principal = memproxy.Principal{
		ID: reviewer, Kind: memproxy.KindHuman, Tenant: tenant, Trust: memproxy.TrustHuman, Roles: []string{"memproxy-admin", RoleReviewer},
		ActsAs: all, Users: all, Apps: all, Runs: all,
	}
	r.Decision.ID, r.confirmed, r.Inspect = decision, true, true
	r.walk(ctx)
	return r.Admission, nil
}

// Seek asks the backend whether an approved write arrived of which nobody
// knows. An error, or known false, is no answer.
func (g Reviewed) Seek(ctx context.Context, b Backend, h memproxy.HeldWrite, content memproxy.HoldContent) (ids []string, known bool, err error) {
	seeker, ok := b.Adapter.(Seeker)
	if !ok || b.Fetch == nil {
		return nil, false, nil
	}
	req := memproxy.Request{Method: h.Method, EscapedPath: h.EscapedPath, Query: content.Query, Header: content.Header}
	route, found := b.Adapter.Route(req)
	if !found {
		return nil, false, ErrGone
	}
	op, err := b.Adapter.Decode(route, req, content.Body)
	if err != nil {
		return nil, false, err
	}
	q, ok := seeker.Seek(route, req, op)
	if !ok {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, g.opt.FetchTimeout)
	defer cancel()
	reply, err := b.Fetch.Fetch(ctx, q)
	if err != nil {
		return nil, false, err
	}
	if !ok2xx(reply.Status) {
		return nil, false, nil
	}
	ids, err = seeker.Sought(reply, h.ID)
	return ids, err == nil, err
}

// RestoredStamp is the provenance of a memory that is made again what a version
// of it was: that version's words and worth, under the rollback's decision.
func (g Reviewed) RestoredStamp(to memproxy.Version, decision string) memproxy.Stamp {
	return g.opt.Signer.Sign(memproxy.Stamp{
		ID: decision, Actor: to.Actor, Tenant: to.Tenant, Trust: to.Trust, Confidence: to.Confidence, Source: memproxy.SourceUnstated,
		Attestation: to.Attestation, Time: g.opt.Clock().UTC().Truncate(time.Second), SHA256: textHash(to.Text),
		Trigger: "rollback",
	})
}

// Restored notes that a memory is again what a version of it was, so that its
// text is not taken for one that was changed behind the proxy.
func (g Reviewed) Restored(ctx context.Context, to memproxy.Version, decision string) {
	g.amendRow(ctx, to.MemoryKey, decision, func(row *memproxy.Ownership) {
		row.SHA256, row.Decision, row.Deleted = textHash(to.Text), decision, false
	})
}

// FoundGone notes that a memory was deleted in the backend, around memproxy.
func (g Reviewed) FoundGone(ctx context.Context, k memproxy.MemoryKey, decision string) {
	g.amendRow(ctx, k, decision, func(row *memproxy.Ownership) { row.Deleted = true })
}

func (g Reviewed) amendRow(ctx context.Context, k memproxy.MemoryKey, decision string, change func(*memproxy.Ownership)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.RecordTimeout)
	defer cancel()
	records, err := g.opt.Ledger.Lookup(ctx, k)
	if rec := records[k]; err == nil && rec.Owned() {
		change(&rec.Owner)
		err = g.opt.Ledger.Commit(ctx, memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{rec.Owner}})
	}
	if err != nil {
		g.opt.Log.ErrorContext(ctx, "ledger not updated", "decision", decision, "error", err)
	}
}
