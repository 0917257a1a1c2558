package gate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/gate/content"
)

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
	if _, runs := r.call.Backend.Adapter.(backend.AgentRunner); runs {
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
	runner, ok := r.call.Backend.Adapter.(backend.AgentRunner)
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
	runner, runs := r.call.Backend.Adapter.(backend.AgentRunner)
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

// refuseCleared refuses an approved write if everything of its owner was deleted since it was
// claimed: while it waited for that deletion, say.
func refuseCleared(ctx context.Context, r *evaluation) error {
	if r.mode != replay || r.g.opt.Holds == nil {
		return nil
	}
	h, _, err := r.g.opt.Holds.Get(ctx, r.heldWrite.ID)
	if err == nil && h.Result.Cleared {
		r.verdict.Refuse(memproxy.StatusNotFound, memproxy.Reason{
			Code: memproxy.OwnerUnknown, Detail: "everything of its owner was deleted after it was held",
		})
	}
	return err
}

// ErrInUse reports that changes of a memory were still under way after the time that a
// change waits for them.
var ErrInUse = errors.New("other changes of the memory are under way")

// LockMemory waits until no change of a memory, and no bulk deletion of its owner, is under way,
// and makes later ones wait until leave is called. The error is ErrInUse if they do not end
// in time.
func (g Reviewed) LockMemory(ctx context.Context, b Backend, k memproxy.MemoryKey) (leave func(), err error) {
	r := g.begin(restore, &Call{Backend: b})
	records, err := g.opt.Ledger.Lookup(ctx, k)
	if err != nil {
		return nil, err
	}
	if !tryLock(ctx, r, lockTimeout(r), true, targetLockKeys(r, k.Kind, k.ID)) || !tryLock(ctx, r, lockTimeout(r), false, ownerLockKeys(r.call, records.Of(k).Owner.Scope)) {
		r.ReleaseLocks()
		return nil, ErrInUse
	}
	return r.ReleaseLocks, nil
}

// BeginSend says that the calls that were ruled on are sent. Changes of the agent wait until
// the answer, and for no longer than the backend may take to begin: a tool that the run
// calls next may make such a change. A second request means that the backend accepted the
// first, so the run keeps its names and its charge whatever the later ones are answered.
func (g Agents) BeginSend(a *Admission) (answered func()) {
	if a.sent {
		a.boundNames, a.bill = nil, nil
	}
	a.sent = true
	leave := a.unlock
	a.unlock, a.callLocks = nil, nil
	if leave == nil {
		return func() {}
	}
	begun := time.AfterFunc(a.call.Backend.timeout(), leave)
	return func() { begun.Stop(); leave() }
}
