package gate

import (
	"context"
	"errors"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// replaying are the steps of a write that a reviewer approved: what it may be
// was decided by a person, so policy and screening are not asked again.
var replaying = [...]string{signal.SpanDecode, signal.SpanTenancy, signal.SpanOrder, signal.SpanOwn, signal.SpanClamp, signal.SpanEncode, signal.SpanCharge, signal.SpanBind}

// ErrGone says that the adapter no longer knows the route of a held write.
var ErrGone = errors.New("gate: the route of the held write is unknown")

// Replay admits a held write that was approved: as it came, in its author's
// name and under its own decision, with the attestation of the person who
// confirmed it. The record names the reviewer. Like Admit's, the admission is
// to be forwarded and its answer given to Return, or is refused.
func (g *Gate) Replay(ctx context.Context, b Backend, h memproxy.HeldWrite, content memproxy.HoldContent) (*Admission, error) {
	req := memproxy.Request{Method: h.Method, EscapedPath: h.EscapedPath, Query: content.Query, Header: content.Header}
	if req.Header == nil {
		req.Header = memproxy.Header{}
	}
	route, known := b.Adapter.Route(req)
	if !known || route.ID != h.Route {
		return nil, ErrGone
	}
	all := memproxy.Limit{All: true} // whom it names was ruled on when it came
	r := g.begin(&Call{Backend: b, Request: req, Route: route, Known: true, Body: content.Body, Session: memproxy.NameSession(h.Session)})
	r.Principal = memproxy.Principal{ID: h.Principal, Tenant: h.Tenant, Trust: h.Trust, ActsAs: all, Users: all, Apps: all, Runs: all}
	r.Decision.ID, r.confirmed, r.Inspect = h.ID, !h.ByRules(), true
	r.waited = &h
	if content.Reserved > 0 {
		r.paid = &memproxy.Charge{ID: h.ID, Tenant: h.Tenant, Cost: int64(content.Reserved), Time: h.Created}
	}
	r.note(memproxy.Reason{Code: memproxy.ReviewApproved, Detail: "approved by " + h.Reviewer})
	for i := range admission {
		s := &admission[i]
		if !slices.Contains(replaying[:], s.name) || s.idle != nil && s.idle(r) {
			continue
		}
		if err := g.step(ctx, s, r); err != nil {
			g.opt.Log.ErrorContext(ctx, "gate step failed", "step", s.name, "decision", r.Decision.ID, "error", err)
			r.refuse(StatusUnavailable, memproxy.Reason{Code: s.broken, Detail: "memproxy could not finish sending an approved write"})
		}
		if r.verdict.Stops() {
			break
		}
	}
	r.settle()
	g.record(ctx, r)
	g.putAside(ctx, r)
	if r.Decision.Verdict.Stops() && r.Reply == nil {
		reply := b.Adapter.Refuse(req, r.Decision.Shown())
		r.Reply = &reply
	}
	g.precede(ctx, r)
	g.images(ctx, r)
	if r.Reply != nil {
		left(r.Admission)
	}
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
func (g *Gate) Seek(ctx context.Context, b Backend, h memproxy.HeldWrite, content memproxy.HoldContent) (ids []string, known bool, err error) {
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
