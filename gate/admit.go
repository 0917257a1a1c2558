package gate

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/limits"
	"github.com/memproxy/memproxy/gate/verdict"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// evaluation is one call on its way through the steps.
type evaluation struct {
	*Admission
	g       *Gate
	mode    mode
	q       memproxy.Question
	verdict verdict.Sum
	known   *lookups            // what the ledger answered so far
	blind   bool                // the ledger could not be asked for the targets' owners
	held    *memproxy.HeldWrite // the held write whose receipt is asked for
	clamped bool                // the content has a confidence
	decided bool                // the decision is made; only its consequences are left
	lines   []memproxy.Line     // what lined draws from, see costs
	lined   *memproxy.Operation
	// under is the admission of the run whose agent makes the tool call.
	under *Admission
	tool  memproxy.ToolCall
	// after, if set, is called after each step, with its error.
	after func(*step, error)
	// byID are the keys of the locks that it waited for in inTurnByID; nil if it did not wait.
	byID []string
}

// A mode is the kind of call that is ruled on.
type mode uint8

const (
	client  mode = 1 << iota // a request of a client
	call                     // a tool call of a running agent
	foresee                  // a tool call before a person is asked: nothing is charged or recorded
	decline                  // a tool call that is refused without asking the policies
	replay                   // a held write that was approved
	putBack                  // an object that a reviewer restores to one of its versions
	recheck                  // a held write under new rules: nothing is charged, recorded or sent
	explain                  // `memproxy explain`: as recheck, but a refusal does not end it
)

// step is one row of the life of a write. An error of run is breakage: the call
// is refused with 503 and the reason broken.
type step struct {
	name   string // of its span
	modes  mode   // in which it runs
	final  bool   // it also runs after a refusal
	broken memproxy.ReasonCode
	// idle, if set, reports that there is nothing to do; the step is then
	// neither run nor traced.
	idle func(*evaluation) bool
	run  func(context.Context, *evaluation) error
}

