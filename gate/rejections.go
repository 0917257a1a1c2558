package gate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/flood"
	"github.com/memproxy/memproxy/gate/limits"
)

// namedSession returns the session that the caller names, or the run in the payload.
func (a *Admission) namedSession() string {
	if name := a.call.Session.String(); name != "" || a.op == nil {
		return name
	}
	return memproxy.NameSession(a.op.Scope.Run).String()
}

// endUser returns the end user on whose behalf an operation is made: the user in the
// payload, else the only user among the owners of its targets, else "".
func (a *Admission) endUser() string {
	if a.op == nil {
		return ""
	}
	user := a.op.Scope.User
	if user != "" {
		return user
	}
	for _, row := range a.owners {
		if u := row.Scope.User; u != "" && user != "" && u != user {
			return ""
		} else if u != "" {
			user = u
		}
	}
	return user
}

// scopeOf returns whose an operation is: the owner in the payload, else what the owners of its
// targets have in common. A held change of memories by id is theirs like one that names them.
func scopeOf(a *Admission) memproxy.Scope {
	if a.op.Scope.HasOwner() || len(a.owners) == 0 {
		return a.op.Scope
	}
	var common *memproxy.Scope
	for _, row := range a.owners {
		s := row.Scope
		if common != nil {
			s = s.Common(*common)
		}
		common = &s
	}
	common.Tenant = a.op.Scope.Tenant
	return *common
}

// rejectionRecords returns the ids of the rejection records for a write: of its session, if it
// has one, of the principal for the end user, and of the principal as a whole. The session
// is the one that the caller names, the run in the payload, or, if agents run inside the
// backend, the agent. For a tool call session and user are those of the run. People read
// these ids in reviews and notices, so a user name that could be a sentence is replaced by
// its hash.
func rejectionRecords(r *evaluation) []string {
	a := cmp.Or(r.run, r.Admission)
	session, who, user := a.namedSession(), r.Principal.Account(), memproxy.Inert(a.endUser())
	if _, runs := r.call.Backend.Adapter.(backend.AgentRunner); session == "" && runs && r.run == nil {
		session = memproxy.Inert(r.op.Scope.Agent)
	}
	ids := []string{
		memproxy.SessionKey{Kind: memproxy.SessionUser, Principal: who, User: user}.ID(),
		memproxy.SessionKey{Kind: memproxy.SessionPrincipal, Principal: who}.ID(),
	}
	if session != "" {
		named := memproxy.SessionKey{Kind: memproxy.SessionNamed, Principal: r.Principal.ID, User: user, Name: session}
		ids = slices.Insert(ids, 0, named.ID())
	}
	return ids
}

// checkSessionLock refuses a write if its session, its principal for this end user, or its
// principal has had too many rejections.
func checkSessionLock(ctx context.Context, r *evaluation) error {
	lock, err := r.g.opt.Ledger.SessionLocked(ctx, r.Principal.Tenant, rejectionRecords(r)...)
	if err != nil || lock.ID == "" {
		return err
	}
	whose, scope, setting := "this session's writes", "", "max_rejections"
	switch memproxy.SessionKeyOf(lock.ID).Kind {
	case memproxy.SessionUser:
		whose, scope, setting = "this caller's writes for this end user", " across sessions", "max_user_rejections"
	case memproxy.SessionPrincipal:
		whose, scope, setting = "this caller's writes", " across all sessions and users", "max_principal_rejections"
	}
	r.verdict.Refuse(memproxy.StatusForbidden, memproxy.Reason{Code: memproxy.SessionLocked, Detail: fmt.Sprintf(
		"%s are locked after %d rejections%s, until %s; the limit is sessions.%s, and a reviewer can unlock earlier with memproxy sessions unlock: %s",
		whose, lock.Limit, scope, lock.Until.UTC().Format(time.RFC3339), setting, lock.ID)})
	return nil
}

