package gate

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/verdict"
)

// evaluation is one call on its way through the steps.
type evaluation struct {
	*Admission
	g          *Gate
	mode       mode
	q          memproxy.Question
	verdict    verdict.Sum
	known      *lookups             // what the ledger answered so far
	polledHold *memproxy.HeldWrite  // the held write whose receipt is asked for
	clamped    bool                 // the content has a confidence
	decided    bool                 // the decision is made; only its consequences are left
	lines      []memproxy.Line      // the budget lines of linesFor
	linesFor   *memproxy.Operation  // the form of the operation that was charged last
	refused    *backend.LookupError // the backend's refusal of a look-up that the client gets, or nil
	// run is the admission of the run whose agent makes the tool call.
	run  *Admission
	tool memproxy.ToolCall
	// after, if set, is called after each step, with its error.
	after func(*step, error)
	// resolvedLocks are the keys that lockResolved locked before the second look-up of what
	// the request's labels stand for; nil before that.
	resolvedLocks []string
}

// A mode is the kind of call that is ruled on.
type mode uint8

const (
	client  mode = 1 << iota // a request of a client
	call                     // a tool call of a running agent
	preview                  // a tool call before a person is asked: nothing is charged or recorded
	decline                  // a tool call that is refused without asking the policies
	replay                   // a held write that was approved
	restore                  // an object that a reviewer restores to one of its versions
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
	// when reports whether there is something to do; nil means always. If there is not, the
	// step is neither run nor traced.
	when func(*evaluation) bool
	run  func(context.Context, *evaluation) error
}

