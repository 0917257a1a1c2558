package gate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/limits"
	"github.com/memproxy/memproxy/gate/tamper"
)

// ErrRouteGone says that the adapter no longer has the route of a held write.
var ErrRouteGone = errors.New("gate: the route of the held write is unknown")

// Reviewed rules on requests that reviewers cause, and records their results:
// approved held writes, and restored versions of memories.
type Reviewed struct{ *Gate }

// Reviewed returns the part of the gate that carries out reviewers' decisions.
func (g *Gate) Reviewed() Reviewed { return Reviewed{g} }

// callOf returns a held write as the call that its author made. The error is ErrRouteGone if
// the adapter would now take it for another one.
func callOf(b Backend, h *memproxy.HeldWrite, content *memproxy.HoldContent) (*Call, error) {
	req := memproxy.Request{Method: h.Method, EscapedPath: h.EscapedPath, Query: content.Query, Header: content.Header}
	if req.Header == nil {
		req.Header = memproxy.Header{}
	}
	route, known := b.Adapter.Route(req)
	if !known || route.ID != h.Route {
		return nil, ErrRouteGone
	}
	return &Call{Backend: b, Request: req, Route: route, Known: true, Body: content.Body, Credentials: memproxy.Credentials{Session: memproxy.NameSession(h.Session)}}, nil
}

func (g Reviewed) evaluationOf(m mode, b Backend, h memproxy.HeldWrite, content memproxy.HoldContent) (*evaluation, error) {
	c, err := callOf(b, &h, &content)
	if err != nil {
		return nil, err
	}
	r := g.begin(m, c)
	r.Decision.ID, r.heldWrite = h.ID, &h
	return r, nil
}

// Replay admits an approved held write: unchanged, in its author's name and under
// its own decision, with the attestation of the person who approved it. Policy and
// screening are not asked again, because a person has decided. The record names the
// reviewer. The caller treats the admission like one of Admit.
func (g Reviewed) Replay(ctx context.Context, b Backend, h memproxy.HeldWrite, content memproxy.HoldContent) (*Admission, error) {
	r, err := g.evaluationOf(replay, b, h, content)
	if err != nil {
		return nil, err
	}
	r.Principal = authorWithoutLimits(h, content)
	if runsAgent(r.call) { // it was held by a version that did not refuse such requests
		r.verdict.Forbid(memproxy.RunUngated, "", "an agent's run cannot be sent after a review, because its writes would not be checked")
	}
	r.confirmed, r.Inspect = !h.ByRules(), true
	r.heldContent = content
	r.verdict.Note(memproxy.Reason{Code: memproxy.ReviewApproved, Detail: "approved by " + h.Reviewer})
	r.walk(ctx)
	return r.Admission, nil
}

// refuseUnseen refuses an approved write that brings or moves existing memories if one
// has another text than the reviewers saw.
func refuseUnseen(r *evaluation) {
	if r.mode != replay || len(r.heldContent.Texts) == 0 {
		return
	}
	for _, it := range content.Screened(r.op, attachedTargets(r.call, r.op))[len(r.op.Items):] {
		seen := slices.ContainsFunc(r.heldContent.Texts, func(s memproxy.HeldText) bool { return s.Text == it.Text })
		if it.Target != "" && !seen {
			r.verdict.Forbid(memproxy.TrustAuthority, "target:"+it.Target, "the memory was changed after the write was held, so the reviewer did not see its current text")
			return
		}
	}
}

// authorWithoutLimits returns the author of a held write without limits on whom it may name,
// because the names were ruled on when the write arrived.
func authorWithoutLimits(h memproxy.HeldWrite, content memproxy.HoldContent) memproxy.Principal {
	p := memproxy.Principal{ID: h.Principal, Tenant: h.Tenant, Trust: h.Trust}
	if content.Author != nil { // older holds were stored without their author
		p = *content.Author
	}
	for _, l := range [...]*memproxy.Limit{&p.ActsAs, &p.Users, &p.Apps, &p.Runs} {
		l.All = true
	}
	return p
}

// Reevaluate applies the current rules to a held write, as if its author wrote it
// now. Nothing is charged, recorded, changed or sent, except for side requests to
// the backend. After an error it can be tried again, unless the error is ErrRouteGone.
func (g Reviewed) Reevaluate(ctx context.Context, b Backend, h memproxy.HeldWrite, content memproxy.HoldContent) (memproxy.Reevaluation, error) {
	r, err := g.evaluationOf(recheck, b, h, content)
	if err != nil {
		return memproxy.Reevaluation{}, err
	}
	r.Principal = authorWithoutLimits(h, content)
	if content.Author != nil {
		r.Principal = *content.Author
	}
	r.walk(ctx)
	if r.verdict.Status >= memproxy.StatusUnavailable { // a failed step is not a verdict
		return memproxy.Reevaluation{}, errors.New("gate: a held write could not be evaluated: " + r.verdict.Reasons[0].Detail)
	}
	v := memproxy.Reevaluation{Verdict: r.verdict.Worst, Reasons: slices.Concat(r.verdict.Reasons, r.verdict.Notes), Findings: r.findings, Policy: r.Decision.Policy, Score: memproxy.Risk(r.findings)}
	// A write that the rules would admit under a restricting status, or on which a
	// policy fails, keeps waiting: only an unconditional result settles a hold. So
	// does a rewritten write: a person has to decide on it.
	if r.flaggedAs != "" || has(r.verdict.Reasons, memproxy.PolicyError) || len(content.Rewritten) > 0 && !v.Verdict.Stops() {
		v.Verdict = memproxy.Hold
	}
	return v, nil
}

