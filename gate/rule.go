package gate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/limits"
	"github.com/memproxy/memproxy/gate/paths"
	"github.com/memproxy/memproxy/gate/trust"
	"github.com/memproxy/memproxy/gate/verdict"
)

// identify determines the principal from the credentials, never from the payload.
func identify(ctx context.Context, r *evaluation) error {
	if r.call.who == nil {
		r.g.Identify(ctx, r.call)
	}
	p, err := r.call.who.principal, r.call.who.err
	if no, is := errors.AsType[*memproxy.CredentialError](err); is {
		r.Principal = memproxy.Principal{Kind: memproxy.KindAnonymous, Trust: memproxy.TrustAnonymous}
		if r.call.NoMemoryAccess && r.call.Flaw == nil && r.rules.Profile == Development {
			return nil // requests that touch no memory need no identity in development
		}
		r.verdict.Refuse(memproxy.StatusUnauthorized, memproxy.Reason{Code: no.Code, Detail: no.Detail})
		return nil
	}
	if err != nil {
		return err
	}
	r.Principal = p
	return nil
}

// identified is the result of identifying a call's credentials.
type identified struct {
	principal memproxy.Principal
	err       error
}

// Identify determines the principal of a call from its headers alone, and reports
// whether the listener should read the body: the caller is accepted, or the rules are
// not enforced. Admit reuses the result.
func (g *Gate) Identify(ctx context.Context, c *Call) bool {
	p, err := g.opt.Identifier.Identify(ctx, c.Credentials)
	c.who = &identified{p, err}
	rules := g.rules.Load()
	return err == nil || !rules.Enforce || c.ObserveOnly || c.NoMemoryAccess && rules.Profile == Development
}

// Knows reports whether credentials identify a caller. It is for public routes, which
// are not ruled on.
func (g *Gate) Knows(ctx context.Context, c memproxy.Credentials) bool {
	_, err := g.opt.Identifier.Identify(ctx, c)
	return err == nil
}

// decode reads the payload. A payload that cannot be read is refused, never passed on.
// For a request that touches no memory decode reads only the head, so that the owners
// that it names are checked. An anonymous caller of such a request, allowed in the
// development profile only, has no limits to check.
func decode(_ context.Context, r *evaluation) error {
	c := r.call
	body := c.Body
	switch {
	case c.Flaw != nil:
		r.verdict.Malformed(c.Flaw)
		return nil
	case c.NoMemoryAccess && r.Principal.ID == "":
		return nil
	case c.NoMemoryAccess:
		body = nil
	case !c.Known:
		refuseUnknownRoute(r)
		return nil
	}
	var op *memproxy.Operation
	if !c.Known {
		op = &memproxy.Operation{Kind: memproxy.Other, Route: c.Route.ID}
	} else if read, err := c.Backend.Adapter.Decode(c.Route, c.Request, body); err == nil {
		op = read
	} else {
		return r.verdict.Unreadable(err)
	}
	if much := limits.TooMuch(op); much != "" && !c.NoMemoryAccess {
		r.verdict.Refuse(memproxy.StatusTooLarge, memproxy.Reason{Code: memproxy.PayloadTooMany, Detail: "the request names " + much})
		return nil
	}
	if flaw := cmp.Or(limits.Trimmed(op), content.OtherObjectChange(op)); flaw != nil {
		r.verdict.Malformed(flaw)
		return nil
	}
	op.Backend, op.Backdated = c.Backend.Name, trust.Backdating(op.Backdated, arrivalTime(r.Admission))
	r.op = op
	if !c.NoMemoryAccess {
		noteRemoved(r)
	}
	return nil
}

// noteRemoved reports the removal of memproxy's own keys, and of names that neither
// memproxy nor the backend knows.
func noteRemoved(r *evaluation) {
	if len(r.op.Reserved) > 0 {
		r.verdict.Amend(memproxy.PayloadReserved, r.op.Reserved[0], "keys that begin with "+memproxy.StampPrefix+" are memproxy's own and were removed")
	}
	if len(r.op.Unclaimed) > 0 {
		r.verdict.Amend(memproxy.PayloadUnclaimed, r.op.Unclaimed[0], "neither memproxy nor the backend uses this member, so it was removed")
	}
}

// refuseUnknownRoute rules on a request to a route that the adapter does not know. A request
// that could write is refused in every profile; a read passes in development,
// because a newer backend may have routes that this version does not know, unless a
// server could serve a known route for it.
func refuseUnknownRoute(r *evaluation) {
	if r.rules.Profile != Development || !safe(r.call.Request.Method) || !onlyUnknown(r.call.Backend.Adapter, r.call.Request) {
		r.verdict.Forbid(memproxy.RouteUnknown, "", "memproxy does not know this route, so it cannot check the request; "+unknownHint(r.call.Backend.Adapter, r.call.Request))
	}
}