// admission is the life of a write (and of a read, up to the backend) in order, in
// every mode. After a refusal only the final steps run, so that each step can rely
// on what the earlier ones established.
var admission = [...]step{
	{"gate.identify", client | explain, false, memproxy.IdentityUnavailable, nil, identify},
	{"gate.call", call | preview, false, memproxy.InternalError, nil, decodeToolCall},
	{"gate.decode", client | replay | restore | recheck | explain, false, memproxy.InternalError, nil, decode},
	{"gate.bound", client | call | preview | explain, false, memproxy.InternalError, namesOwners, checkLimits},
	{"gate.tenancy", client | call | preview | replay | restore | explain, false, memproxy.InternalError, decoded, checkTenancy},
	{"gate.earn", client | explain, false, memproxy.InternalError, mayBePromoted, promote},
	{"gate.session", client | call | preview | explain, false, memproxy.LedgerUnavailable, writes, checkSessionLock},
	{"gate.polled", client | explain, false, memproxy.LedgerUnavailable, asksForReceipt, findHeldReceipt},
	{"gate.order", client | replay | restore, false, memproxy.InternalError, needsLocks, lockTargets},
	{"gate.own", client | replay | restore | recheck | explain, false, memproxy.UpstreamUnavailable, hasTargets, checkTargets},
	{"gate.follow", client | replay | recheck, false, memproxy.UpstreamUnavailable, mayCallTool, prepareToolCall},
	{"gate.instruct", client | replay | recheck | explain, false, memproxy.PolicyError, hasSystemMessages, instruct},
	{"gate.screen", client | call | preview | restore | recheck | explain, false, memproxy.InternalError, screens, screen},
	{"gate.clamp", client | call | preview | replay | restore | recheck | explain, false, memproxy.InternalError, hasConfidence, clamp},
	{"gate.rule", client | call | preview | restore | recheck | explain, false, memproxy.PolicyError, decoded, rule},
	{"gate.encode", client | replay | restore, false, memproxy.InternalError, sendsPayload, encode},
	{"gate.charge", client | call | replay | explain, false, memproxy.InternalError, costs, charge},
	// A held write is charged for its place in the review queue, and binds its names.
	{"gate.reserve", client | call, true, memproxy.InternalError, costsReview, charge},
	{"gate.bind", client | call | replay | restore, true, memproxy.LedgerUnavailable, bindsNames, bindNames},
	{"gate.decide", client | call | preview | decline | replay | restore | recheck, true, memproxy.InternalError, undecided, decide},
	// The record is durable before anything is forwarded.
	{"gate.record", client | call | decline | replay | restore, true, memproxy.AuditUnavailable, nil, record},
	{"gate.hold", client | call, true, memproxy.LedgerUnavailable, isHeld, hold},
	{"gate.aside", client | replay, true, memproxy.LedgerUnavailable, plansStatus, storePlannedStatus},
	{"gate.evidence", client, true, memproxy.LedgerUnavailable, isReworded, storeEvidence},
	{"gate.reject", client | call, true, memproxy.LedgerUnavailable, isRejection, countRejection},
	{"gate.contest", client | call, true, memproxy.LedgerUnavailable, isContested, contest},
	{"gate.credit", call, true, memproxy.LedgerUnavailable, admitted, settleToolCall},
	{"gate.images", client | replay | restore, true, memproxy.InternalError, changesMembers, images},
	{"gate.answer", client | replay | restore, true, memproxy.InternalError, needsRefusal, answerRefused},
	{"gate.poll", client, true, memproxy.InternalError, answersPoll, answerPoll},
	{"gate.next", client | replay | restore, true, memproxy.InternalError, mayRunAgent, chooseNext},
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

func (r *evaluation) walk(ctx context.Context) {
	for i := range admission {
		s := &admission[i]
		if s.modes&r.mode == 0 || !s.final && stopped(r) {
			continue
		}
		var err error
		if s.when == nil || s.when(r) {
			if err = s.timed(ctx, r); err != nil {
				r.g.opt.Log.ErrorContext(ctx, "gate step failed", "step", s.name, "decision", r.Decision.ID, "error", err)
				failed(ctx, r, s, err)
			}
		}
		if r.after != nil {
			r.after(s, err)
		}
	}
	r.Next = r.nextAction()
	if r.Reply != nil {
		r.ReleaseLocks()
	}
}

// stopped reports whether only final steps are left.
func stopped(r *evaluation) bool {
	switch {
	case r.decided, r.verdict.Worst == memproxy.Deny && r.mode&(restore|recheck) != 0:
		return true
	case r.mode&(restore|recheck|explain) != 0: // a write that would be held goes on
		return false
	}
	return r.verdict.Worst.Stops() && r.enforced()
}

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

// failed refuses a call if a step failed, and releases what it was charged.
func failed(ctx context.Context, r *evaluation, s *step, err error) {
	if !r.dry() {
		r.g.accounts.release(ctx, r.Admission)
	}
	if r.decided { // the decision is on record, so its refusal is a record of its own
		detail := notCompleted
		if s.broken == memproxy.LedgerUnavailable {
			detail = "the records of this request could not be written to the ledger"
		}
		reply := deny(ctx, r.g, r.Admission, memproxy.StatusUnavailable, s.broken, detail)
		r.Decision.Refuse(memproxy.StatusUnavailable, r.Decision.Reasons...)
		r.Reply = &reply
		return
	}
	status, detail := incomplete(r, err)
	r.verdict.Refuse(status, memproxy.Reason{Code: s.broken, Detail: detail})
	if s.final {
		r.makeDecision()
	}
}

// notCompleted is the detail of a refusal because a step failed.
const notCompleted = "memproxy could not complete its decision on this request"

// incomplete returns the status and the detail of the refusal of a call on which a step
// could not decide. A look-up presents the caller's credential unless memproxy sends its
// own, so a backend's refusal is about the caller: a client is told, as by the backend.
func incomplete(r *evaluation, err error) (status int, detail string) {
	refused, is := errors.AsType[*backend.LookupError](err)
	switch {
	case !is:
		return memproxy.StatusUnavailable, notCompleted
	case !refused.IsForClient() || r.mode&(client|explain) == 0:
		return memproxy.StatusUnavailable, refused.Error()
	case refused.Reply.Status != memproxy.StatusUnauthorized:
		r.refused = refused
		return refused.Reply.Status, refused.Error()
	case r.call.Backend.ReplacesCredential:
		return memproxy.StatusBadGateway, ownRefused
	}
	return memproxy.StatusUnauthorized, "the backend does not accept this credential"
}

// A Next is the action that remains for an admitted call: Reply, Forward, RunAgent,
// ChangeTools, Probe or Resume. Each listener carries it out in one switch.
type Next interface{ next() }

type (
	// Reply is the complete answer: nothing is forwarded.
	Reply struct{ memproxy.Reply }
	// Forward sends Body and Query of the admission, and passes the answer to
	// Return.
	Forward struct{}
	// RunAgent drives an agent's run through its turn, and asks the gate about each
	// tool call.
	RunAgent struct{ Turn memproxy.Turn }
	// ChangeTools forwards a request that changes the tools of an agent while no turn of
	// the agent is under way: a tool that was added during a turn would write
	// without a pause.
	ChangeTools struct{ Agent string }
	// Probe forwards a request that runs one of an agent's tools, after Gate.Probe
	// has determined which. The agent's tools must not change in between.
	Probe struct {
		Agent string
		ask   memproxy.Request
	}
	// Resume sends the stream of a turn again whose run is the caller's, as the
	// gate has verified. If the listener has no such turn, it asks Gate.RefuseByNameStream
	// and continues with Else.
	Resume struct {
		memproxy.Resumption
		Else Next
	}
)

func (Reply) next() {}

func (Forward) next() {}

func (RunAgent) next() {}

func (ChangeTools) next() {}

func (Probe) next() {}

func (Resume) next() {}

func mayRunAgent(r *evaluation) bool {
	_, ok := r.call.Backend.Adapter.(backend.AgentRunner)
	return ok && r.op != nil && !r.call.NoMemoryAccess && r.enforced() && r.Reply == nil
}

// chooseNext asks the adapter what an admitted request makes an agent do. A run that
// cannot be paused is ruled on by the backend's setting.
func chooseNext(ctx context.Context, r *evaluation) error {
	runner, c := r.call.Backend.Adapter.(backend.AgentRunner), r.call
	if r.op.Kind == memproxy.Run {
		turn, err := runner.Turn(c.Route, c.Request, r.Body)
		switch {
		case errors.Is(err, memproxy.ErrUngated):
			if reply, refused := r.g.Agents().RuleUngated(ctx, r.Admission, true); refused {
				r.Reply = &reply
				return nil
			}
		case err != nil:
			return err
		case turn != nil:
			r.Next = RunAgent{turn}
		}
	}
	if agent, q, ok := runner.Probe(c.Route, c.Request); ok && agent != "" && r.Next == nil {
		r.Next = Probe{agent, q}
	}
	if agent := runner.ChangesToolsOf(c.Route); agent != "" && r.Next == nil {
		r.Next = ChangeTools{agent}
	}
	if q, ok := runner.Resume(c.Route, c.Request, r.Body); ok {
		r.Next = Resume{q, r.nextAction()}
	}
	return nil
}

func runsAgent(c *Call) bool {
	runner, ok := c.Backend.Adapter.(backend.AgentRunner)
	if !ok {
		return false
	}
	turn, err := runner.Turn(c.Route, c.Request, c.Body)
	return turn != nil || err != nil
}

// nextAction is the next action, Forward by default.
func (a *Admission) nextAction() Next {
	switch {
	case a.Reply != nil:
		return Reply{*a.Reply}
	case a.Next == nil:
		return Forward{}
	}
	return a.Next
}

// answerRefused writes the refusal in the backend's own error format.
func answerRefused(_ context.Context, r *evaluation) error {
	r.Reply = new(r.call.Backend.Adapter.Refuse(r.call.Request, r.Decision.Shown()))
	if r.refused != nil && r.Reply.Status == r.refused.Reply.Status {
		r.refused.SetRate(r.Reply)
	}
	return nil
}

// dry reports whether the run only evaluates: nothing is charged, recorded, changed or
// sent.
func (r *evaluation) dry() bool { return r.mode&(recheck|explain) != 0 }

func isToolCall(r *evaluation) bool { return r.mode&(call|preview|decline) != 0 }

// The following functions are conditions of steps (step.when).

func decoded(r *evaluation) bool { return r.op != nil }

func writes(r *evaluation) bool { return r.op != nil && r.op.Kind.Writes() }

func admitted(r *evaluation) bool { return r.op != nil && !r.Decision.Verdict.Stops() }

// namesOwners reports whether the operation names owners, or has to be narrowed to some.
func namesOwners(r *evaluation) bool {
	return r.op != nil && (len(r.op.Claims) > 0 || r.op.Derived || r.op.Bulk)
}

// hasTargets reports whether the operation acts on existing memories or objects.
func hasTargets(r *evaluation) bool {
	return r.op != nil && (len(r.op.Targets) > 0 || content.Replaces(r.op)) && r.op.TargetKind != memproxy.TargetEntity && r.polledHold == nil
}

func screens(r *evaluation) bool {
	return r.op != nil && r.rules.Screener != nil && !r.call.NoMemoryAccess
}

func hasConfidence(r *evaluation) bool {
	return r.op != nil && (r.op.Kind == memproxy.Learn || r.op.Kind == memproxy.Correct)
}

// costs reports whether the operation is charged: it writes what a budget counts, and is
// forwarded, or held and stored.
func costs(r *evaluation) bool {
	return r.op != nil && r.op.Cost > 0 && (!r.verdict.Worst.Stops() || r.storesHold())
}

func (r *evaluation) storesHold() bool {
	return r.verdict.Worst == memproxy.Hold && r.enforced() && r.g.opt.Holds != nil && !r.dry()
}

// costsReview reports whether a held write is charged for its place in the review queue.
func costsReview(r *evaluation) bool { return r.storesHold() && costs(r) }

func sendsPayload(r *evaluation) bool {
	return r.op != nil && !r.verdict.Worst.Stops() && !r.call.NoMemoryAccess
}

func undecided(r *evaluation) bool { return !r.decided }

func needsRefusal(r *evaluation) bool { return r.Reply == nil && r.Decision.Verdict.Stops() }
