package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/wait"
)

// RunnerOptions configure a Runner.
type RunnerOptions struct {
	Holds     HoldStore
	Memories  MemoryStore
	Rollbacks RollbackStore
	// Backend returns the access to the backend of a name, or why there is none.
	Backend func(name string) (Backend, error)
	// StillValid reports whether the author of a held write could still write it, because
	// its credential is still configured.
	StillValid func(author memproxy.Principal) bool
	// SendTimeout is the timeout of sending one write; 0 is a minute. A claim or a rollback
	// is leased for twice as long, so that the lease cannot expire before the sending has
	// ended.
	SendTimeout time.Duration
	// Timeout is the timeout of recording an action, both before it and of its result, and
	// limits the time that a request may take in the store; 0 is DefaultTimeout.
	Timeout time.Duration
	// Recorder records each attempt to send an approved write, its result, and the
	// results of rollbacks that Recover settled.
	Recorder Recorder
	Clock    func() time.Time
	Steps    memproxy.Stepper
	Log      *slog.Logger
}

// Runner sends approved writes upstream, each at most once, and restores versions of
// memories.
type Runner struct {
	opt  RunnerOptions
	wake chan struct{}
	inFlight
}

// NewRunner returns a runner.
func NewRunner(opt RunnerOptions) *Runner {
	opt.SendTimeout, opt.Timeout = cmp.Or(opt.SendTimeout, time.Minute), cmp.Or(opt.Timeout, DefaultTimeout)
	r := &Runner{opt: opt, wake: make(chan struct{}, 1)}
	r.life, r.cut = context.WithCancel(context.Background())
	return r
}

// Replay sends one approved hold and returns the hold with the result. It continues when
// the client disconnects. A hold that is being sent, or was sent, is returned unchanged.
// If it is unknown whether the write was sent, the hold is returned as replaying.
func (r *Runner) Replay(ctx context.Context, id string) (memproxy.HeldWrite, error) {
	h, _, err := r.replay(ctx, id)
	return h, err
}

// replay is Replay; away also reports whether the backend takes no requests.
func (r *Runner) replay(ctx context.Context, id string) (_ memproxy.HeldWrite, away bool, _ error) {
	sending, done, ok := r.begin(ctx, r.opt.SendTimeout+r.opt.Timeout)
	if !ok {
		return memproxy.HeldWrite{}, false, errStopping
	}
	defer done()
	ctx = context.WithoutCancel(ctx)
	claim, err := r.opt.Holds.Claim(ctx, id, 2*r.opt.SendTimeout)
	if errors.Is(err, memproxy.ErrState) {
		h, err := r.opt.Holds.Get(ctx, id)
		if h.State == memproxy.HoldReplaying { // it may be time to ask the backend
			r.Wake()
		}
		return h, false, err
	}
	if errors.Is(err, memproxy.ErrForged) {
		r.recordResult(ctx, &claim.Hold, memproxy.Act{Stage: memproxy.ActRefused, Rule: "forged"}, memproxy.HoldResult{})
	}
	if err != nil {
		return memproxy.HeldWrite{}, false, err
	}
	r.opt.Steps.At(memproxy.StepReplayClaimed)
	if err := r.attempt(ctx, r.event(&claim.Hold, memproxy.Act{Stage: memproxy.ActAttempted})); err != nil {
		return memproxy.HeldWrite{}, false, errors.Join(err, r.opt.Holds.EndClaim(ctx, id, claim.Token, memproxy.HoldApproved, memproxy.HoldResult{}))
	}
	// The reviewer could not know that the author is gone: a reload of the rules approved
	// the write, or a reviewer did before the author's credential lapsed.
	gone := r.authorInvalid(claim.Content)
	sent := memproxy.SendResult{Outcome: memproxy.OutcomeRefused, Result: memproxy.HoldResult{
		Detail: "memproxy refused it: " + gone + ", which the approving reviewer did not know",
	}}
	if gone == "" || claim.Hold.AuthorInvalidNoted() {
		sent = r.send(sending, &claim)
	}
	r.opt.Steps.At(memproxy.StepReplaySent)
	settling, cancel := context.WithTimeout(ctx, r.opt.Timeout)
	defer cancel()
	err = r.settleClaim(settling, id, claim.Token, sent)
	r.recordResult(ctx, &claim.Hold, acts[sent.Outcome], sent.Result)
	if err != nil {
		return memproxy.HeldWrite{}, false, fmt.Errorf("settle a replay: %w", err)
	}
	r.opt.Steps.At(memproxy.StepReplaySettled)
	h, err := r.opt.Holds.Get(settling, id)
	return h, errors.Is(sent.Err, memproxy.ErrAway), err
}