// AdmitRestore rules on a request with which a reviewer restores a version of an object,
// under the rollback's decision. The current rules may refuse a version that earlier
// rules admitted. Reviewers may administer what they review. The caller treats the
// admission like one of Admit; it is never held, because a person has requested it.
func (g Reviewed) AdmitRestore(ctx context.Context, b Backend, q memproxy.SideRequest, decision, reviewer, tenant string) (*Admission, error) {
	route, known := b.Adapter.Route(q.Request)
	if !known {
		return nil, ErrRouteGone
	}
	r := g.begin(restore, &Call{Backend: b, Request: q.Request, Route: route, Known: true, Body: q.Body, restores: true})
	all := memproxy.Limit{All: true}
	r.Principal = memproxy.Principal{
		ID: reviewer, Kind: memproxy.KindHuman, Tenant: tenant, Trust: memproxy.TrustHuman, Roles: []string{memproxy.RoleAdmin, memproxy.RoleReviewer},
		ActsAs: all, Users: all, Apps: all, Runs: all,
	}
	r.Decision.ID, r.confirmed, r.Inspect = decision, true, true
	r.walk(ctx)
	return r.Admission, nil
}

// FindWrite asks the backend whether an approved write with an unknown outcome arrived, and
// returns the ids of its memories. If known is false, or after an error, the outcome
// stays unknown.
func (g Reviewed) FindWrite(ctx context.Context, b Backend, h memproxy.HeldWrite, content memproxy.HoldContent) (ids []string, known bool, err error) {
	if b.Fetch == nil {
		return nil, false, nil
	}
	c, err := callOf(b, &h, &content)
	if err != nil {
		return nil, false, err
	}
	op, err := b.Adapter.Decode(c.Route, c.Request, content.Body)
	if err != nil {
		return nil, false, err
	}
	if op.Kind == memproxy.Correct || op.Kind == memproxy.Forget {
		return changeArrived(ctx, g.Gate, c, op, &h, content)
	}
	seeker, ok := b.Adapter.(backend.Extractor)
	if !ok {
		return nil, false, nil
	}
	all := 0
	for page := 1; page <= maxSought; page++ {
		q, ok := seeker.StampSearchRequest(c.Route, c.Request, op, page)
		if !ok {
			return nil, false, nil
		}
		reply, err := b.fetchOne(ctx, q)
		if err != nil || !memproxy.IsSuccess(reply.Status) {
			return nil, false, err
		}
		ids, of, more, err := seeker.ReadStampSearch(reply, h.ID)
		if err != nil || len(ids) > 0 {
			return ids, err == nil, err
		}
		if page > 1 && of != all {
			return nil, false, errors.New("the list changed while it was read")
		}
		all = of
		if !more {
			return ids, true, nil
		}
	}
	return nil, false, errors.New("the list is too long")
}

// changeArrived fetches the targets of an approved change or deletion. The change arrived
// if all targets are deleted, or have its stamp or its text. It did not arrive if all of them
// still have the texts that it replaces, or that it deletes. Otherwise the outcome is unknown.
func changeArrived(ctx context.Context, g *Gate, c *Call, op *memproxy.Operation, h *memproxy.HeldWrite, held memproxy.HoldContent) (ids []string, known bool, err error) {
	targets := slices.Clone(op.Targets)
	if len(targets) == 0 {
		targets = content.Replaced(op)
	}
	targets = slices.DeleteFunc(targets, func(id string) bool { return slices.Contains(op.Kept, id) })
	cannotFetch := func(id string) bool { return c.Backend.Adapter.Locate(c.Route, c.Request, id).EscapedPath == "" }
	if len(targets) == 0 || len(targets) > maxImages || slices.ContainsFunc(targets, cannotFetch) {
		return nil, false, nil
	}
	found, err := fetch(ctx, c, targets)
	if err != nil {
		return nil, false, err
	}
	untouched := 0
	for _, name := range targets {
		m, id := found[name], cmp.Or(held.Objects[name], name)
		before, now := held.Before[id], memproxy.Hash(m.Text)
		text, _ := content.TargetItems(op, name)
		switch {
		case !m.Missing && m.ID != id: // the name refers to another object by now
		case tamper.IsAsLeftBy(g.opt.Signer, h.Tenant, h.ID, op.Kind, &m):
			ids = append(ids, id)
		case m.Missing, m.Unproven, m.Text == "" && m.Members == nil:
		case op.Kind == memproxy.Forget:
			untouched++
		case text == nil || text.Target != name || m.IsContainer || before == "" || memproxy.Hash(text.Text) == before: // its text does not tell
		case memproxy.Hash(text.Text) == now:
			ids = append(ids, id)
		case before == now:
			untouched++
		}
	}
	return ids, len(ids) == len(targets) || untouched == len(targets), nil
}

