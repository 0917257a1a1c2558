package gate

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// puttingBack are the steps of a request that gives an object the members that
// it had: all that a write goes through, except that its sender is known.
var puttingBack = [...]string{
	signal.SpanDecode, signal.SpanTenancy, signal.SpanOrder, signal.SpanOwn, signal.SpanScreen, signal.SpanClamp, signal.SpanRule, signal.SpanEncode, signal.SpanBind,
}

// PutBack rules on a request with which a reviewer puts an object back to a
// version of it, under the rollback's decision: the rules in force may refuse
// what they once let pass. Whoever reviews may administer what it reviews. Like
// Admit's, the admission is to be forwarded and its answer given to Return, or
// is refused; nobody holds it, for a person has asked for it.
func (g *Gate) PutBack(ctx context.Context, b Backend, q memproxy.Search, decision, reviewer, tenant string) (*Admission, error) {
	route, known := b.Adapter.Route(q.Request)
	if !known {
		return nil, ErrGone
	}
	all := memproxy.Limit{All: true}
	r := g.begin(&Call{Backend: b, Request: q.Request, Route: route, Known: true, Body: q.Body, restores: true})
	r.Principal = memproxy.Principal{
		ID: reviewer, Kind: memproxy.KindHuman, Tenant: tenant, Trust: memproxy.TrustHuman, Roles: []string{"memproxy-admin", RoleReviewer},
		ActsAs: all, Users: all, Apps: all, Runs: all,
	}
	r.Decision.ID, r.confirmed, r.Inspect = decision, true, true
	for i := range admission {
		s := &admission[i]
		if !slices.Contains(puttingBack[:], s.name) || s.idle != nil && s.idle(r) {
			continue
		}
		if err := g.step(ctx, s, r); err != nil {
			g.opt.Log.ErrorContext(ctx, "gate step failed", "step", s.name, "decision", decision, "error", err)
			r.refuse(StatusUnavailable, memproxy.Reason{Code: s.broken, Detail: "memproxy could not finish ruling on a rollback"})
		}
		if r.verdict == memproxy.Deny {
			break
		}
	}
	if r.verdict == memproxy.Hold {
		r.verdict = memproxy.Amend // it was asked for by the person who would have to approve it
	}
	r.settle()
	g.record(ctx, r)
	if r.Decision.Verdict.Stops() {
		reply := b.Adapter.Refuse(q.Request, r.Decision.Shown())
		r.Reply = &reply
	}
	g.images(ctx, r)
	if r.Reply != nil {
		left(r.Admission)
	}
	return r.Admission, nil
}
