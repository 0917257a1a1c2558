package agentrun

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/wait"
)

// Limits of settling a compensated run.
const (
	// settleRounds is the maximum number of readings of the agents' memory: one to find
	// the run's changes, and one more after each undo to verify it. Truncated readings do
	// not count.
	settleRounds = 6
	// settleTime is the timeout of the policy decisions and undo requests after the end
	// of a run.
	settleTime = 2 * time.Minute
	// maxLook is the maximum number of upstream requests of one reading.
	maxLook = 1000
	// maxUnsettled is for how long failed attempts to settle a run or to decline pending
	// calls are retried, including restarts, and minUnsettled for how long each process
	// retries to settle at least.
	maxUnsettled = 24 * time.Hour
	minUnsettled = time.Hour
)

// Backoff of polling for the end of a run, and of retrying a failed reading or undo.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

var (
	errUnsettled = errors.New("the run repeats changes that were undone")
	errCut       = errors.New("the run changed more memory than one snapshot covers")
)

// CompensatedRun is a compensated run: a forwarded run whose memory changes are decided after
// its end. Its agents are locked until then, so that changes of their memory are the
// run's, as far as this process can tell.
type CompensatedRun struct {
	r       *Runs
	a       *gate.Admission
	diff    memproxy.RunDiff
	caller  http.Header
	unlock  func()                     // of its agents
	ruled   map[string]*gate.Admission // by Change.Key; nil for a change that is somebody else's write
	resumed time.Time                  // when this process resumed the run
}

// Compensate locks the agents of an admitted run that cannot be gated call by call and
// journals a snapshot of their memory. The caller forwards the run, then calls Settle,
// SettleLater or Abandon. The error is memproxy.ErrUngated if the run's changes cannot be
// determined. Requests for the agents' memory carry the credentials of the caller's
// headers.
func (r *Runs) Compensate(ctx context.Context, a *gate.Admission, caller http.Header) (*CompensatedRun, error) {
	compensator := r.opt.Adapter.(backend.AgentRunner) // required by the gate before it admits such a run
	call := a.Call()
	c := &CompensatedRun{r: r, a: a, caller: caller, ruled: map[string]*gate.Admission{}}
	var who []string
	for range 4 { // until the set of locked agents equals the set of agents whose memory the run may change
		var err error
		if c.diff, err = compensator.DiffRun(call.Route, call.Request, a.Body); err != nil {
			return nil, err
		}
		if who == nil {
			who = c.diff.Agents()
		}
		if err = c.lock(ctx, who); err != nil {
			return nil, err
		}
		if err = c.snapshot(ctx); err == nil && slices.Equal(c.diff.Agents(), who) {
			if err = r.journalRun(c); err == nil {
				return c, nil
			}
		}
		c.unlock()
		if err != nil {
			return nil, err
		}
		who = c.diff.Agents()
	}
	return nil, errors.New("the agents of the run keep changing")
}

// Background reports whether the run starts only after its response.
func (c *CompensatedRun) Background() bool { return c.diff.Background() }

// Abandon releases a run whose request did not complete in this process. Its journal
// entry remains.
func (c *CompensatedRun) Abandon() {
	c.unlock()
	c.r.journal.release(c.a.Decision.ID, c, true, c.r.opt.Clock())
}

func (r *Runs) journalRun(c *CompensatedRun) error {
	baseline, err := c.diff.MarshalBaseline()
	if err != nil {
		return err
	}
	call := c.a.Call()
	r.journal.claim(c.a.Decision.ID, r.opt.Clock())
	if err := r.journal.write(&journalEntry{
		Decision: c.a.Decision.ID, Begun: r.opt.Clock().UTC(), Principal: c.a.Principal,
		Route: call.Route.ID, Method: call.Request.Method, Path: call.Request.EscapedPath, Session: call.Session, Baseline: baseline,
	}); err != nil {
		r.journal.forget(c.a.Decision.ID)
		return fmt.Errorf("the run cannot be journaled: %w", err)
	}
	return nil
}

func (c *CompensatedRun) lock(ctx context.Context, agents []string) (err error) {
	keys := make([]string, len(agents))
	for i, id := range agents {
		keys[i] = "agent " + id
	}
	c.unlock, err = c.r.Locks.Lock(ctx, Exclusive, keys...)
	return err
}

func (c *CompensatedRun) snapshot(ctx context.Context) error {
	c.diff.StartSnapshot()
	return backend.Prepare(c.diff, maxLook, func(q memproxy.Request) (memproxy.Reply, error) { return c.r.ask(ctx, q, c.caller) })
}

// SettleLater settles a run in the background, after its response was sent.
func (c *CompensatedRun) SettleLater() {
	c.r.after.Go(func() {
		ctx, cancel := context.WithTimeout(c.r.life, c.r.opt.RunTimeout)
		defer cancel()
		c.Settle(ctx)
	})
}

