package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/memproxy/memproxy"
)

// RollbackStore stores the unfinished rollbacks.
type RollbackStore interface {
	KeepFound(context.Context, ...memproxy.Version) error
	Begin(ctx context.Context, r memproxy.Rollback, lease time.Duration) error
	Unfinished(ctx context.Context, lease time.Duration) ([]memproxy.Rollback, error)
	End(ctx context.Context, decision string, made *memproxy.Version) (memproxy.Version, error)
}

// Rollback is a request to restore a version of a memory.
type Rollback struct {
	Memory   memproxy.MemoryKey
	To       memproxy.Version // with Text and Metadata
	Now      memproxy.Memory  // the present state in the backend
	Decision string           // decision id of the record
	Reviewer string
	Reason   string
	// Newest, if set, is the hash of the text that the reviewer replaces.
	Newest string
}

// Applier applies a rollback in the backend.
type Applier interface {
	// Now reads a memory from the backend; a deleted one has Missing set.
	Now(context.Context, memproxy.MemoryKey) (memproxy.Memory, error)
	// Apply restores the memory.
	Apply(context.Context, Rollback) memproxy.Sent
}

// RollerOptions configure a Roller.
type RollerOptions struct {
	Versions  VersionStore
	Rollbacks RollbackStore
	Applier   Applier
	// Timeout bounds one rollback, including its record; 0 is a minute. The process
	// that begins one has a lease for twice that.
	Timeout time.Duration
	// Recorder records the results of rollbacks that Recover settled; the caller
	// records those that it asked for.
	Recorder Recorder
	Clock    func() time.Time
	Steps    memproxy.Stepper
	Log      *slog.Logger
}

// Roller restores versions of memories. A rollback that has begun is always settled, if
// need be by another process: it reads the backend's present state, so that no later
// write is overwritten.
type Roller struct {
	opt RollerOptions
	*sendings
}

// NewRoller returns a roller.
func NewRoller(opt RollerOptions) (*Roller, error) {
	if opt.Versions == nil || opt.Rollbacks == nil || opt.Applier == nil || opt.Recorder == nil || opt.Clock == nil || opt.Log == nil || opt.Timeout < 0 {
		return nil, errors.New("review: a roller needs stores, an applier, a recorder, a clock and a log")
	}
	opt.Timeout = cmp.Or(opt.Timeout, time.Minute)
	return &Roller{opt, newSendings()}, nil
}

// Refusals of a rollback.
var (
	errDeleted   = problem{409, "deleted", "the memory was deleted in the backend, which cannot restore one under its id"}
	errChanged   = problem{409, "changed", "the memory has changed; see its history"}
	errNoAnswer  = problem{502, "upstream", "the backend did not answer; nothing was changed, see the log"}
	errUnsent    = problem{502, "upstream", "the backend could not be reached; nothing was changed, see the log"}
	errMaybeSent = problem{502, "upstream", "it is unknown whether the backend was changed; memproxy keeps asking it, see the memory's history"}
)

// Roll performs a recorded rollback. It is not stopped when the client disconnects.
func (r *Roller) Roll(ctx context.Context, rb Rollback) (RollbackAnswer, error) {
	sending, done, ok := r.begin(ctx, r.opt.Timeout)
	if !ok {
		return RollbackAnswer{}, errNoAnswer
	}
	defer done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opt.Timeout)
	defer cancel()
	var err error
	if rb.Now, err = r.opt.Applier.Now(sending, rb.Memory); err != nil {
		r.opt.Log.ErrorContext(ctx, "the state of a memory cannot be fetched", "decision", rb.Decision, "error", err)
		return RollbackAnswer{}, errNoAnswer
	}
	if rb.Now.Missing {
		return RollbackAnswer{}, errors.Join(r.deleted(ctx, rb.Memory), errDeleted)
	}
	// A present text without a version, because it was written out-of-band or is
	// being recorded just now, is stored before it is overwritten.
	found := memproxy.Version{MemoryKey: rb.Memory, Tenant: rb.To.Tenant, Field: rb.To.Field, Op: memproxy.OpSeal, Text: rb.Now.Text, Metadata: rb.Now.Metadata}
	if err := r.opt.Rollbacks.KeepFound(ctx, found); err != nil {
		return RollbackAnswer{}, err
	}
	before := memproxy.TextSHA256(rb.Now.Text)
	if rb.Newest != "" && rb.Newest != before {
		return RollbackAnswer{}, errChanged
	}
	err = r.opt.Rollbacks.Begin(ctx, memproxy.Rollback{
		MemoryKey: rb.Memory, Tenant: rb.To.Tenant, Decision: rb.Decision, Reviewer: rb.Reviewer, Reason: rb.Reason, Number: rb.To.Number, Before: before,
	}, 2*r.opt.Timeout)
	if err != nil {
		return RollbackAnswer{}, err
	}
	r.opt.Steps.At(memproxy.StepRollbackBegun)
	return r.apply(ctx, sending, rb, before)
}

