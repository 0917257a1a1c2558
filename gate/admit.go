package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// run is one call on its way through the steps.
type run struct {
	*Admission
	g *Gate
	q memproxy.Question
	// worst is the verdict so far if everything were enforced.
	reasons []memproxy.Reason
	weights map[memproxy.Reason]memproxy.Verdict // of reasons
	notes   []memproxy.Reason                    // for the record alone
	shadow  []memproxy.Reason                    // of policies that are not enforced
	verdict memproxy.Verdict
	would   memproxy.Verdict
	status  int
	looked  *lookups            // see lookups
	inside  bool                // it is a call of a running agent
	blind   bool                // the ledger could not be asked for the targets' owners
	held    *memproxy.HeldWrite // the held write that is asked about
	// dry is set by Explain: nothing is charged, stamped or recorded, and
	// steps go on after a refusal.
	dry bool
	// asCame is set where a write is ruled on as it stands, whatever it could be
	// rewritten to.
	asCame   bool
	reworded *reworded
}

// step is one row of the pipeline. An error is breakage: it refuses the call
// with 503 and a reason of the step.
type step struct {
	name   string
	run    func(context.Context, *run) error
	broken memproxy.ReasonCode
	// idle, if set, reports that there is nothing to do; the step is then
	// neither run nor traced.
	idle func(*run) bool
}

// admission is the life of a write (and of a read, up to the backend) in
// order. A step that refuses ends it, so that later steps can rely on what
// the earlier ones established.
var admission = [...]step{
	{signal.SpanIdentify, identify, memproxy.InternalError, nil},
	{signal.SpanDecode, decode, memproxy.InternalError, nil},
	{signal.SpanBound, bound, memproxy.InternalError, free},
	{signal.SpanTenancy, tenancy, memproxy.InternalError, undecoded},
	{signal.SpanEarn, earn, memproxy.InternalError, unearned},
	{signal.SpanSession, locked, memproxy.LedgerUnavailable, unlocked},
	{signal.SpanPolled, polled, memproxy.LedgerUnavailable, unpolled},
	{signal.SpanOrder, inTurn, memproxy.InternalError, unordered},
	{signal.SpanOwn, ownUnlocked, memproxy.UpstreamUnavailable, untargeted},
	{signal.SpanScreen, screen, memproxy.InternalError, unscreened},
	{signal.SpanClamp, clamp, memproxy.InternalError, unweighed},
	{signal.SpanRule, rule, memproxy.PolicyError, undecoded},
	{signal.SpanEncode, encode, memproxy.InternalError, undecoded},
	{signal.SpanCharge, charge, memproxy.InternalError, gratis},
	{signal.SpanBind, bind, memproxy.LedgerUnavailable, unclaimed},
}

// Admit rules on a call. It returns only after the decision's audit record is
// durable; if it cannot be made durable the admission is a refusal with 503.
// Refusals are data in the Admission, never errors.
func (g *Gate) Admit(ctx context.Context, c *Call) *Admission {
	r := g.begin(c)
	for i := range admission {
		s := &admission[i]
		if s.idle != nil && s.idle(r) {
			continue
		}
		if err := g.step(ctx, s, r); err != nil {
			g.opt.Log.ErrorContext(ctx, "gate step failed", "step", s.name, "decision", r.Decision.ID, "error", err)
			r.refuse(StatusUnavailable, memproxy.Reason{Code: s.broken, Detail: "memproxy could not finish ruling on this request"})
		}
		if r.verdict.Stops() && r.enforced() {
			break
		}
	}
	g.reserve(ctx, r)
	r.settle()
	if r.flooded() {
		r.event = r.decisionEvent(ctx)
		g.opt.Meter.Decided(ctx, &r.event)
	} else {
		g.record(ctx, r)
	}
	if r.Decision.Verdict == memproxy.Hold {
		g.opt.Steps.At(memproxy.StepHoldRecorded)
	}
	g.keep(ctx, r)
	if r.Decision.Verdict == memproxy.Hold {
		g.opt.Steps.At(memproxy.StepHoldKept)
	}
	g.putAside(ctx, r)
	g.keepEvidence(ctx, r)
	g.discipline(ctx, r.Admission, sessionOf(r), r.endUser())
	g.contest(ctx, r.Admission)
	g.precede(ctx, r)
	g.images(ctx, r)
	if r.Decision.Verdict.Stops() && r.Reply == nil {
		reply := c.Backend.Adapter.Refuse(c.Request, r.Decision.Shown())
		r.Reply = &reply
	}
	r.answerPoll(ctx)
	if r.Reply != nil {
		left(r.Admission)
	}
	return r.Admission
}