// Settle waits until the run has ended, applies the policies to its memory changes,
// undoes the refused ones and unlocks the agents. A run that cannot be settled stays in
// the journal.
func (c *CompensatedRun) Settle(ctx context.Context) {
	defer c.unlock()
	err := c.idle(ctx)
	switch {
	case c.r.life.Err() != nil:
		err = c.r.life.Err() // the next process settles the run
	case err == nil || ctx.Err() != nil:
		// The run does not end: decide on its changes so far.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer cancel()
		err = c.rule(rctx)
	}
	if err == nil {
		c.r.opt.Steps.At(memproxy.StepRunSettled)
		err = c.r.journal.remove(c.a.Decision.ID)
	}
	if err != nil {
		c.r.opt.Gate.Agents().RecordUnsettled(context.WithoutCancel(ctx), c.a, false, err)
		c.r.journal.release(c.a.Decision.ID, c, true, c.r.opt.Clock())
	}
}

// idle waits until none of the agents runs. If another run may follow the first, two
// consecutive polls must find them idle.
func (c *CompensatedRun) idle(ctx context.Context) error {
	quiet, wanted := 0, 1
	if c.diff.Background() || len(c.diff.Agents()) > 1 {
		wanted = 2
	}
	for pause := firstPause; ; pause = min(lastPause, pause*3/2) {
		switch busy, err := c.busy(ctx); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			c.r.opt.Log.WarnContext(ctx, "cannot determine whether a run has ended", "backend", c.r.opt.Name, "decision", c.a.Decision.ID, "error", err)
			quiet = 0
		case busy:
			quiet = 0
		default:
			if quiet++; quiet >= wanted {
				return nil
			}
		}
		if err := wait.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func (c *CompensatedRun) busy(ctx context.Context) (bool, error) {
	for _, q := range c.diff.ActiveRunRequests() {
		reply, err := c.r.ask(ctx, q, c.caller)
		if err != nil {
			return false, err
		}
		if busy, err := c.diff.HasActiveRun(reply); busy || err != nil {
			return busy, err
		}
	}
	return false, nil
}

// rule decides on the changes, undoes the refused ones, and verifies the undo.
func (c *CompensatedRun) rule(ctx context.Context) error {
	last, pause := errUnsettled, firstPause
	for rounds := 0; rounds < settleRounds; rounds++ {
		open, err := c.round(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && !open:
			return nil
		case err == nil && c.diff.Truncated():
			rounds-- // the next reading may cover what this one missed
			continue
		case err == nil:
			continue // the next reading verifies the undo
		}
		last = err
		if err := wait.Sleep(ctx, pause); err != nil {
			return last
		}
		pause *= 4
	}
	return last
}

// round reads the memory once. open reports whether there was a change to undo.
func (c *CompensatedRun) round(ctx context.Context) (open bool, err error) {
	if err := c.snapshot(ctx); err != nil {
		return true, err
	}
	var failed []error
	for _, change := range c.diff.Changes() {
		a, known := c.ruled[change.Key]
		if !known {
			a = c.ruleOn(ctx, change)
			c.ruled[change.Key] = a
		}
		if a == nil || !a.Decision.Verdict.Stops() {
			continue
		}
		open = true
		c.r.opt.Steps.At(memproxy.StepRunRuled)
		err := c.undo(ctx, change)
		c.r.opt.Steps.At(memproxy.StepRunUndone)
		c.r.opt.Gate.Agents().RecordUndo(ctx, a, change, err)
		failed = append(failed, err)
	}
	if c.diff.Truncated() && !open {
		return true, errCut
	}
	return open, errors.Join(failed...)
}

// ruleOn rules on a change, and records it if it is admitted. It returns nil for a change that
// was ruled on when it was made.
func (c *CompensatedRun) ruleOn(ctx context.Context, change memproxy.Change) *gate.Admission {
	agents := c.r.opt.Gate.Agents()
	if agents.AlreadyRuledOn(ctx, c.a, change) {
		return nil
	}
	a := agents.RuleOnCall(ctx, c.a, change.Call)
	frontend.LogDecision(ctx, c.r.opt.Log, c.r.opt.Name, a)
	if !a.Decision.Verdict.Stops() {
		agents.RecordChanges(ctx, a, change.Memories)
	}
	return a
}

func (c *CompensatedRun) undo(ctx context.Context, change memproxy.Change) (err error) {
	start, status := time.Now(), http.StatusBadGateway
	defer func() {
		c.r.opt.Observe(ctx, string(change.Call.Operation.Kind), memproxy.Deny.String(), status, time.Since(start))
	}()
	for _, u := range change.Undo {
		uctx, cancel := c.r.opt.Within(ctx)
		reply, err := c.r.send(uctx, u.Request, u.Body, c.caller)
		cancel()
		if err != nil {
			return err
		}
		status = reply.Status
		gone := status == http.StatusNotFound && u.Request.Method == http.MethodDelete
		if !memproxy.IsSuccess(status) && !gone {
			return fmt.Errorf("an undo request returned status %d", status)
		}
	}
	return nil
}