// onlyUnknown reports whether no server takes a path without a row for one of the adapter's
// routes, by slashes, dot segments or encoded characters, which only ids may have. Servers whose
// routes are regular expressions take a line end after a route's path for its end. To a
// slash too many or too few at the end the known servers answer 404 or redirect.
func onlyUnknown(a backend.Adapter, req memproxy.Request) bool {
	path, err := url.PathUnescape(req.EscapedPath)
	escaped := req.EscapedPath
	req.EscapedPath = path
	_, known := a.Route(req)
	return err == nil && !known && paths.Flaw(path) == "" && !strings.ContainsAny(path, "?#") && !strings.ContainsFunc(path, unicode.IsControl) && strings.Count(path, "/") == strings.Count(escaped, "/")
}

// unknownHint says how to repeat a request that has no row: the path may have one for another
// method.
func unknownHint(a backend.Adapter, req memproxy.Request) string {
	other := req
	for _, other.Method = range [...]string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		if _, ok := a.Route(other); ok {
			return "it knows the path with the method " + other.Method + ": check the method"
		}
	}
	return paths.Hint(req.EscapedPath, func(path string) bool {
		req.EscapedPath = path
		_, ok := backend.NormalizedRoute(a, req)
		return ok
	})
}

func safe(method string) bool { return method == "GET" || method == "HEAD" || method == "OPTIONS" }

// clamp removes attributions of the content that the caller may not make, and limits
// every claimed confidence (gate/trust): by the caller's tier and track record, by the
// source, and by the confidence that the caller gave to the same text before.
func clamp(ctx context.Context, r *evaluation) error {
	op, q, ceilings := r.op, &r.q, r.rules.Ceilings
	for i := range op.Attributions {
		if at := &op.Attributions[i]; !trust.MayAttribute(ceilings, &r.Principal, &op.Scope, at) {
			at.Removed = true
			r.verdict.Amend(memproxy.TrustAttribution, at.Pointer,
				"claims an author or a trust level that this caller may not claim; it was removed")
		}
	}
	r.attestation = trust.Attest(op, r.g.readers.Of(readerOf(r.Admission)))
	loadTrack(ctx, r)
	q.Attestation, q.Track = r.attestationOf(nil), r.track.Factor()
	limit := trust.LimitOf(ceilings, r.Principal.Trust, op.SourceClaim, r.track)
	for i := range r.changedMemories {
		if w := &r.changedMemories[i]; w.Own {
			limit.Repeats(w.row.Confidence, w.Attestation, q.Attestation)
		}
	}
	if texts := trust.Texts(op); len(texts) > 0 {
		said, _, err := r.g.opt.Ledger.Retraction(ctx, r.Principal.Tenant, r.Principal.Account(), texts, r.begun.Add(-retractionPeriod))
		if err != nil {
			ledgerFailed(ctx, r, err, "the caller's earlier writes cannot be looked up")
			return nil
		}
		limit.Repeats(said.Confidence, said.Attestation, q.Attestation)
	}
	var lowered []memproxy.Reason
	q.Confidence, q.Claimed, lowered = limit.Clamp(op.ConfidenceClaims)
	if len(op.ConfidenceClaims) == 0 {
		r.verdict.Note(lowered...) // this does not change the payload
	} else if len(lowered) > 0 {
		r.verdict.Add(memproxy.Amend, lowered...)
	}
	r.clamped = true
	return nil
}

// retractionPeriod is how long an author's retraction of a text limits the confidence with
// which the author can write the text again.
const retractionPeriod = 30 * 24 * time.Hour

// rule asks the policy. An error of the policy denies.
func rule(ctx context.Context, r *evaluation) error {
	r.q.Principal, r.q.Operation, r.q.Profile = r.Principal, r.op, string(r.rules.Profile)
	r.q.Governance, r.q.AttachedItems = r.rules.Governance, content.AttachedItems(r.op, attachedTargets(r.call, r.op))
	addAuthors(r)
	r.q.Ceiling = r.rules.Ceilings.Ceiling(r.Principal.Trust, "")
	ruling, err := ruleOn(ctx, r, r.q)
	if err != nil {
		return err
	}
	if r.op.Administers && r.op.Kind != memproxy.Admin {
		if err := administers(ctx, r); err != nil {
			return err
		}
	}
	if err := reword(ctx, r, &ruling); err != nil {
		return err
	}
	admitFlagged(r, &ruling)
	refuseDerived(ctx, r)
	addPointers(r.op, ruling.Reasons)
	refuseHeldRun(r, &ruling)
	r.verdict.Ruled(&ruling)
	if !ruling.Verdict.Stops() {
		r.marks = codesOf(ruling.Marks)
		r.verdict.Note(ruling.Marks...)
	}
	explainFindings(r, ruling.Reasons)
	if has(ruling.Shadow, memproxy.PolicyError) {
		r.g.opt.Log.WarnContext(ctx, "a policy that is not enforced could not be evaluated; enforced it would deny", "decision", r.Decision.ID)
	}
	return nil
}

// ruleOn asks the policy. What cannot wait is denied where it would be held.
func ruleOn(ctx context.Context, r *evaluation, q memproxy.Question) (memproxy.Ruling, error) {
	ruling, err := r.rules.Policy.Rule(ctx, q)
	if err != nil || canWait(r) {
		return ruling, err
	}
	for _, v := range []*memproxy.Verdict{&ruling.Verdict, &ruling.ShadowVerdict} {
		if *v == memproxy.Hold {
			*v = memproxy.Deny
		}
	}
	return ruling, nil
}