// maxSought bounds the pages that are read in search of a write.
const maxSought = 50

// RestoredStamp returns the signed stamp of a restored memory: author, text and
// confidence of that version, under the rollback's decision.
func (g Reviewed) RestoredStamp(to memproxy.Version, decision string) memproxy.Stamp {
	return g.opt.Signer.Sign(memproxy.Stamp{
		ID: decision, Actor: to.Actor, Tenant: to.Tenant, Trust: to.Trust, Confidence: to.Confidence, Source: memproxy.SourceUnstated,
		Attestation: to.Attestation, Time: g.opt.Clock().UTC().Truncate(time.Second), SHA256: memproxy.Hash(to.Text),
		Trigger: "rollback",
	})
}

// StepAnswer is the result of one step for a call.
type StepAnswer struct {
	Step    string            `json:"step"`
	Verdict memproxy.Verdict  `json:"verdict"`
	Reasons []memproxy.Reason `json:"reasons,omitempty"`
	Error   string            `json:"error,omitempty"`
	// Findings are what the step found and where, the worst first.
	Findings []FoundAt `json:"findings,omitempty"`
}

// FoundAt is a finding with the place of its item in the payload.
type FoundAt struct {
	memproxy.Finding
	Pointer string `json:"pointer"`
}

func foundAt(r *evaluation, findings []memproxy.Finding) []FoundAt {
	out := make([]FoundAt, 0, len(findings))
	items := content.Screened(r.op, attachedTargets(r.call, r.op))
	for _, f := range findings {
		at := FoundAt{Finding: f}
		if f.Item >= 0 && f.Item < len(items) {
			at.Pointer = items[f.Item].Pointer
		}
		out = append(out, at)
	}
	return out
}

// Explanation is what the gate would do with a call, step by step.
type Explanation struct {
	Decision  memproxy.Decision
	Principal memproxy.Principal
	Operation *memproxy.Operation
	Question  memproxy.Question
	Lines     []memproxy.Line
	// Track is the caller's track record, if it was loaded. Question.Track is its factor.
	Track    memproxy.Track
	Steps    []StepAnswer
	Enforced bool
	// Locks are the ids of the rejection records that could lock the write, and
	// Lock is the one that does, if any.
	Locks []string
	Lock  memproxy.Lock
	// Filters are the filters that an answer would pass, in order, or none if the
	// answer is passed on unread.
	Filters []Filter
}

// Explain runs the steps without side effects: nothing is charged, recorded or sent.
// Unlike Admit it continues after a refusal, so that it returns the result of every step.
func (g *Gate) Explain(ctx context.Context, c *Call) Explanation {
	r := g.begin(explain, c)
	ex := Explanation{Enforced: r.enforced()}
	reasons, notes, strictest := 0, 0, memproxy.Allow
	r.after = func(s *step, err error) {
		answer := StepAnswer{Step: s.name, Verdict: r.verdict.Worst}
		if err != nil {
			answer.Error = err.Error()
		}
		if s.name == "gate.screen" && len(r.findings)+len(r.configured) > 0 {
			answer.Findings = foundAt(r, slices.Concat(limits.Worst(r.findings, len(r.findings)), r.configured))
		}
		answer.Reasons = append(append(answer.Reasons, r.verdict.Reasons[reasons:]...), r.verdict.Notes[notes:]...)
		ex.Steps = append(ex.Steps, answer)
		reasons, notes, strictest = len(r.verdict.Reasons), len(r.verdict.Notes), max(strictest, r.verdict.Worst)
		r.verdict.Worst = memproxy.Allow
	}
	r.walk(ctx)
	r.verdict.Worst = strictest
	r.makeDecision()
	ex.Track = r.track
	if reply, ok := heldReply(r); ok && r.Decision.Verdict == memproxy.Hold {
		r.Decision.Status = reply.Status
	}
	ex.Decision, ex.Principal, ex.Operation, ex.Question = r.Decision, r.Principal, r.op, r.q
	if r.inspects() {
		ex.Filters = Filters()
	}
	if writes(r) {
		ex.Locks = rejectionRecords(r)
		if lock, err := g.opt.Ledger.SessionLocked(ctx, r.Principal.Tenant, ex.Locks...); err == nil {
			ex.Lock = lock
		}
	}
	if r.bill != nil {
		ex.Lines = r.bill.charge.Lines
	}
	return ex
}