// countRejection counts a rejection by policy, screening or identity. It does not count requests
// that were unreadable, too large or could not be ruled on.
//
// A rejection counts in three records of the caller: its session; its writes for the
// named end user, whose lock does not affect other users of the same caller; and the
// caller as a whole, with a limit for the rejections of many users. A tool call of a
// running agent counts against the caller that runs it, in the session and for the user
// of the run. Locks are meant for callers who keep trying until something passes;
// against lists the reasons that do not indicate that.
func countRejection(ctx context.Context, r *evaluation) error {
	g, a, d := r.g, r.Admission, &r.Decision
	session, caller := countsAgainst(d.Reasons)
	ids := rejectionRecords(r)
	if !caller || d.Verdict == memproxy.Hold {
		ids = ids[:len(ids)-2] // only the session's
	}
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.StoreTimeout)
	defer cancel()
	locked, err := g.opt.Ledger.NoteSession(ctx, memproxy.SessionEvent{
		Tenant: a.Principal.Tenant, Principal: a.Principal.ID, Decision: d.ID, Verdict: d.Verdict,
		Route: a.call.Route.ID, Reasons: d.Reasons, Time: a.begun, WeakEvidence: !session,
	}, ids...)
	if err != nil {
		g.opt.Log.ErrorContext(ctx, "a rejection was not counted", "decision", d.ID, "error", err)
	}
	for _, s := range locked {
		g.opt.Log.WarnContext(ctx, "writes are locked after too many rejections", "session", s.ID, "principal", a.Principal.ID, "until", s.Until)
		ev := followUpEvent(&a.event, memproxy.EventLock, g.opt.Clock())
		ev.Detail = s.ID + " is locked until " + s.Until.UTC().Format(time.RFC3339)
		ev.Reasons = []memproxy.Reason{{Code: memproxy.SessionLocked, Rule: string(s.Kind), Detail: "too many rejections"}}
		g.accounts.recordAsync(ctx, ev)
	}
	return nil
}

// isRejection reports whether the refusal of a write counts in the caller's records. Refusals
// by the backend, and those by a lock, do not.
func isRejection(r *evaluation) bool {
	d := &r.Decision
	return writes(r) && d.Verdict.Stops() && d.Status == memproxy.StatusForbidden && r.refused == nil && !has(d.Reasons, memproxy.SessionLocked)
}

// countsAgainst reports whether the reasons of a refusal count in the session's record, and
// whether they count in the caller's records.
//
// A refusal of the operation itself, whatever its text, counts nowhere: ordinary clients
// repeat such requests at each start, and a policy edit that refuses everybody for a
// while must not lock anybody. A single kind of evidence about a text does not count
// against the caller, because an ordinary note may look like that and be written
// repeatedly: a pattern of governed fields counts in the session only, an apparent
// credential nowhere. A field that may not be written, or is too long, counts in the
// session only. Reasons that only report what was lowered, removed or found are skipped;
// a refusal without any other reason counts in the session.
func countsAgainst(reasons []memproxy.Reason) (session, caller bool) {
	var ruled, pattern, secret, field, other bool
	for _, why := range reasons {
		switch why.Code {
		case memproxy.TrustClamped, memproxy.TrustAttribution, memproxy.PayloadReserved, memproxy.PayloadUnclaimed, memproxy.ScreenFinding, memproxy.ScreenConfigured:
		case memproxy.PayloadUnseen, memproxy.RunUngated, memproxy.TrustBackdated, memproxy.FieldTrait, memproxy.LayerNamespace, memproxy.LayerInferred:
			ruled = true
		case memproxy.FieldForbidden, memproxy.FieldSize:
			field = true
		case memproxy.ScreenPattern:
			pattern = true
		case memproxy.ScreenSecret:
			secret = true
		default:
			closed := strings.HasPrefix(string(why.Code), "policy.")
			ruled, other = ruled || closed, other || !closed
		}
	}
	evidence := pattern || secret || other
	sure := field || other || pattern && secret
	return sure || pattern || !ruled && !evidence, sure && evidence
}

func has(reasons []memproxy.Reason, code memproxy.ReasonCode) bool {
	return slices.ContainsFunc(reasons, func(why memproxy.Reason) bool { return why.Code == code })
}

// DefaultRejections is the number of rejections per minute and address that are recorded
// one by one: of requests whose caller is unknown, that cannot be read, or that exceed a
// rate limit.
const DefaultRejections = 300

// maxSummaries bounds the records of one summary.
const maxSummaries = 32

