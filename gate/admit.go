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
	g          *Gate
	mode       mode
	q          memproxy.Question
	verdict    verdict.Sum
	known      *lookups            // what the ledger answered so far
	polledHold *memproxy.HeldWrite // the held write whose receipt is asked for
	clamped    bool                // the content has a confidence
	decided    bool                // the decision is made; only its consequences are left
	lines      []memproxy.Line     // the budget lines of linesFor
	linesFor   *memproxy.Operation // the form of the operation that was charged last
	refused    *LookupError        // the backend's refusal of a look-up that the client gets, or nil
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
	if r.Next = r.nextAction(); r.Reply != nil {
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

// maxLockTime is how long a change keeps its locks at most, in addition to the time that the
// backend has for it. It releases them if a listener never returns a request.
const maxLockTime = 5 * time.Minute

// needsLocks reports whether the operation is a change that can conflict with another
// request's.
func needsLocks(r *evaluation) bool {
	return r.op != nil && !r.dry() && !r.call.NoMemoryAccess && (r.op.Kind == memproxy.Learn || r.op.Kind == memproxy.Correct || r.op.Kind == memproxy.Forget || r.op.Kind == memproxy.Attach)
}

// lockTargets waits until no other change of the targets is under way, and makes later ones
// wait. Additions to an owner share a lock, which a bulk deletion of the owner takes alone.
//
// To prevent deadlocks, locks are taken in a fixed order: of agents for their labels, of
// agents for their turns (both in lockAgents), of what the request names, of the owners
// that it names (both here), of what its labels stand for, and of its targets' owners (both
// in lockResolved). Those of one kind are taken together.
func lockTargets(ctx context.Context, r *evaluation) error {
	op, keys := r.op, []string(nil)
	for _, id := range op.Targets {
		keys = append(keys, targetLockKeys(r, op.TargetKind, id)...)
	}
	alone := op.Kind != memproxy.Learn
	locked := lockAgents(ctx, r) && lockOrRefuse(ctx, r, alone, keys)
	if locked && (op.Kind == memproxy.Learn || op.DeletesScope) {
		lockOrRefuse(ctx, r, alone, ownerLockKeys(r.call, op.Scope))
	}
	return refuseCleared(ctx, r)
}

// lockTimeout is how long a change waits for a lock. The calls of an agent's turn keep theirs
// for up to half of it (BeginSend).
func lockTimeout(r *evaluation) time.Duration {
	if _, runs := r.call.Backend.Adapter.(AgentRunner); runs {
		return 2 * r.call.Backend.timeout()
	}
	return r.call.Backend.timeout()
}

// lockAgents locks the agents by whose labels a request names blocks, and those that it
// changes, because a change may give a label to another block. Requests by labels share
// the lock. The calls of a turn share a second one, which a change that is sent after the
// turn (ChangesToolsOf) does not take: the turn and the change would wait for each other.
// It returns false if the request was refused because a lock was not released in time.
func lockAgents(ctx context.Context, r *evaluation) bool {
	runner, ok := r.call.Backend.Adapter.(AgentRunner)
	if !ok {
		return true
	}
	changed, agents := false, map[string]bool{}
	for _, name := range append(content.Replaced(r.op), r.op.Targets...) {
		agent, _, labelled := strings.Cut(name, "/")
		agents[agent] = labelled || agents[agent]
	}
	for i := range r.op.Changes {
		object, _, labelled := strings.Cut(r.op.Changes[i].Object, "/")
		agents[object], changed = true, changed || object != "" && !labelled
	}
	var labels, turns []string
	for agent, named := range agents {
		if agent != "" && named {
			labels = append(labels, lockKey(r.call, memproxy.TargetObject, agent))
			turns = append(turns, lockKey(r.call, memproxy.TargetObject, agent+"/turn"))
		}
	}
	if r.mode == call {
		return lockOrRefuse(ctx, r, false, turns)
	}
	if !lockOrRefuse(ctx, r, changed, labels) {
		return false
	}
	return !changed || runner.ChangesToolsOf(r.call.Route) != "" || lockOrRefuse(ctx, r, true, turns)
}

// lockForCall is lockTargets for a call of a turn: until it is sent (BeginSend), changes of the
// agent, and of the blocks that the call changes, wait.
func lockForCall(ctx context.Context, r *evaluation) error {
	r.unlock = r.run.unlock
	defer func() { r.run.unlock, r.unlock = r.unlock, nil }()
	if r.unlock == nil && !lockAgents(ctx, r) {
		return nil
	}
	if err := loadTargets(ctx, r); err != nil {
		return err
	}
	refetchAdded(ctx, r)
	return nil
}

// epoch is what had happened when the look-ups of a change began.
type epoch struct {
	ended        uint64     // number of changes that released their locks
	scopeDeleted *time.Time // when an owner's memories were last deleted in bulk
}

func currentEpoch(g *Gate) epoch { return epoch{g.order.Ended(), g.scopeDeleted.Load()} }

// lockResolved locks what is known only after the look-up: targets that the request names
// differently from the ledger, such as a block by its label, and the owners of the targets,
// for whom a bulk deletion may be under way. again reports that what was looked up may have
// changed since, and has to be looked up again.
func lockResolved(ctx context.Context, r *evaluation, since epoch) (again bool) {
	if !needsLocks(r) {
		return false
	}
	blocks, onlyLabels := resolvedLockKeys(r)
	if r.resolvedLocks != nil { // this is the second look-up
		if slices.ContainsFunc(blocks, func(key string) bool { return !slices.Contains(r.resolvedLocks, key) }) { // the label was given to another block
			refuseInUse(r)
		}
		return false
	}
	alone := r.op.Kind != memproxy.Learn && r.mode != call // turns in two conversations share a block
	waited := !tryLock(ctx, r, 0, alone, blocks)
	// A request that also names targets by their ids does not wait for blocks, because it has
	// the locks of those.
	if waited && !(onlyLabels && tryLock(ctx, r, lockTimeout(r), alone, blocks)) {
		refuseInUse(r)
		return false
	}
	owners := targetOwnerLockKeys(r)
	if !lockOrRefuse(ctx, r, false, owners) {
		return false
	}
	if r.run != nil {
		r.run.callLocks = append(r.run.callLocks, blocks...)
	}
	now := currentEpoch(r.g)
	again = waited || len(blocks) > 0 && now.ended != since.ended || len(owners) > 0 && now.scopeDeleted != since.scopeDeleted
	if again {
		r.resolvedLocks = append([]string{}, blocks...) // not nil
	}
	return again
}

// resolvedLockKeys returns the keys of the targets that the request names differently from
// the ledger, unless the agent's turn has locked them, and whether it names all targets so.
func resolvedLockKeys(r *evaluation) (keys []string, all bool) {
	n := 0
	for name, m := range r.op.Current {
		block := targetLockKeys(r, r.op.TargetKind, m.ID)
		if m.ID != "" && (r.run == nil && m.ID != name || r.run != nil && !slices.Contains(r.run.callLocks, block[0])) {
			keys, n = append(keys, block...), n+1
		}
	}
	return keys, n >= len(r.op.Targets)
}

func targetOwnerLockKeys(r *evaluation) (keys []string) {
	if r.op.Kind != memproxy.Correct && r.op.Kind != memproxy.Forget {
		return nil
	}
	for _, id := range r.op.Targets {
		keys = append(keys, ownerLockKeys(r.call, r.owners[id].Scope, r.op.Current[id].Scope)...)
	}
	return keys
}

func lockKey(c *Call, kind memproxy.TargetKind, id string) string {
	return c.Backend.Name + "\x00" + string(kind) + "\x00" + id
}

// targetLockKeys returns the keys of an object. The calls of turns share a second one, as they
// do of agents (lockAgents), which a change that is sent after the turn does not take.
func targetLockKeys(r *evaluation, kind memproxy.TargetKind, id string) []string {
	key := lockKey(r.call, kind, id)
	runner, runs := r.call.Backend.Adapter.(AgentRunner)
	switch {
	case !runs || runner.ChangesToolsOf(r.call.Route) != "":
		return []string{key}
	case r.mode == call:
		return []string{key + "/turn"}
	}
	return []string{key, key + "/turn"}
}

func ownerLockKeys(c *Call, scopes ...memproxy.Scope) (keys []string) {
	for i := range scopes {
		for _, dim := range memproxy.Dimensions {
			if name := scopes[i].In(dim); name != "" {
				keys = append(keys, lockKey(c, memproxy.TargetEntity, memproxy.OwnerID(dim, name)))
			}
		}
	}
	return keys
}

func lockOrRefuse(ctx context.Context, r *evaluation, alone bool, keys []string) bool {
	ok := tryLock(ctx, r, lockTimeout(r), alone, keys)
	if !ok {
		refuseInUse(r)
	}
	return ok
}

func refuseInUse(r *evaluation) {
	r.verdict.Refuse(memproxy.StatusUnavailable, memproxy.Reason{Code: memproxy.LimitInFlight, Detail: "other changes of the same memory are under way; try again"})
}

// tryLock takes the locks with these keys, alone or shared, and returns false if they are not
// released within the timeout. ReleaseLocks or maxLockTime releases them.
func tryLock(ctx context.Context, r *evaluation, timeout time.Duration, alone bool, keys []string) bool {
	if len(keys) == 0 {
		return true
	}
	ticket := r.g.order.EnterLock(alone, keys...)
	if ticket.WaitAtMost(ctx, timeout) != nil {
		return false
	}
	end := time.AfterFunc(maxLockTime+r.call.Backend.UpstreamTimeout, ticket.Leave)
	earlier := r.unlock
	r.unlock = func() {
		end.Stop()
		ticket.Leave()
		if earlier != nil {
			earlier()
		}
	}
	return true
}

// ReleaseLocks lets other changes of the same memories continue: the outcome of this one is
// known, or it is refused. A listener that sees no outcome calls it after Admit.
func (a *Admission) ReleaseLocks() {
	if a.unlock != nil {
		a.unlock()
	}
}