// admission is the life of a write (and of a read, up to the backend) in order, in
// every mode. After a refusal only the final steps run, so that each step can rely
// on what the earlier ones established.
var admission = [...]step{
	{signal.SpanIdentify, client | explain, false, memproxy.InternalError, nil, identify},
	{signal.SpanCall, call | foresee, false, memproxy.InternalError, nil, toolCall},
	{signal.SpanDecode, client | replay | putBack | recheck | explain, false, memproxy.InternalError, nil, decode},
	{signal.SpanOwnerLimits, client | call | foresee | explain, false, memproxy.InternalError, namesNoOwner, bound},
	{signal.SpanTenancy, client | call | foresee | replay | putBack | explain, false, memproxy.InternalError, undecoded, tenancy},
	{signal.SpanPromote, client | explain, false, memproxy.InternalError, fixedTrust, earn},
	{signal.SpanSession, client | call | foresee | explain, false, memproxy.LedgerUnavailable, readOnly, locked},
	{signal.SpanReceiptLookup, client | explain, false, memproxy.LedgerUnavailable, noReceipt, polled},
	{signal.SpanLockMemory, client | replay | putBack, false, memproxy.InternalError, unordered, inTurnStill},
	{signal.SpanLookupOwners, client | replay | putBack | recheck | explain, false, memproxy.UpstreamUnavailable, untargeted, ownUnlocked},
	{signal.SpanReadBlocks, client | replay | recheck, false, memproxy.UpstreamUnavailable, noDirectToolCall, precede},
	{signal.SpanSystemRole, client | replay | recheck | explain, false, memproxy.PolicyError, uninstructed, instruct},
	{signal.SpanScreen, client | call | foresee | putBack | recheck | explain, false, memproxy.InternalError, unscreened, screen},
	{signal.SpanClamp, client | call | foresee | replay | putBack | recheck | explain, false, memproxy.InternalError, withoutConfidence, clamp},
	{signal.SpanRule, client | call | foresee | putBack | recheck | explain, false, memproxy.PolicyError, undecoded, rule},
	{signal.SpanEncode, client | replay | putBack, false, memproxy.InternalError, unsent, encode},
	{signal.SpanCharge, client | call | replay | explain, false, memproxy.InternalError, costsNothing, charge},
	// A held write is charged for its place in the review queue, and binds its names.
	{signal.SpanReserve, client | call, true, memproxy.InternalError, unreserved, charge},
	{signal.SpanBindNames, client | call | replay | putBack, true, memproxy.LedgerUnavailable, nothingToBind, bind},
	{signal.SpanDecide, client | call | foresee | decline | replay | putBack | recheck, true, memproxy.InternalError, decided, decide},
	// The record is durable before anything is forwarded.
	{signal.SpanRecord, client | call | decline | replay | putBack, true, memproxy.AuditUnavailable, nil, record},
	{signal.SpanHold, client | call, true, memproxy.LedgerUnavailable, unheld, hold},
	{signal.SpanReserveStatus, client | replay, true, memproxy.LedgerUnavailable, noPendingMemories, putAside},
	{signal.SpanEvidence, client, true, memproxy.LedgerUnavailable, notReworded, keepEvidence},
	{signal.SpanReject, client | call, true, memproxy.LedgerUnavailable, notRejected, reject},
	{signal.SpanDissent, client | call, true, memproxy.LedgerUnavailable, uncontested, contest},
	{signal.SpanTrackRecord, call, true, memproxy.LedgerUnavailable, refused, credit},
	{signal.SpanReadObjects, client | replay | putBack, true, memproxy.InternalError, changesNoMembers, images},
	{signal.SpanAnswer, client | replay | putBack, true, memproxy.InternalError, unanswered, answerRefused},
	{signal.SpanReceiptReply, client, true, memproxy.InternalError, notPolling, answerPoll},
	{signal.SpanAgentRun, client | replay | putBack, true, memproxy.InternalError, runsNoAgent, next},
}

// Admit rules on a call. It returns only after the decision's audit record is
// durable; if it cannot be made durable the admission is a refusal with 503.
// Refusals are data in the Admission, never errors.
func (g *Gate) Admit(ctx context.Context, c *Call) *Admission {
	r := g.begin(client, c)
	r.walk(ctx)
	return r.Admission
}

func (g *Gate) begin(m mode, c *Call) *evaluation {
	now := g.opt.Clock()
	a := &Admission{call: c, rules: g.rules.Load(), Body: c.Body, Query: c.Request.Query, begun: now}
	a.Decision.ID = g.opt.NewID()
	a.Decision.Policy = a.rules.Version
	return &evaluation{Admission: a, g: g, mode: m, known: newLookups(g, a)}
}

// walk runs the steps of the call's mode.
func (r *evaluation) walk(ctx context.Context) {
	for i := range admission {
		s := &admission[i]
		if s.modes&r.mode == 0 || !s.final && stopped(r) {
			continue
		}
		var err error
		if s.idle == nil || !s.idle(r) {
			if err = s.timed(ctx, r); err != nil {
				r.g.opt.Log.ErrorContext(ctx, "gate step failed", "step", s.name, "decision", r.Decision.ID, "error", err)
				failed(ctx, r, s)
			}
		}
		if r.after != nil {
			r.after(s, err)
		}
	}
	if r.Next = r.onward(); r.Reply != nil {
		r.ReleaseLocks()
	}
}

// stopped reports whether only final steps are left.
func stopped(r *evaluation) bool {
	switch {
	case r.decided, r.verdict.Worst == memproxy.Deny && r.mode&(putBack|recheck) != 0:
		return true
	case r.mode&(putBack|recheck|explain) != 0: // a write that would be held goes on
		return false
	}
	return r.verdict.Worst.Stops() && r.enforced()
}