// SummariseRejections records how many rejections were only counted since the last call:
// one record for each address, and one for all addresses beyond maxSummaries. It must be
// called periodically and at shutdown.
func (g *Gate) SummariseRejections(ctx context.Context) {
	sums := g.rejected.Take(g.opt.Clock())
	if len(sums) > maxSummaries {
		rest := flood.Summary{Peer: flood.Others, Since: sums[maxSummaries-1].Since}
		for _, s := range sums[maxSummaries-1:] {
			rest.N += s.N
			if s.Since.Before(rest.Since) {
				rest.Since = s.Since
			}
		}
		sums = append(sums[:maxSummaries-1], rest)
	}
	for _, s := range sums {
		detail := fmt.Sprintf("%d more rejections of %s since %s", s.N, s.Peer, s.Since.UTC().Format(time.RFC3339))
		g.accounts.recordAsync(ctx, memproxy.Event{
			Type: memproxy.EventRejections, Time: g.opt.Clock(), Policy: g.rules.Load().Version,
			Verdict: memproxy.Deny, ShadowVerdict: memproxy.Deny, Items: s.N, Claimed: -1, Confidence: -1, Detail: detail,
			Reasons: []memproxy.Reason{{Code: memproxy.LimitRejections, Detail: detail}},
		})
		g.opt.Log.WarnContext(ctx, "rejections were counted and not recorded individually", "address", s.Peer, "count", s.N, "since", s.Since)
	}
}

// rejectedStatus are the statuses of requests whose caller is unknown, that cannot be
// read, or that exceed a rate limit.
var rejectedStatus = [...]int{400, 401, 408, 413, 415, 422, 429}

// exceedsRejections reports whether a refusal exceeds the rate limit for rejections of its
// address. It is then answered briefly (429), and only counted. A refusal by the backend of
// a caller that memproxy accepts does not count.
func exceedsRejections(r *evaluation) bool {
	d := &r.Decision
	if d.Verdict != memproxy.Deny || r.dry() || has(d.Reasons, memproxy.UpstreamUnavailable) || !slices.Contains(rejectedStatus[:], d.Status) && !has(d.Reasons, memproxy.RouteUnknown) && !has(d.Reasons, memproxy.LimitInFlight) {
		return false
	}
	known := d.Status != memproxy.StatusUnauthorized
	peer := cmp.Or(strings.ToValidUTF8(limits.Clip(r.call.Peer, 64), ""), "unknown address")
	if known {
		peer = limits.Clip(r.Principal.Account(), limits.MaxShownName) + " at " + peer
	}
	over, until := r.g.rejected.Note(peer, known, r.begun)
	if !over {
		return false
	}
	limit := int64(r.g.rejected.Limit)
	d.Status = memproxy.StatusTooMany
	d.Reasons = []memproxy.Reason{{Code: memproxy.LimitRejections, Detail: fmt.Sprintf(
		"more than %d rejected requests from this caller or address within a minute; until %s further ones are counted and not recorded individually; the limit is limits.rejections",
		limit, until.UTC().Format(time.RFC3339))}}
	d.Allowance = &memproxy.Allowance{Lines: []memproxy.LineState{{
		Line: memproxy.Line{Key: "rejections", Limit: limit, Reason: memproxy.LimitRejections}, Used: limit, Reset: until,
	}}}
	r.RateLimited = true
	return true
}

// record writes the decision to the audit log, durably, and counts it. A rejection
// beyond the rate limit is only counted. If the log cannot be written, nothing is
// forwarded or held, except in shadow mode.
func record(ctx context.Context, r *evaluation) error {
	g := r.g
	flooded := r.mode == client && exceedsRejections(r)
	r.event = r.decisionEvent(ctx)
	if flooded {
		g.opt.Meter.Decided(ctx, &r.event)
		return nil
	}
	// The record must be written even if the caller hangs up.
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.StoreTimeout)
	defer cancel()
	err := g.opt.Recorder.Record(rctx, r.event)
	if err != nil {
		g.opt.Log.ErrorContext(ctx, "audit record not written", "decision", r.Decision.ID, "error", err)
		trace.SpanFromContext(ctx).SetStatus(codes.Error, string(memproxy.AuditUnavailable))
		if r.Decision.Verdict != memproxy.Deny && r.enforced() { // also for a held write, whose answer is a receipt
			g.accounts.release(ctx, r.Admission)
			r.Decision.Refuse(memproxy.StatusUnavailable, memproxy.Reason{Code: memproxy.AuditUnavailable, Detail: "the audit log cannot be written, so nothing is forwarded or held"})
			r.Decision.Notes = nil
			r.event.Verdict, r.event.ShadowVerdict, r.event.Reasons = r.Decision.Verdict, r.Decision.ShadowVerdict, r.Decision.Reasons
		}
	}
	if al := r.Decision.Allowance; al != nil {
		if !al.Granted {
			g.accounts.recordBudget(ctx, r.Admission, memproxy.EventBudgetExceeded, al)
		}
		g.accounts.recordWarnings(ctx, r.Admission, al)
	}
	g.opt.Meter.Decided(ctx, &r.event)
	if r.Decision.Verdict == memproxy.Hold {
		g.opt.Steps.At(memproxy.StepHoldRecorded)
	}
	return nil
}

