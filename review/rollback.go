package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/memproxy/memproxy"
)

// RollbackRequest restores a version of a memory, given by its number or by the hash of
// its text.
type RollbackRequest struct {
	Version int64  `json:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	// Newest is the hash of the text that the reviewer means to replace (optimistic
	// locking): if the backend has another text, the request is a conflict. If it is "",
	// any text is replaced.
	Newest string `json:"newest,omitempty"`
	Reason string `json:"reason"`
}

// RollbackAnswer is the result of a rollback.
type RollbackAnswer struct {
	Result  memproxy.HoldResult  `json:"result"`
	Version *memproxy.Version    `json:"version,omitempty"` // the version that the rollback made
	Votes   *memproxy.VoteResult `json:"votes,omitempty"`   // set while further reviewers must agree
	votes   memproxy.VoteResult
	outcome memproxy.Outcome
}

// RollbackStore stores the rollbacks in progress.
type RollbackStore interface {
	AppendFound(context.Context, ...memproxy.Version) error
	Approve(ctx context.Context, to memproxy.Version, r memproxy.Review) (memproxy.VoteResult, error)
	Begin(ctx context.Context, r memproxy.Rollback, lease time.Duration) error
	Unfinished(ctx context.Context, lease time.Duration) ([]memproxy.Rollback, error)
	End(ctx context.Context, decision string, made *memproxy.Version) (memproxy.Version, error)
}

func rollbackMemory(c *call, in RollbackRequest) (RollbackAnswer, error) {
	m, err := c.memory()
	if err != nil {
		return RollbackAnswer{}, err
	}
	to, err := c.target(m.MemoryKey, in)
	if err != nil {
		return RollbackAnswer{}, err
	}
	to.Tenant = m.tenant
	decision := c.api.opt.NewID()
	if err := c.record(m.tenant, m.Backend, decision, m.ID); err != nil {
		return RollbackAnswer{}, err
	}
	votes, err := c.api.opt.Rollbacks.Approve(c.ctx(), to, c.review(in.Reason))
	if err != nil || !votes.Settled {
		return RollbackAnswer{Votes: &votes, votes: votes}, err
	}
	c.api.opt.Steps.At(memproxy.StepRollbackRecorded)
	answer, err := c.api.Runner.rollBack(c.ctx(), &memproxy.Rollback{
		MemoryKey: m.MemoryKey, Tenant: m.tenant, Decision: decision, Reviewer: c.who.ID, Reason: in.Reason, Number: to.Number,
	}, to, in.Newest)
	if errors.Is(err, memproxy.ErrState) {
		err = problem(http.StatusConflict, "state", "another rollback of the memory is in progress")
	}
	if err != nil {
		return RollbackAnswer{}, err
	}
	answer.votes = votes
	return answer, nil
}

// target returns the version that a rollback names, with its text.
func (c *call) target(k memproxy.MemoryKey, in RollbackRequest) (memproxy.Version, error) {
	if (in.Version > 0) == (in.SHA256 != "") {
		return memproxy.Version{}, badRequest("name either a version or the hash of one")
	}
	if in.Version == 0 {
		all, err := c.api.opt.Memories.History(c.ctx(), k, 0, maxHistory)
		if err != nil {
			return memproxy.Version{}, err
		}
		for _, v := range all { // the newest version with this text whose text still exists
			if v.SHA256 == in.SHA256 && !v.Compacted && v.Op != memproxy.OpDelete && v.Op != memproxy.OpPurge {
				in.Version = v.Number
				break
			}
		}
		if in.Version == 0 {
			return memproxy.Version{}, notFound()
		}
	}
	v, err := c.api.opt.Memories.Version(c.ctx(), k, in.Version)
	if err == nil && (v.Op == memproxy.OpDelete || v.Op == memproxy.OpPurge) {
		return v, badRequest("that version is a deletion; delete the memory instead")
	}
	return v, err
}

// Refusals of a rollback.
var (
	errDeleted   = problem(409, "deleted", "the memory was deleted in the backend, which cannot restore one under its id")
	errChanged   = problem(409, "changed", "the memory has changed; see its history")
	errOvertaken = problem(409, "changed", "another change of the memory, at the same time, replaced the restored version; see its history")
	errOutside   = problem(409, "changed", "the text in the backend is not the one that memproxy recorded: restore that with memory rollback, or have it written again")
	errInUse     = problem(503, "in_flight", "other changes of the memory are under way; nothing was changed, try again")
	errNoAnswer  = problem(502, "upstream", "the backend did not answer; nothing was changed, see the log")
	errUnsent    = problem(502, "upstream", "the backend could not be reached or takes no requests at present; nothing was changed, see the log")
	errMaybeSent = problem(502, "upstream", "it is unknown whether the backend was changed; memproxy keeps checking, see the memory's history")
)

// rollBack restores a version for a recorded rollback; to has the text. It continues when
// the client disconnects. A rollback that has begun is always settled, if necessary by
// another process, which first reads the backend's present state, so that no later write
// is overwritten. newest, if not "", is the hash of the text that the reviewer means to
// replace.
func (r *Runner) rollBack(ctx context.Context, b *memproxy.Rollback, to memproxy.Version, newest string) (RollbackAnswer, error) {
	sending, done, ok := r.begin(ctx, r.opt.SendTimeout)
	if !ok {
		return RollbackAnswer{}, errNoAnswer
	}
	defer done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opt.SendTimeout+r.opt.Timeout)
	defer cancel()
	backend, leave, err := r.lock(sending, b.MemoryKey)
	if err != nil {
		r.opt.Log.WarnContext(ctx, "a rollback could not lock its memory", "decision", b.Decision, "error", err)
		return RollbackAnswer{}, errInUse
	}
	defer leave()
	now, err := backend.CurrentMemory(sending, b.MemoryKey)
	if err != nil {
		r.opt.Log.ErrorContext(ctx, "the state of a memory cannot be fetched", "decision", b.Decision, "error", err)
		return RollbackAnswer{}, errNoAnswer
	}
	if now.Missing {
		r.recordDeletion(ctx, b.MemoryKey)
		return RollbackAnswer{}, errDeleted
	}
	// A present text without a version, because it was written out of band or is being
	// recorded now, is stored before it is overwritten.
	found := memproxy.Version{MemoryKey: b.MemoryKey, Tenant: b.Tenant, Field: now.Field, Op: memproxy.OpSeal, Text: now.Text, Metadata: now.Metadata}
	if err := r.opt.Rollbacks.AppendFound(ctx, found); err != nil {
		return RollbackAnswer{}, err
	}
	b.Before = memproxy.TextSHA256(now.Text)
	if newest != "" && newest != b.Before {
		return RollbackAnswer{}, errChanged
	}
	if err := r.opt.Rollbacks.Begin(ctx, *b, 2*r.opt.SendTimeout); err != nil {
		return RollbackAnswer{}, err
	}
	r.opt.Steps.At(memproxy.StepRollbackBegun)
	return r.restore(ctx, sending, backend, b, to, now)
}

// lock returns the backend of a memory, once no change of the memory is under way. Others wait
// until leave is called.
func (r *Runner) lock(ctx context.Context, k memproxy.MemoryKey) (_ Backend, leave func(), err error) {
	backend, err := r.opt.Backend(k.Backend)
	if err == nil {
		leave, err = backend.LockMemory(ctx, k)
	}
	return backend, leave, err
}

// restore sends a rollback to the backend. The end of the process cancels sending; ctx
// remains for recording the result.
func (r *Runner) restore(ctx, sending context.Context, backend Backend, b *memproxy.Rollback, to memproxy.Version, now memproxy.Memory) (RollbackAnswer, error) {
	sent := backend.Restore(sending, to, now, b.Decision, b.Reviewer)
	r.opt.Steps.At(memproxy.StepRollbackSent)
	answer := RollbackAnswer{Result: sent.Result, outcome: sent.Outcome}
	switch sent.Outcome {
	case memproxy.OutcomeDone:
	case memproxy.OutcomeRefused, memproxy.OutcomeRejected, memproxy.OutcomeDenied:
		_, err := r.opt.Rollbacks.End(ctx, b.Decision, nil)
		return answer, err
	case memproxy.OutcomeUnsent:
		r.opt.Log.WarnContext(ctx, "a rollback could not be sent", "decision", b.Decision, "error", sent.Err)
		_, err := r.opt.Rollbacks.End(ctx, b.Decision, nil)
		return RollbackAnswer{}, cmp.Or(err, error(errUnsent)) // on err it remains in progress
	case memproxy.OutcomeUnknown: // remains in progress: Recover asks the backend for its state
		r.opt.Log.ErrorContext(ctx, "it is unknown whether the backend executed a rollback", "decision", b.Decision, "status", sent.Result.Status, "error", sent.Err)
		if sent.Err != nil {
			return RollbackAnswer{}, errMaybeSent
		}
		return answer, nil
	}
	made, err := r.settle(ctx, backend, b, to)
	if errors.Is(err, errOvertaken) {
		return RollbackAnswer{}, err
	}
	if err != nil {
		return RollbackAnswer{}, fmt.Errorf("the backend was rolled back and the version is not recorded yet: %w", err)
	}
	answer.Version = &made
	if made.SHA256 != to.SHA256 && to.Kind == memproxy.TargetObject {
		answer.Result.Detail = "not every member could be restored; the version has the present state"
	}
	return answer, nil
}

// settle records the version that a rollback made, if the memory is still as the rollback left
// it: another process may have changed or deleted it since.
func (r *Runner) settle(ctx context.Context, backend Backend, b *memproxy.Rollback, to memproxy.Version) (made memproxy.Version, err error) {
	for range 3 {
		next := int64(1)
		last, err := r.opt.Memories.History(ctx, b.MemoryKey, 0, 1)
		if err != nil {
			return made, err
		}
		if len(last) > 0 {
			next += last[0].Number
		}
		now, err := backend.CurrentMemory(ctx, b.MemoryKey)
		object := to.Kind == memproxy.TargetObject
		switch {
		case err != nil || object && now.Missing:
			return made, errors.Join(err, errors.New("review: the outcome of the rollback is not known yet"))
		case object: // a backend may not accept every member, so the version is the backend's present state
			to.Text = now.Text
		case now.Missing || now.Text != to.Text:
			_, err = r.opt.Rollbacks.End(ctx, b.Decision, nil)
			return made, cmp.Or(err, error(errOvertaken))
		}
		made, err = r.opt.Rollbacks.End(ctx, b.Decision, &memproxy.Version{
			MemoryKey: b.MemoryKey, Number: next, Tenant: to.Tenant, Field: to.Field, Op: memproxy.OpRollback, Actor: b.Reviewer, Trust: memproxy.TrustHuman,
			Confidence: to.Confidence, Attestation: to.Attestation, Decision: b.Decision, Score: to.Score, Before: b.Before, Text: to.Text, Metadata: to.Metadata,
		})
		if err == nil {
			r.opt.Steps.At(memproxy.StepRollbackSettled)
		}
		if !errors.Is(err, memproxy.ErrStale) {
			return made, err
		}
	}
	return made, memproxy.ErrStale // it remains in progress
}

// recordDeletion records that a memory was deleted in the backend out of band, unless its
// owner changed meanwhile. It continues when the client disconnects.
func (r *Runner) recordDeletion(ctx context.Context, k memproxy.MemoryKey) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opt.Timeout)
	defer cancel()
	var e memproxy.Entry
	last, err := r.opt.Memories.History(ctx, k, 0, 1)
	if len(last) > 0 && last[0].Op != memproxy.OpDelete && last[0].Op != memproxy.OpPurge {
		e.Versions = []memproxy.Version{{
			MemoryKey: k, Tenant: last[0].Tenant, Field: last[0].Field, Op: memproxy.OpDelete, Trust: memproxy.TrustAnonymous,
			Attestation: memproxy.AttestationUnknown, Before: last[0].SHA256,
		}}
	}
	records, unread := r.opt.Memories.Lookup(ctx, k)
	if rec := records.Of(k); rec.HasOwner() {
		e.ExpectedOwners = []memproxy.Ownership{rec.Owner}
		rec.Owner.Deleted = true
		e.Owners = []memproxy.Ownership{rec.Owner}
	}
	if err = cmp.Or(err, unread); err == nil {
		err = r.opt.Memories.Commit(ctx, e)
	}
	if err != nil && !errors.Is(err, memproxy.ErrStale) {
		r.opt.Log.ErrorContext(ctx, "ledger not updated", "memory", k.ID, "error", err)
	}
}

func (r *Runner) recoverRollbacks(ctx context.Context) error {
	left, err := r.opt.Rollbacks.Unfinished(ctx, 2*r.opt.SendTimeout)
	if err != nil {
		return err
	}
	var errs []error
	for _, b := range left {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch err := r.resume(ctx, &b); {
		case errors.Is(err, errStopping):
			return nil
		case err != nil:
			errs = append(errs, fmt.Errorf("the interrupted rollback of decision %s could not be completed: %w", b.Decision, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Runner) resume(ctx context.Context, b *memproxy.Rollback) error {
	sending, done, ok := r.begin(ctx, r.opt.SendTimeout)
	if !ok {
		return errStopping
	}
	defer done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opt.SendTimeout+r.opt.Timeout)
	defer cancel()
	to, err := r.opt.Memories.Version(ctx, b.MemoryKey, b.Number)
	if errors.Is(err, memproxy.ErrGone) || errors.Is(err, memproxy.ErrUnknown) {
		return r.abandon(ctx, b, "the version's text was destroyed")
	}
	if err != nil {
		return err
	}
	backend, leave, err := r.lock(sending, b.MemoryKey)
	if err != nil {
		return err
	}
	defer leave()
	now, err := backend.CurrentMemory(sending, b.MemoryKey)
	if err != nil {
		return err
	}
	switch hash := memproxy.TextSHA256(now.Text); {
	case now.Missing:
		r.recordDeletion(ctx, b.MemoryKey)
		err = r.abandon(ctx, b, "the memory was deleted")
	case hash == to.SHA256:
		var made memproxy.Version
		if made, err = r.settle(ctx, backend, b, to); err == nil {
			r.recordRollback(ctx, b, memproxy.ActDone, "", &made)
		} else if errors.Is(err, errOvertaken) {
			rule, stage := ruleOf(err)
			r.recordRollback(ctx, b, stage, rule, nil)
		}
	case hash == b.Before:
		var answer RollbackAnswer
		answer, err = r.restore(ctx, sending, backend, b, to, now)
		act := acts[answer.outcome]
		if err != nil {
			act.Rule, act.Stage = ruleOf(err)
		}
		r.recordRollback(ctx, b, act.Stage, act.Rule, answer.Version)
	default:
		err = r.abandon(ctx, b, "something else was written since")
	}
	if errors.Is(err, errOvertaken) {
		return nil // it is over
	}
	return err
}

func (r *Runner) abandon(ctx context.Context, b *memproxy.Rollback, why string) error {
	r.opt.Log.WarnContext(ctx, "an interrupted rollback was abandoned", "decision", b.Decision, "memory", b.ID, "reason", why)
	_, err := r.opt.Rollbacks.End(ctx, b.Decision, nil)
	if err == nil {
		r.recordRollback(ctx, b, memproxy.ActFailed, "stale", nil)
	}
	return err
}