func (r *Runner) send(ctx context.Context, claim *memproxy.Replay) memproxy.SendResult {
	ctx, cancel := context.WithTimeout(ctx, r.opt.SendTimeout)
	defer cancel()
	b, err := r.opt.Backend(claim.Hold.Backend)
	if err != nil {
		return memproxy.UnsentResult(err)
	}
	return b.Replay(ctx, claim.Hold, claim.Content)
}

// settleClaim ends the claim of a write by the result of sending it. If the outcome is unknown,
// the write stays claimed until the backend was asked.
func (r *Runner) settleClaim(ctx context.Context, id, token string, sent memproxy.SendResult) error {
	to, result := memproxy.HoldFailed, sent.Result
	switch sent.Outcome {
	case memproxy.OutcomeDone:
		to = memproxy.HoldDone
	case memproxy.OutcomeRefused:
		r.opt.Log.WarnContext(ctx, "memproxy refused to send an approved write", "hold", id, "reason", sent.Result.Detail)
	case memproxy.OutcomeRejected:
	case memproxy.OutcomeDenied:
		r.opt.Log.WarnContext(ctx, "an approved write must be reviewed again", "hold", id, "reason", sent.Result.Detail)
		to = memproxy.HoldPending
	case memproxy.OutcomeUnsent:
		r.opt.Log.WarnContext(ctx, "an approved write could not be sent; it will be tried again", "hold", id, "error", sent.Err)
		to, result = memproxy.HoldApproved, memproxy.HoldResult{}
	case memproxy.OutcomeUnknown:
		r.opt.Log.ErrorContext(ctx, "it is unknown whether the backend executed an approved write", "hold", id, "status", sent.Result.Status, "error", sent.Err)
		return nil
	}
	return r.opt.Holds.EndClaim(ctx, id, token, to, result)
}

// authorInvalid returns why the author of a write may no longer write, or "" if it may.
// Holds of earlier versions do not name the author.
func (r *Runner) authorInvalid(c memproxy.HoldContent) string {
	if c.Author == nil || r.opt.StillValid(*c.Author) {
		return ""
	}
	return c.Author.InvalidReason()
}