// administers asks the policy whether the caller may administer, for an operation
// with an administrative part. If a caller who configures agents may not, its read
// that asks for secrets is answered without them instead of being refused.
func administers(ctx context.Context, r *evaluation) error {
	op, q := *r.op, r.q
	op.Kind, q.Operation = memproxy.Admin, &op
	ruling, err := ruleOn(ctx, r, q)
	if err != nil {
		return err
	}
	if ruling.Verdict.Stops() && r.mayConfigure() && safe(r.call.Request.Method) {
		r.op.Administers = false
		return nil
	}
	addPointers(&op, ruling.Reasons)
	refuseHeldRun(r, &ruling)
	r.verdict.Ruled(&ruling)
	return nil
}

func refuseHeldRun(r *evaluation, ruling *memproxy.Ruling) {
	if ruling.Verdict == memproxy.Hold && runsAgent(r.call) {
		r.verdict.Forbid(memproxy.RunUngated, "", "the write requires review, and an agent's run cannot be held: its writes are checked while its caller is connected")
	}
}

// addPointers gives reasons without a pointer that of the first member they are about.
func addPointers(op *memproxy.Operation, reasons []memproxy.Reason) {
	for i := range reasons {
		switch why := &reasons[i]; {
		case why.Pointer != "":
		case why.Code == memproxy.PolicyAdmin:
			why.Pointer = op.AdministersAt
		case why.Code == memproxy.PolicySteering:
			if n := slices.IndexFunc(op.Items, func(it memproxy.Item) bool { return it.Kind == memproxy.ItemSteering }); n >= 0 {
				why.Pointer = op.Items[n].Pointer
			}
		case why.Code == memproxy.TrustBackdated && len(op.Backdated) > 0:
			why.Pointer = op.Backdated[0].Pointer
		}
	}
}

// asking returns a policy question about an operation, without screening findings and
// without the authors whose memories it changes.
func (a *Admission) asking(op *memproxy.Operation) memproxy.Question {
	return memproxy.Question{
		Principal: a.Principal, Operation: op, Profile: string(a.rules.Profile), Governance: a.rules.Governance,
		Ceiling: a.rules.Ceilings.Ceiling(a.Principal.Trust, ""),
	}
}

// refuseAdministration refuses an administrative request of a caller who may not administer. It runs
// before the names in the request are looked up, so that the refusal does not reveal
// what exists.
func refuseAdministration(ctx context.Context, r *evaluation) (bool, error) {
	if r.op.Kind != memproxy.Admin || !r.enforced() {
		return false, nil
	}
	q := r.asking(r.op)
	ruling, err := ruleOn(ctx, r, q)
	if err != nil || ruling.Verdict != memproxy.Deny {
		return false, err
	}
	r.q = q // its facts are recorded, so that a replay can ask newer rules
	ruling.Shadow, ruling.ShadowVerdict = nil, memproxy.Allow
	r.verdict.Ruled(&ruling)
	return true, nil
}

func decide(_ context.Context, r *evaluation) error {
	r.makeDecision()
	return nil
}

func (r *evaluation) makeDecision() {
	r.decided = true
	if r.mode == restore && r.verdict.Worst == memproxy.Hold {
		r.verdict.Worst = memproxy.Amend // the requester is the reviewer who would approve it
	}
	verdict.Sort(r.verdict.Shadow)
	r.verdict.Reasons, r.verdict.Notes = r.verdict.Decisive()
	d := &r.Decision
	d.ShadowVerdict = max(r.verdict.Worst, r.verdict.ShadowVerdict)
	d.Verdict = r.verdict.Worst
	d.Reasons = r.verdict.Reasons
	d.Status = r.verdict.Status
	if !r.enforced() {
		// Forwarded as received: not even our own changes are made.
		d.Verdict = memproxy.Allow
		d.Status = 0
		r.Body, r.Query, r.Changed = r.call.Body, r.call.Request.Query, false
	}
	d.Notes = append(r.verdict.Notes, limits.Reasons(r.verdict.Shadow, 0)...)
	if d.Verdict.Stops() && d.Status == 0 {
		d.Status = memproxy.StatusForbidden
	}
	forwarded := r.enforced() && !d.Verdict.Stops()
	r.Inspect = forwarded && r.inspects()
	r.ErrorsByStatus = forwarded && !r.Inspect && r.call.Known && r.rules.Unclaimed != UnclaimedPass
}

func encode(_ context.Context, r *evaluation) error {
	op := r.op
	if op.Kind == memproxy.Learn || op.Kind == memproxy.Correct {
		op.Stamp, op.SignStamp = new(stampOf(r)), r.signStamp
	}
	body, query, err := r.call.Backend.Adapter.Encode(r.call.Route, r.call.Request, r.reworded.toSend(r.call.Body), op)
	if err != nil {
		return r.verdict.Unreadable(err)
	}
	r.Changed = query != r.call.Request.Query || !bytes.Equal(body, r.call.Body)
	r.Body, r.Query = body, query
	return nil
}