// failed refuses a call if a step failed, and releases what it was charged.
func failed(ctx context.Context, r *evaluation, s *step) {
	if !r.dry() {
		r.g.accounts.release(ctx, r.Admission)
	}
	if r.decided { // what must be recorded with an admitted write could not be
		r.g.opt.Meter.LedgerFailed(ctx)
		reply := deny(ctx, r.g, r.Admission, memproxy.StatusUnavailable, s.broken, "what goes with this request could not be noted")
		r.Decision.Refuse(memproxy.StatusUnavailable, r.Decision.Reasons...)
		r.Reply = &reply
		return
	}
	r.verdict.Refuse(memproxy.StatusUnavailable, memproxy.Reason{Code: s.broken, Detail: "memproxy could not finish ruling on this request"})
	if s.final {
		r.settle()
	}
}

// timed runs the step in a span of its own.
func (s *step) timed(ctx context.Context, r *evaluation) error {
	start := time.Now() // durations are measured on the monotonic clock, not the injected one
	ctx, span := r.g.opt.Tracer.Start(ctx, s.name)
	err := s.run(ctx, r)
	if err != nil {
		span.SetStatus(codes.Error, string(s.broken))
	}
	span.End()
	r.g.opt.Meter.Step(ctx, s.name, time.Since(start))
	return err
}

// decide turns the results of the steps into the decision.
func decide(_ context.Context, r *evaluation) error {
	r.settle()
	return nil
}