func (g *Gate) begin(c *Call) *run {
	now := g.opt.Clock()
	a := &Admission{call: c, rules: g.rules.Load(), Body: c.Body, Query: c.Request.Query, begun: now}
	a.Decision.ID = g.opt.NewID()
	a.Decision.Policy = a.rules.Version
	return &run{Admission: a, g: g}
}

// step runs one step in a span of its own.
func (g *Gate) step(ctx context.Context, s *step, r *run) error {
	start := time.Now() // durations are measured on the monotonic clock, not the injected one
	ctx, span := g.opt.Tracer.Start(ctx, s.name)
	err := s.run(ctx, r)
	if err != nil {
		span.SetStatus(codes.Error, string(s.broken))
	}
	span.End()
	g.opt.Meter.Step(ctx, s.name, time.Since(start))
	return err
}

// note keeps reasons for the record. The caller never sees them.
func (r *run) note(reasons ...memproxy.Reason) { r.notes = append(r.notes, reasons...) }

// add raises the verdict and keeps the reasons, which a refusal shows.
func (r *run) add(v memproxy.Verdict, reasons ...memproxy.Reason) {
	if v == memproxy.Allow {
		r.note(reasons...)
		return
	}
	r.verdict = max(r.verdict, v)
	r.reasons = append(r.reasons, reasons...)
	if r.weights == nil {
		r.weights = make(map[memproxy.Reason]memproxy.Verdict, len(reasons))
	}
	for _, why := range reasons {
		r.weights[why] = max(r.weights[why], v)
	}
}

// decisive puts the reasons in the order in which they are recorded and shown:
// first those that led to the verdict, so that the first of all is why. Notes
// come apart from them.
func (r *run) decisive() (reasons, notes []memproxy.Reason) {
	led, lesser := r.reasons[:0:0], r.reasons[:0:0]
	for _, why := range r.reasons {
		if r.weights[why] == r.verdict {
			led = append(led, why)
		} else {
			lesser = append(lesser, why)
		}
	}
	sortReasons(led)
	sortReasons(lesser)
	sortReasons(r.notes)
	led = boundReasons(led)
	reasons = append(led, boundNoted(lesser, len(led))...)
	return reasons, boundNoted(r.notes, len(reasons))
}

// refuse denies with an HTTP status.
func (r *run) refuse(status int, reasons ...memproxy.Reason) {
	r.add(memproxy.Deny, reasons...)
	if r.status == 0 {
		r.status = status
	}
}

// settle turns what the steps found into the decision.
func (r *run) settle() {
	sortReasons(r.shadow)
	r.reasons, r.notes = r.decisive()
	d := &r.Decision
	d.Would = max(r.verdict, r.would)
	d.Verdict = r.verdict
	d.Reasons = r.reasons
	d.Status = r.status
	if !r.enforced() {
		// Forwarded as it came: not even our own changes are made.
		d.Verdict = memproxy.Allow
		d.Status = 0
		r.Body, r.Query, r.Changed = r.call.Body, r.call.Request.Query, false
	}
	d.Notes = append(r.notes, boundReasons(r.shadow)...)
	if d.Verdict.Stops() && d.Status == 0 {
		d.Status = StatusForbidden
	}
	forwarded := r.enforced() && !d.Verdict.Stops()
	r.Inspect = forwarded && r.inspects()
	r.ErrorsByStatus = forwarded && !r.Inspect && r.call.Known && r.call.Backend.closed(r.rules)
}

