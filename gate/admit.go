package gate

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/verdict"
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
	refused *LookupError // if the client is answered as the backend answered a look-up
	// under is the admission of the run whose agent makes the tool call.
	under *Admission
	tool  memproxy.ToolCall
	// after, if set, is called after each step, with its error.
	after func(*step, error)
	// byID are the keys of the locks that it took in inTurnByID before it looked again what
	// its labels stand for; nil if it did not.
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
	{"gate.identify", client | explain, false, memproxy.IdentityUnavailable, nil, identify},
	{"gate.call", call | foresee, false, memproxy.InternalError, nil, toolCall},
	{"gate.decode", client | replay | putBack | recheck | explain, false, memproxy.InternalError, nil, decode},
	{"gate.bound", client | call | foresee | explain, false, memproxy.InternalError, namesNoOwner, bound},
	{"gate.tenancy", client | call | foresee | replay | putBack | explain, false, memproxy.InternalError, undecoded, tenancy},
	{"gate.earn", client | explain, false, memproxy.InternalError, fixedTrust, earn},
	{"gate.session", client | call | foresee | explain, false, memproxy.LedgerUnavailable, readOnly, locked},
	{"gate.polled", client | explain, false, memproxy.LedgerUnavailable, noReceipt, polled},
	{"gate.order", client | replay | putBack, false, memproxy.InternalError, unordered, inTurn},
	{"gate.own", client | replay | putBack | recheck | explain, false, memproxy.UpstreamUnavailable, untargeted, ownUnlocked},
	{"gate.follow", client | replay | recheck, false, memproxy.UpstreamUnavailable, noDirectToolCall, prepareToolCall},
	{"gate.instruct", client | replay | recheck | explain, false, memproxy.PolicyError, noSystemMessages, instruct},
	{"gate.screen", client | call | foresee | putBack | recheck | explain, false, memproxy.InternalError, unscreened, screen},
	{"gate.clamp", client | call | foresee | replay | putBack | recheck | explain, false, memproxy.InternalError, withoutConfidence, clamp},
	{"gate.rule", client | call | foresee | putBack | recheck | explain, false, memproxy.PolicyError, undecoded, rule},
	{"gate.encode", client | replay | putBack, false, memproxy.InternalError, unsent, encode},
	{"gate.charge", client | call | replay | explain, false, memproxy.InternalError, costsNothing, charge},
	// A held write is charged for its place in the review queue, and binds its names.
	{"gate.reserve", client | call, true, memproxy.InternalError, unreserved, charge},
	{"gate.bind", client | call | replay | putBack, true, memproxy.LedgerUnavailable, nothingToBind, bind},
	{"gate.decide", client | call | foresee | decline | replay | putBack | recheck, true, memproxy.InternalError, decided, decide},
	// The record is durable before anything is forwarded.
	{"gate.record", client | call | decline | replay | putBack, true, memproxy.AuditUnavailable, nil, record},
	{"gate.hold", client | call, true, memproxy.LedgerUnavailable, unheld, hold},
	{"gate.aside", client | replay, true, memproxy.LedgerUnavailable, noPendingMemories, storePlannedStatus},
	{"gate.evidence", client, true, memproxy.LedgerUnavailable, notReworded, keepEvidence},
	{"gate.reject", client | call, true, memproxy.LedgerUnavailable, notRejected, reject},
	{"gate.contest", client | call, true, memproxy.LedgerUnavailable, uncontested, contest},
	{"gate.credit", call, true, memproxy.LedgerUnavailable, refused, credit},
	{"gate.images", client | replay | putBack, true, memproxy.InternalError, changesNoMembers, images},
	{"gate.answer", client | replay | putBack, true, memproxy.InternalError, unanswered, answerRefused},
	{"gate.poll", client, true, memproxy.InternalError, notPolling, answerPoll},
	{"gate.next", client | replay | putBack, true, memproxy.InternalError, runsNoAgent, next},
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
				failed(ctx, r, s, err)
			}
		}
		if r.after != nil {
			r.after(s, err)
		}
	}
	if r.Next = r.nextAction(); r.Reply != nil {
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
func failed(ctx context.Context, r *evaluation, s *step, err error) {
	if !r.dry() {
		r.g.accounts.release(ctx, r.Admission)
	}
	if r.decided { // the decision is on record, so its refusal is a record of its own
		detail := notCompleted
		if s.broken == memproxy.LedgerUnavailable {
			r.g.opt.Meter.LedgerFailed(ctx)
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
// agents for their turns (both in lockAgents), of what the request names, of the owners
// that it names (both here), of what its labels stand for, and of its targets' owners (both
// in inTurnByID). Those of one kind are taken together.
func inTurn(ctx context.Context, r *evaluation) error {
	op, keys := r.op, []string(nil)
	for _, id := range op.Targets {
		keys = append(keys, targetKeys(r, op.TargetKind, id)...)
	}
	alone := op.Kind != memproxy.Learn
	entered := lockAgents(ctx, r) && enter(ctx, r, alone, keys)
	if entered && (op.Kind == memproxy.Learn || op.DeletesScope) {
		enter(ctx, r, alone, ownerKeys(r.call, op.Scope))
	}
	return refuseCleared(ctx, r)
}

// patience is how long a change waits for others. The calls of a turn keep their locks for
// up to half of it (Sending).
func patience(r *evaluation) time.Duration {
	if _, runs := r.call.Backend.Adapter.(AgentRunner); runs {
		return 2 * r.call.Backend.timeout()
	}
	return r.call.Backend.timeout()
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
	for _, name := range append(content.Replaced(r.op), r.op.Targets...) {
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
			labels = append(labels, orderKey(r.call, memproxy.TargetObject, agent))
			turns = append(turns, orderKey(r.call, memproxy.TargetObject, agent+"/turn"))
		}
	}
	if r.mode == call {
		return enter(ctx, r, false, turns)
	}
	if !enter(ctx, r, alone, labels) {
		return false
	}
	return !alone || runner.ChangesToolsOf(r.call.Route) != "" || enter(ctx, r, alone, turns)
}

// epoch is what had happened when the look-ups of a change began.
type epoch struct {
	ended   uint64     // number of changes whose turn was over
	cleared *time.Time // when an owner's memories were last deleted in bulk
}

func currentEpoch(g *Gate) epoch { return epoch{g.order.Ended(), g.cleared.Load()} }

// inTurnByID is inTurn for what is known only after the look-up: targets that the request
// names differently from the ledger, such as a block by its label, and the owners of the
// targets, for whom a bulk deletion may be under way. It reports whether what was looked
// up may have changed since, and has to be looked up again. A request that also names
// targets by their ids does not wait for blocks but is refused, because it holds the locks
// of those.
func inTurnByID(ctx context.Context, r *evaluation, since epoch) (again bool) {
	if unordered(r) {
		return false
	}
	var ids, owners []string
	named := 0
	for name, m := range r.op.Current {
		keys := targetKeys(r, r.op.TargetKind, m.ID)
		if m.ID != "" && m.ID != name && (r.under == nil || !slices.Contains(r.under.blocks, keys[0])) {
			ids, named = append(ids, keys...), named+1
		}
	}
	if r.op.Kind == memproxy.Correct || r.op.Kind == memproxy.Forget {
		for _, id := range r.op.Targets {
			owners = append(owners, ownerKeys(r.call, r.owners[id].Scope, r.op.Current[id].Scope)...)
		}
	}
	if r.byID != nil {
		if slices.ContainsFunc(ids, func(key string) bool { return !slices.Contains(r.byID, key) }) { // the label was given to another block
			inUse(r)
		}
		return false
	}
	alone := r.op.Kind != memproxy.Learn && r.mode != call // turns in two conversations share a block
	waited := !take(ctx, r, 0, alone, ids)
	if waited && !(named >= len(r.op.Targets) && take(ctx, r, patience(r), alone, ids)) || !take(ctx, r, patience(r), false, owners) {
		inUse(r)
		return false
	}
	if r.under != nil {
		r.under.blocks = append(r.under.blocks, ids...)
	}
	now := currentEpoch(r.g)
	if waited || len(ids) > 0 && now.ended != since.ended || len(owners) > 0 && now.cleared != since.cleared {
		r.byID = append([]string{}, ids...) // not nil
		return true
	}
	return false
}

func orderKey(c *Call, kind memproxy.TargetKind, id string) string {
	return c.Backend.Name + "\x00" + string(kind) + "\x00" + id
}

// targetKeys returns the keys of an object. The calls of turns share a second one, as they
// do of agents (lockAgents), which a change that is sent after the turn does not take.
func targetKeys(r *evaluation, kind memproxy.TargetKind, id string) []string {
	key := orderKey(r.call, kind, id)
	runner, runs := r.call.Backend.Adapter.(AgentRunner)
	switch {
	case !runs || runner.ChangesToolsOf(r.call.Route) != "":
		return []string{key}
	case r.mode == call:
		return []string{key + "/turn"}
	}
	return []string{key, key + "/turn"}
}

// ownerKeys returns the keys of the owners in scopes.
func ownerKeys(c *Call, scopes ...memproxy.Scope) (keys []string) {
	for i := range scopes {
		for _, dim := range memproxy.Dimensions {
			if name := scopes[i].In(dim); name != "" {
				keys = append(keys, orderKey(c, memproxy.TargetEntity, memproxy.OwnerID(dim, name)))
			}
		}
	}
	return keys
}

// enter takes the locks, or refuses the request if they do not become free in time.
func enter(ctx context.Context, r *evaluation, alone bool, keys []string) bool {
	ok := take(ctx, r, patience(r), alone, keys)
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
