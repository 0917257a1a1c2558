package gate

import (
	"context"
	"errors"
	"slices"

	"github.com/memproxy/memproxy"
)

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
	r.note(memproxy.Reason{Code: memproxy.ReviewApproved, Detail: "approved by " + h.Reviewer})
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
	if r.status >= StatusUnavailable { // a step that could not be finished is no verdict
		return memproxy.Reevaluation{}, errors.New("gate: a held write could not be ruled on: " + r.reasons[0].Detail)
	}
	v := memproxy.Reevaluation{Verdict: r.verdict, Reasons: slices.Concat(r.reasons, r.notes), Findings: r.findings, Policy: r.Decision.Policy}
	for i := range r.findings {
		v.Score = max(v.Score, r.findings[i].Score)
	}
	// What the rules would let in for its state to withhold it, and what they
	// fail on, waits on: only a plain answer settles anything.
	// So does what was rewritten: that is for a person.
	if r.aside != "" || has(r.reasons, memproxy.PolicyError) || len(content.Rewritten) > 0 && !v.Verdict.Stops() {
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

// A Seeker is a Locator that can look for a write by the stamp that it would
// carry.
type Seeker interface {
	Locator
	// Seek returns the request that lists what a write could have made, false
	// where nothing of it would carry a stamp.
	Seek(route memproxy.Route, req memproxy.Request, op *memproxy.Operation) (memproxy.Request, bool)

	// Sought reads the answer: the ids of the memories that carry the decision.
	Sought(reply memproxy.Reply, decision string) ([]string, error)
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
