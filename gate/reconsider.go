package gate

import (
	"context"
	"fmt"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// reconsidering are the steps that say what the rules make of a held write.
// Its session, its budget and its record were those of its own time.
var reconsidering = [...]string{signal.SpanDecode, signal.SpanOwn, signal.SpanScreen, signal.SpanClamp, signal.SpanRule}

// Reconsider asks the rules in force about a held write, as if its author wrote
// it now. Nothing is charged, recorded, changed or sent, but for questions to
// the backend. An error means that there is no answer for now; ErrGone, that
// there never will be.
func (g *Gate) Reconsider(ctx context.Context, b Backend, h memproxy.HeldWrite, content memproxy.HoldContent) (memproxy.Reevaluation, error) {
	req := memproxy.Request{Method: h.Method, EscapedPath: h.EscapedPath, Query: content.Query, Header: content.Header}
	if req.Header == nil {
		req.Header = memproxy.Header{}
	}
	route, known := b.Adapter.Route(req)
	if !known || route.ID != h.Route {
		return memproxy.Reevaluation{}, ErrGone
	}
	r := g.begin(&Call{Backend: b, Request: req, Route: route, Known: true, Body: content.Body, Session: memproxy.NameSession(h.Session)})
	r.Principal, r.dry, r.asCame = authorOf(h, content), true, true
	r.Decision.ID = h.ID
	for i := range admission {
		s := &admission[i]
		if !slices.Contains(reconsidering[:], s.name) || s.idle != nil && s.idle(r) {
			continue
		}
		if err := g.step(ctx, s, r); err != nil {
			return memproxy.Reevaluation{}, fmt.Errorf("gate: step %s of a held write: %w", s.name, err)
		}
		if r.status >= StatusUnavailable { // a step that could not be finished is no verdict
			return memproxy.Reevaluation{}, fmt.Errorf("gate: step %s of a held write could not be finished", s.name)
		}
		if r.verdict == memproxy.Deny {
			break
		}
	}
	r.reasons, r.notes = r.decisive()
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

// authorOf is the principal of a held write. Of those that were kept before
// the whole of it was, nobody knows roles and limits; whom they name was ruled
// on when they came.
func authorOf(h memproxy.HeldWrite, content memproxy.HoldContent) memproxy.Principal {
	if content.Author != nil {
		return *content.Author
	}
	all := memproxy.Limit{All: true}
	return memproxy.Principal{ID: h.Principal, Tenant: h.Tenant, Trust: h.Trust, ActsAs: all, Users: all, Apps: all, Runs: all}
}