// inspects reports whether the adapter can and must read the answer. Of what
// touches no memory it is read where it has members, which somebody must claim;
// what is listed as passthrough has no row that could.
func (r *run) inspects() bool {
	switch {
	case r.op == nil:
		return false
	case r.call.Passed:
		return r.call.Known && r.call.Backend.structured(r.call.Route)
	}
	_, ok := r.call.Backend.Adapter.(Reader)
	return ok
}

// record writes the decision to the audit log and the span, and counts it.
func (g *Gate) record(ctx context.Context, r *run) {
	start := time.Now()
	ctx, span := g.opt.Tracer.Start(ctx, signal.SpanRecord)
	r.event = r.decisionEvent(ctx)
	// A caller that hangs up must not thereby stay out of the record.
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.opt.RecordTimeout)
	defer cancel()
	if _, err := g.opt.Recorder.Record(rctx, r.event); err != nil {
		span.SetStatus(codes.Error, string(memproxy.AuditUnavailable))
		g.opt.Log.ErrorContext(ctx, "audit record not written", "decision", r.Decision.ID, "error", err)
		if !r.Decision.Verdict.Stops() && r.enforced() {
			g.release(ctx, r.Admission)
			r.Decision.Verdict, r.Decision.Status = memproxy.Deny, StatusUnavailable
			r.Decision.Reasons = []memproxy.Reason{{Code: memproxy.AuditUnavailable, Detail: "the audit log cannot be written, so nothing is forwarded"}}
			r.Decision.Notes = nil
			r.event.Verdict, r.event.Would, r.event.Reasons = r.Decision.Verdict, r.Decision.Verdict, r.Decision.Reasons
		}
	}
	span.End()
	g.opt.Meter.Step(ctx, signal.SpanRecord, time.Since(start))
	g.budgetEvents(ctx, r)
	g.opt.Meter.Decided(ctx, &r.event)
}

func (r *run) decisionEvent(ctx context.Context) memproxy.Event {
	ev := memproxy.Event{
		Type: memproxy.EventDecision, Time: r.begun, Decision: r.Decision.ID,
		Session: r.call.Session.String(), Principal: r.Principal,
		Kind: r.call.Route.Kind, Backend: r.call.Backend.Name, Route: r.call.Route.ID, Method: r.call.Request.Method,
		Verdict: r.Decision.Verdict, Would: r.Decision.Would, Reasons: r.Decision.Recorded(), Policy: r.Decision.Policy,
		Findings: worst(slices.Concat(r.findings, r.configured), maxRecorded), Claimed: -1, Confidence: -1,
	}
	if sc := trace.SpanContextFromContext(ctx); sc.HasTraceID() {
		ev.Trace = sc.TraceID().String()
	}
	if len(r.call.Body) > 0 {
		sum := sha256.Sum256(r.call.Body)
		ev.ContentSHA256 = hex.EncodeToString(sum[:])
	}
	if a := r.Decision.Allowance; a != nil {
		ev.Budget, ev.Degraded = a.Lines, a.Degraded
	}
	if op := r.op; op != nil {
		ev.Scope, ev.Targets, ev.Items, ev.Fields = op.Scope, op.Targets, len(op.Items), governed(op)
		if ev.Session == "" {
			ev.Session = memproxy.InertSession(op.Scope.Run)
		}
		if r.q.Operation != nil {
			ev.Facts = memproxy.FactsOf(&r.q)
		}
		if op.Kind == memproxy.Learn || op.Kind == memproxy.Correct {
			ev.Confidence, ev.Claimed = r.q.Confidence, -1
			if len(op.Hints) > 0 {
				ev.Claimed = r.q.Claimed
			}
		}
	}
	if r.Decision.Verdict == memproxy.Deny {
		boundRefusal(&ev)
	}
	return ev
}

// Attributes appends the decision's span attributes, under their documented
// names.
func (a *Admission) Attributes(to []attribute.KeyValue) []attribute.KeyValue {
	return signal.AppendEvent(to, &a.event, a.op != nil && a.op.Bulk)
}