// Recover continues the work of a process that ended: it settles rollbacks that have
// begun, settles expired claims by asking the backend, and sends approved writes. It
// leaves a write whose outcome cannot be determined to a reviewer. The error names
// everything that was not settled and can be retried. Call it at the start, when WakeChan
// receives, and periodically, because leases expire without a notification.
func (r *Runner) Recover(ctx context.Context) error {
	var errs []error
	if err := r.recoverRollbacks(ctx); err != nil {
		errs = append(errs, fmt.Errorf("rollbacks: %w", err))
	}
	left, err := r.opt.Holds.ExpiredClaims(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, h := range left {
		if err := r.resolve(ctx, h); err != nil {
			errs = append(errs, fmt.Errorf("it is unknown whether hold %s was sent; a reviewer must resolve it, unless the next attempt succeeds: %w", h.ID, err))
		}
	}
	away := map[string]bool{}
	err = r.opt.Holds.Each(ctx, memproxy.HoldFilter{State: memproxy.HoldApproved}, func(h memproxy.HeldWrite) error {
		if ctx.Err() != nil || away[h.Backend] {
			return ctx.Err() // each attempt is recorded, and nothing can be sent there at present
		}
		sent, gone, err := r.replay(ctx, h.ID)
		away[h.Backend] = gone
		switch {
		case errors.Is(err, errStopping):
			return err
		case err != nil:
			errs = append(errs, fmt.Errorf("hold %s was not replayed: %w", h.ID, err))
		case sent.State == memproxy.HoldApproved:
			errs = append(errs, fmt.Errorf("hold %s: %w", h.ID, ErrNotSent))
		}
		return nil
	})
	if errors.Is(err, errStopping) {
		return nil
	}
	return errors.Join(append(errs, err)...)
}

// Wake notifies the receiver of WakeChan.
func (r *Runner) Wake() { wait.Wake(r.wake) }

// WakeChan returns a channel that receives when there may be something to send.
func (r *Runner) WakeChan() <-chan struct{} { return r.wake }

func (r *Runner) resolve(ctx context.Context, h memproxy.HeldWrite) error {
	asking, cancel := context.WithTimeout(ctx, r.opt.SendTimeout)
	defer cancel()
	b, err := r.opt.Backend(h.Backend)
	if err != nil {
		return err
	}
	h, content, err := r.opt.Holds.Content(asking, h.ID)
	if err != nil {
		return err
	}
	ids, known, err := b.FindWrite(asking, h, content)
	if err == nil && !known {
		err = errors.New("the backend cannot tell whether the write arrived")
	}
	if err != nil {
		return err
	}
	to, result := memproxy.HoldApproved, memproxy.HoldResult{Detail: "not found in the backend"} // send it again
	if len(ids) > 0 {
		to, result = memproxy.HoldDone, memproxy.HoldResult{Status: http.StatusOK, Memories: ids, Detail: "found in the backend"}
	}
	if to, err = r.opt.Holds.Resolve(ctx, h.ID, to, result); err != nil {
		return err
	}
	came := memproxy.Act{Stage: memproxy.ActFailed, Rule: "not_found"}
	if to == memproxy.HoldDone {
		came = memproxy.Act{Stage: memproxy.ActDone}
	}
	r.recordResult(ctx, &h, came, result)
	return nil
}

// errStopping means that memproxy is stopping. The next process sends the approved
// writes.
var errStopping = errors.New("review: memproxy is stopping")

// inFlight tracks requests that continue when their clients disconnect. The end of the
// process waits for them, cancels them after its timeout, and closes the store only after
// their results are recorded. The next process asks the backend about the cancelled ones.
type inFlight struct {
	life context.Context
	cut  context.CancelFunc

	mu      sync.Mutex
	closing bool
	all     sync.WaitGroup
}

// begin returns a context for one sending, which ends after most or when sendings are cut
// off, and the function that ends the sending. It reports false after Close or AbortAll.
func (u *inFlight) begin(ctx context.Context, most time.Duration) (context.Context, func(), bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closing {
		return nil, nil, false
	}
	u.all.Add(1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	kept := context.AfterFunc(u.life, cancel)
	return ctx, func() { kept(); cancel(); u.all.Done() }, true
}

// AbortAll cancels all requests in progress. Close must still be called.
func (u *inFlight) AbortAll() {
	u.mu.Lock()
	u.closing = true
	u.mu.Unlock()
	u.cut()
}

const recordGrace = time.Second // how long recording the results of cancelled requests may take

// Close waits for the requests in progress until recordGrace before ctx ends, cancels those
// that remain, and waits until their results are recorded. Nothing is sent afterwards.
func (u *inFlight) Close(ctx context.Context) error {
	u.mu.Lock()
	u.closing = true
	u.mu.Unlock()
	soon, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		soon, cancel = context.WithDeadline(ctx, end.Add(-recordGrace))
	}
	defer cancel()
	ended := wait.For(soon, u.all.Wait) == nil
	u.cut()
	if !ended && wait.For(ctx, u.all.Wait) != nil {
		return errors.New("some replays have not recorded their results")
	}
	return nil
}