func (r *evaluation) decisionEvent(ctx context.Context) memproxy.Event {
	ev := memproxy.Event{
		Type: memproxy.EventDecision, Time: r.begun, Decision: r.Decision.ID,
		Session: r.call.Session.String(), Principal: r.Principal,
		Kind: r.call.Route.Kind, Backend: r.call.Backend.Name, Route: r.call.Route.ID, Method: r.call.Request.Method,
		Verdict: r.Decision.Verdict, ShadowVerdict: r.Decision.ShadowVerdict, Reasons: r.Decision.Recorded(), Policy: r.Decision.Policy,
		Findings: limits.Worst(slices.Concat(r.findings, r.configured), maxRecorded), Claimed: -1, Confidence: -1,
	}
	if sc := trace.SpanContextFromContext(ctx); sc.HasTraceID() {
		ev.Trace = sc.TraceID().String()
	}
	if len(r.call.Body) > 0 {
		ev.ContentSHA256 = memproxy.SumInHex(sha256.Sum256(r.call.Body))
	}
	if a := r.Decision.Allowance; a != nil {
		ev.Budget, ev.Degraded = a.Lines, a.Degraded
	}
	if op := r.op; op != nil {
		ev.Scope, ev.Targets, ev.Items, ev.Fields = op.Scope, idsOf(op, op.Targets), len(op.Items), content.Governed(op)
		if ev.Session == "" {
			ev.Session = memproxy.InertSession(op.Scope.Run)
		}
		if r.q.Operation != nil {
			ev.Facts = memproxy.FactsOf(&r.q)
		}
		if r.clamped {
			ev.Confidence = r.q.Confidence
			if len(op.ConfidenceClaims) > 0 {
				ev.Claimed = r.q.Claimed
			}
		}
	}
	if r.Decision.Verdict == memproxy.Deny {
		limits.Refusal(&ev)
	}
	return ev
}

// recordAsync writes an event that follows a recorded decision to the audit log.
func (acc *accounts) recordAsync(ctx context.Context, ev memproxy.Event) {
	if err := acc.opt.Recorder.RecordAsync(ev); err != nil {
		acc.opt.Log.ErrorContext(ctx, "audit note lost", "decision", ev.Decision, "type", string(ev.Type), "error", err)
	}
}

// followUpEvent returns an event that follows a decision. It does not repeat the budget, the
// content's hash, the findings and the facts of the decision.
func followUpEvent(decision *memproxy.Event, t memproxy.EventType, at time.Time) memproxy.Event {
	ev := *decision
	ev.Type, ev.Time = t, at
	ev.Budget, ev.ContentSHA256, ev.Findings, ev.Facts = nil, "", nil, nil
	return ev
}

// recordWarnings records each line that the charge took past its warning mark.
func (acc *accounts) recordWarnings(ctx context.Context, a *Admission, al *memproxy.Allowance) {
	for _, l := range al.Lines {
		if l.Warn && l.Window == memproxy.WindowMinute {
			acc.recordBudget(ctx, a, memproxy.EventRapidWrites, al)
		} else if l.Warn {
			acc.recordBudget(ctx, a, memproxy.EventBudgetWarning, al)
		}
	}
}

func (acc *accounts) recordBudget(ctx context.Context, a *Admission, t memproxy.EventType, al *memproxy.Allowance) {
	ev := followUpEvent(&a.event, t, a.event.Time)
	ev.Budget, ev.Degraded, ev.Targets, ev.Fields = al.Lines, al.Degraded, nil, nil
	acc.recordAsync(ctx, ev)
}