// apply sends a rollback to the backend. The end of the process cancels sending,
// but leaves ctx for recording the result.
func (r *Roller) apply(ctx, sending context.Context, rb Rollback, before string) (RollbackAnswer, error) {
	sent := r.opt.Applier.Apply(sending, rb)
	r.opt.Steps.At(memproxy.StepRollbackSent)
	answer := RollbackAnswer{Result: sent.Result, outcome: sent.Outcome}
	switch sent.Outcome {
	case memproxy.OutcomeDone:
	case memproxy.OutcomeRefused, memproxy.OutcomeRejected, memproxy.OutcomeDenied:
		_, err := r.opt.Rollbacks.End(ctx, rb.Decision, nil)
		return answer, err
	case memproxy.OutcomeUnsent:
		r.opt.Log.WarnContext(ctx, "a rollback could not be sent", "decision", rb.Decision, "error", sent.Err)
		_, err := r.opt.Rollbacks.End(ctx, rb.Decision, nil)
		return RollbackAnswer{}, errors.Join(err, errUnsent)
	case memproxy.OutcomeUnknown: // it remains begun: Recover asks the backend for its state
		r.opt.Log.ErrorContext(ctx, "it is not known whether a rollback was taken", "decision", rb.Decision, "status", sent.Result.Status, "error", sent.Err)
		if sent.Err != nil {
			return RollbackAnswer{}, errMaybeSent
		}
		return answer, nil
	}
	made, err := r.settle(ctx, rb, before)
	if err != nil {
		return RollbackAnswer{}, fmt.Errorf("the backend was rolled back and the version is not recorded yet: %w", err)
	}
	answer.Version = &made
	if made.SHA256 != rb.To.SHA256 && rb.To.Kind == memproxy.TargetObject {
		answer.Result.Detail = "not every member could be restored; the version has the present state"
	}
	return answer, nil
}

// settle stores the version that a rollback made.
func (r *Roller) settle(ctx context.Context, rb Rollback, before string) (memproxy.Version, error) {
	to := rb.To
	if to.Kind == memproxy.TargetObject {
		// A backend need not accept every member: the version is its present state.
		if now, err := r.opt.Applier.Now(ctx, rb.Memory); err != nil || now.Missing {
			return memproxy.Version{}, errors.Join(err, errors.New("review: what became of the object is not known yet"))
		} else if now.Text != to.Text {
			to.Text = now.Text
		}
	}
	made, err := r.opt.Rollbacks.End(ctx, rb.Decision, &memproxy.Version{
		MemoryKey: rb.Memory, Tenant: to.Tenant, Field: to.Field, Op: memproxy.OpRollback, Actor: rb.Reviewer, Trust: memproxy.TrustHuman,
		Confidence: to.Confidence, Attestation: to.Attestation, Decision: rb.Decision, Score: to.Score, Before: before, Text: to.Text, Metadata: to.Metadata,
	})
	if err == nil {
		r.opt.Steps.At(memproxy.StepRollbackSettled)
	}
	return made, err
}

// deleted records that a memory was deleted in the backend out-of-band.
func (r *Roller) deleted(ctx context.Context, k memproxy.MemoryKey) error {
	last, err := r.opt.Versions.History(ctx, k, 0, 1)
	if err != nil || len(last) == 0 || last[0].Op == memproxy.OpDelete || last[0].Op == memproxy.OpPurge {
		return err
	}
	_, err = r.opt.Versions.Append(ctx, memproxy.Version{
		MemoryKey: k, Tenant: last[0].Tenant, Field: last[0].Field, Op: memproxy.OpDelete, Trust: memproxy.TrustAnonymous,
		Attestation: memproxy.AttestationUnknown, Before: last[0].SHA256,
	})
	return err
}

// Recover settles rollbacks whose lease has expired. Call it on start and
// periodically.
func (r *Roller) Recover(ctx context.Context) error {
	left, err := r.opt.Rollbacks.Unfinished(ctx, 2*r.opt.Timeout)
	if err != nil {
		return err
	}
	var errs []error
	for _, b := range left {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch err := r.resume(ctx, b); {
		case errors.Is(err, errStopping):
			return nil
		case err != nil:
			errs = append(errs, fmt.Errorf("the one of decision %s, which was begun, could not be ended: %w", b.Decision, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Roller) resume(ctx context.Context, b memproxy.Rollback) error {
	sending, done, ok := r.begin(ctx, r.opt.Timeout)
	if !ok {
		return errStopping
	}
	defer done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opt.Timeout)
	defer cancel()
	to, err := r.opt.Versions.Version(ctx, b.MemoryKey, b.Number)
	if errors.Is(err, memproxy.ErrGone) || errors.Is(err, memproxy.ErrUnknown) {
		return r.abandon(ctx, b, "the version's text was destroyed")
	}
	if err != nil {
		return err
	}
	now, err := r.opt.Applier.Now(sending, b.MemoryKey)
	if err != nil {
		return err
	}
	rb := Rollback{Memory: b.MemoryKey, To: to, Now: now, Decision: b.Decision, Reviewer: b.Reviewer, Reason: b.Reason}
	switch hash := memproxy.TextSHA256(now.Text); {
	case now.Missing:
		return errors.Join(r.deleted(ctx, b.MemoryKey), r.abandon(ctx, b, "the memory was deleted"))
	case hash == to.SHA256:
		var made memproxy.Version
		if made, err = r.settle(ctx, rb, b.Before); err == nil {
			r.recordResult(ctx, &b, memproxy.ActDone, "", &made)
		}
	case hash == b.Before:
		var answer RollbackAnswer
		answer, err = r.apply(ctx, sending, rb, b.Before)
		act := actOf(answer.outcome)
		if err != nil {
			act.Rule, act.Stage = ruleOf(err)
		}
		r.recordResult(ctx, &b, act.Stage, act.Rule, answer.Version)
	default:
		err = r.abandon(ctx, b, "something else was written since")
	}
	return err
}

func (r *Roller) abandon(ctx context.Context, b memproxy.Rollback, why string) error {
	r.opt.Log.WarnContext(ctx, "a rollback that was begun is given up", "decision", b.Decision, "memory", b.ID, "reason", why)
	_, err := r.opt.Rollbacks.End(ctx, b.Decision, nil)
	if err == nil {
		r.recordResult(ctx, &b, memproxy.ActFailed, "stale", nil)
	}
	return err
}