func (r *evaluation) settle() {
	if r.decided = true; r.mode == putBack && r.verdict.Worst == memproxy.Hold {
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
	r.ErrorsByStatus = forwarded && !r.Inspect && r.call.Known && r.call.Backend.closed(r.rules)
}

// inspects reports whether the adapter can and must read the answer. The answer to
// a request that touches no memory is read if it has members, which need a claim;
// passthrough routes have no row with claims.
func (r *evaluation) inspects() bool {
	switch {
	case r.op == nil:
		return false
	case r.call.NoMemoryAccess:
		return r.call.Known && r.call.Backend.structured(r.call.Route)
	}
	_, ok := r.call.Backend.Adapter.(Reader)
	return ok
}

// holdTime is how long a change can have its memories to itself. It is longer than
// a backend may take, and releases them if a listener never returns a request.
const holdTime = 5 * time.Minute

// unordered: no change that could conflict with another request's.
func unordered(r *evaluation) bool {
	return r.op == nil || r.dry() || r.call.NoMemoryAccess || r.op.Kind != memproxy.Learn && r.op.Kind != memproxy.Correct && r.op.Kind != memproxy.Forget && r.op.Kind != memproxy.Attach
}

// inTurn waits until no other change of the targets is under way. Additions to an
// owner and bulk deletions of it also wait for one another; additions do not wait
// for other additions.
//
// To prevent deadlocks, locks are taken in a fixed order: of agents for their labels, of
// agents for their turns (both in lockAgents), of what the request names (here), and of
// what its labels stand for (inTurnByID). Those of one kind are taken together.
func inTurn(ctx context.Context, r *evaluation) error {
	if !lockAgents(ctx, r) {
		return nil
	}
	op, keys := r.op, []string(nil)
	for _, id := range op.Targets {
		keys = append(keys, orderKey(r, op.TargetKind, id))
	}
	if op.Kind == memproxy.Learn || op.DeletesScope {
		for _, dim := range [...]memproxy.Dimension{memproxy.DimUser, memproxy.DimAgent, memproxy.DimApp, memproxy.DimRun} {
			if name := op.Scope.In(dim); name != "" {
				keys = append(keys, orderKey(r, memproxy.TargetEntity, memproxy.OwnerID(dim, name)))
			}
		}
	}
	enter(ctx, r, r.call.Backend.timeout(), op.Kind != memproxy.Learn, keys)
	return nil
}

// lockAgents makes requests that name blocks by an agent's labels, and changes of the
// agent, wait for one another, because a change may give a label to another block.
// Requests by labels share the lock. The calls of a turn share a second one, which a change
// that is sent after the turn (ChangesToolsOf) does not take: the turn and the change would
// deadlock. It reports false if the request was refused because a lock stayed taken.
func lockAgents(ctx context.Context, r *evaluation) bool {
	runner, ok := r.call.Backend.Adapter.(AgentRunner)
	if !ok {
		return true
	}
	alone, agents := false, map[string]bool{}
	for _, name := range content.Replaced(r.op) {
		agent, _, labelled := strings.Cut(name, "/")
		agents[agent] = labelled || agents[agent]
	}
	for i := range r.op.Changes {
		object, _, labelled := strings.Cut(r.op.Changes[i].Object, "/")
		agents[object], alone = true, alone || object != "" && !labelled
	}
	var labels, turns []string
	for agent, named := range agents {
		if agent != "" && named {
			labels = append(labels, orderKey(r, memproxy.TargetObject, agent))
			turns = append(turns, orderKey(r, memproxy.TargetObject, agent+"/turn"))
		}
	}
	patience := 2 * r.call.Backend.timeout() // the calls of a turn keep their lock for half of it (Sending)
	if r.mode == call {
		return enter(ctx, r, patience, false, turns)
	}
	return enter(ctx, r, patience, alone, labels) &&
		(!alone || runner.ChangesToolsOf(r.call.Route) != "" || enter(ctx, r, patience, alone, turns))
}

// inTurnByID is inTurn for targets that the request names differently from the
// ledger, such as a block by its label. It reports whether it had to wait; then the
// look-ups may be stale and have to be repeated. A request that also names targets by
// their ids does not wait but is refused, because it holds the locks of those.
func inTurnByID(ctx context.Context, r *evaluation) (again bool) {
	if unordered(r) {
		return false
	}
	var keys []string
	for name, m := range r.op.Current {
		if m.ID != "" && m.ID != name {
			keys = append(keys, orderKey(r, r.op.TargetKind, m.ID))
		}
	}
	slices.Sort(keys)
	alone, patience := r.op.Kind != memproxy.Learn, time.Duration(0)
	switch {
	case r.byID != nil:
		if !slices.Equal(keys, r.byID) { // another process gave the label to another block
			inUse(r)
		}
		return false
	case len(keys) == 0 || take(ctx, r, 0, alone, keys):
		return false
	case len(keys) == len(r.op.Targets):
		patience = r.call.Backend.timeout()
	}
	r.byID = keys
	return enter(ctx, r, patience, alone, keys)
}

func orderKey(r *evaluation, kind memproxy.TargetKind, id string) string {
	return r.call.Backend.Name + "\x00" + string(kind) + "\x00" + id
}

// enter takes the locks, or refuses the request if they do not become free in time.
func enter(ctx context.Context, r *evaluation, patience time.Duration, alone bool, keys []string) bool {
	ok := take(ctx, r, patience, alone, keys)
	if !ok {
		inUse(r)
	}
	return ok
}

func inUse(r *evaluation) {
	r.verdict.Refuse(memproxy.StatusUnavailable, memproxy.Reason{Code: memproxy.LimitInFlight, Detail: "other changes of the same memory are under way; try again"})
}

func take(ctx context.Context, r *evaluation, patience time.Duration, alone bool, keys []string) bool {
	if len(keys) == 0 {
		return true
	}
	leave, ok := r.g.order.Enter(ctx, patience, alone, keys...)
	if !ok {
		return false
	}
	end := time.AfterFunc(holdTime, leave)
	before := r.leave
	r.leave = func() {
		end.Stop()
		leave()
		if before != nil {
			before()
		}
	}
	return true
}

// ReleaseLocks ends the turn of a change whose outcome is known, or that is refused. A
// listener that sees no outcome calls it once the change is decided on.
func (a *Admission) ReleaseLocks() {
	if a.leave != nil {
		a.leave()
	}
}
