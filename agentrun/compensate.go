package agentrun

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
)

// Bounds of settling.
const (
	// settleRounds is how often what a run changed is looked at: once to find
	// it, once more after each undoing, to see that it is undone. Looks that
	// cannot take in everything do not count.
	settleRounds = 6
	// settleTime bounds the looks, rulings and undoings after a run's end.
	settleTime = 2 * time.Minute
	// maxLook bounds the requests of one look.
	maxLook = 1000
	// maxUnsettled is how long settling is tried again, over restarts too, and
	// minUnsettled how long by each process in any case.
	maxUnsettled = 24 * time.Hour
	minUnsettled = time.Hour
)

// The pace at which a run is asked whether it is over, and a broken look or
// undoing is tried again.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

var (
	errUnsettled = errors.New("what the run wrote does not stay undone")
	errCut       = errors.New("the run wrote more than can be looked at")
	errLook      = errors.New("a look at the memory does not end")
)

// Watched is a run that is let through, until what it wrote has been ruled on.
// Its agents are locked meanwhile: what changes is its doing, as far as this
// process can see to that.
type Watched struct {
	r      *Runs
	a      *gate.Admission
	watch  memproxy.Watch
	caller http.Header
	held   Held
	ruled  map[string]*gate.Admission // by the change's key
	taken  time.Time                  // when this process took it up again
}

// Watch locks the agents of an admitted run that cannot be gated call by call and
// keeps what they remember, for this process and for the next. The caller passes
// the run on, then calls Settle, Later or Leave. A run of which nobody can say what
// it changes is memproxy.ErrUngated. The caller's headers lend their credentials to
// the questions that are asked.
func (r *Runs) Watch(ctx context.Context, a *gate.Admission, caller http.Header) (*Watched, error) {
	compensator := r.opt.Backend.Adapter.(gate.Compensator) // or the gate would not have let it through
	call := a.Call()
	c := &Watched{r: r, a: a, caller: caller, held: Held{Locks: r.opt.Locks}, ruled: map[string]*gate.Admission{}}
	var who []string
	for range 4 { // until those who are locked are those who take part
		var err error
		if c.watch, err = compensator.Watch(call.Route, call.Request, a.Body); err != nil {
			return nil, err
		}
		if who == nil {
			who = c.watch.Agents()
		}
		if err = c.lock(ctx, who); err == nil {
			err = c.look(ctx)
		}
		if err == nil && slices.Equal(c.watch.Agents(), who) {
			if err = r.keep(c); err == nil {
				return c, nil
			}
		}
		c.held.Unlock()
		if err != nil {
			return nil, err
		}
		who = c.watch.Agents()
	}
	return nil, errors.New("the agents of the run keep changing")
}

// Background reports whether the run only begins when it is answered.
func (c *Watched) Background() bool { return c.watch.Background() }

// Leave gives up a run whose request did not come to its end in this process: the
// journal has it still.
func (c *Watched) Leave() {
	c.held.Unlock()
	c.r.unsettled.leave(c, c.r.opt.Clock())
}

// keep writes a run into the journal.
func (r *Runs) keep(c *Watched) error {
	picture, err := c.watch.Picture()
	if err != nil {
		return err
	}
	call := c.a.Call()
	r.unsettled.take(c.a.Decision.ID, r.opt.Clock())
	if err := r.journal.write(&journalEntry{
		Decision: c.a.Decision.ID, Begun: r.opt.Clock().UTC(), Principal: c.a.Principal,
		Route: call.Route.ID, Method: call.Request.Method, Path: call.Request.EscapedPath, Session: call.Session, Picture: picture,
	}); err != nil {
		r.unsettled.drop(c.a.Decision.ID)
		return fmt.Errorf("the run cannot be written down: %w", err)
	}
	return nil
}

func (c *Watched) lock(ctx context.Context, agents []string) error {
	for _, id := range agents { // sorted, so that no two wait for each other
		if err := c.held.Lock(ctx, "agent "+id, Exclusive); err != nil {
			return err
		}
	}
	return nil
}

// look looks at the agents' memory.
func (c *Watched) look(ctx context.Context) error {
	c.watch.Look()
	for range maxLook {
		q, more := c.watch.Ask()
		if !more {
			return nil
		}
		reply, err := c.r.ask(ctx, q, c.caller)
		if err != nil {
			return err
		}
		if err := c.watch.Answered(reply); err != nil {
			return err
		}
	}
	return errLook
}

// Later settles a run whose answer was passed on, in the background.
func (c *Watched) Later() {
	c.r.after.Go(func() {
		ctx, cancel := context.WithTimeout(c.r.life, c.r.opt.RunTimeout)
		defer cancel()
		c.Settle(ctx)
	})
}

// Settle waits until the run is over, rules on what it wrote, and gives the
// agents free. What cannot be settled stays in the journal.
func (c *Watched) Settle(ctx context.Context) {
	defer c.held.Unlock()
	err := c.idle(ctx)
	switch {
	case c.r.life.Err() != nil:
		err = c.r.life.Err() // the next process will see to it
	case err == nil || ctx.Err() != nil:
		// A run that does not end is ruled on as far as it came.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer cancel()
		err = c.rule(rctx)
	}
	if err == nil {
		c.r.opt.Steps.At(memproxy.StepRunSettled)
		err = c.r.journal.remove(c.a.Decision.ID)
	}
	if err != nil {
		c.r.opt.Gate.Agents().Unsettled(context.WithoutCancel(ctx), c.a, false, err)
		c.r.unsettled.leave(c, c.r.opt.Clock())
		return
	}
	c.r.unsettled.drop(c.a.Decision.ID)
}

// idle waits until none of the agents runs. A run that another follows is not
// over when it looks so for the first time.
func (c *Watched) idle(ctx context.Context) error {
	quiet, wanted := 0, 1
	if c.watch.Background() || len(c.watch.Agents()) > 1 {
		wanted = 2
	}
	for wait := firstPause; ; wait = min(lastPause, wait*3/2) {
		switch busy, err := c.busy(ctx); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			c.r.opt.Log.WarnContext(ctx, "a run cannot be asked whether it is over", "backend", c.r.opt.Backend.Name, "decision", c.a.Decision.ID, "error", err)
			quiet = 0
		case busy:
			quiet = 0
		default:
			if quiet++; quiet >= wanted {
				return nil
			}
		}
		if err := c.r.pause(ctx, wait); err != nil {
			return err
		}
	}
}

func (c *Watched) busy(ctx context.Context) (bool, error) {
	for _, q := range c.watch.Busy() {
		reply, err := c.r.ask(ctx, q, c.caller)
		if err != nil {
			return false, err
		}
		if busy, err := c.watch.Runs(reply); busy || err != nil {
			return busy, err
		}
	}
	return false, nil
}

func (r *Runs) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.opt.After(d):
		return nil
	}
}

// rule rules on what changed, undoes what is not admitted, and looks again.
func (c *Watched) rule(ctx context.Context) error {
	last, wait := errUnsettled, firstPause
	for rounds := 0; rounds < settleRounds; rounds++ {
		open, err := c.round(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && !open:
			return nil
		case err == nil && c.watch.Cut():
			rounds-- // what was in the way is gone
			continue
		case err == nil:
			continue // undone; the next look shows whether it is
		}
		last = err
		if err := c.r.pause(ctx, wait); err != nil {
			return last
		}
		wait *= 4
	}
	return last
}

// round is one look. Open says that there was something to undo.
func (c *Watched) round(ctx context.Context) (open bool, err error) {
	if err := c.look(ctx); err != nil {
		return true, err
	}
	var failed []error
	for _, change := range c.watch.Changes() {
		a := c.ruled[change.Key]
		if a == nil && c.r.opt.Gate.Agents().Vouched(ctx, c.a, change) {
			c.watch.Accept(change.Key)
			continue
		}
		if a == nil {
			a = c.r.opt.Gate.Agents().Ask(ctx, c.a, change.Call)
			face.LogDecision(ctx, c.r.opt.Log, c.r.opt.Backend.Name, a)
			c.ruled[change.Key] = a
		}
		if !a.Decision.Verdict.Stops() {
			c.r.opt.Gate.Agents().Changed(ctx, a, change.Memories)
			c.watch.Accept(change.Key)
			continue
		}
		open = true
		c.r.opt.Steps.At(memproxy.StepRunRuled)
		err := c.undo(ctx, change)
		c.r.opt.Steps.At(memproxy.StepRunUndone)
		c.r.opt.Gate.Agents().Undone(ctx, a, change, err)
		failed = append(failed, err)
	}
	if c.watch.Cut() && !open {
		return true, errCut
	}
	return open, errors.Join(failed...)
}

// undo takes a change back.
func (c *Watched) undo(ctx context.Context, change memproxy.Change) (err error) {
	start, status := time.Now(), http.StatusBadGateway
	defer func() {
		c.r.opt.Observe(ctx, c.a.Call().Route.ID+"/undo", string(change.Call.Operation.Kind), memproxy.Deny.String(), status, time.Since(start))
	}()
	for _, u := range change.Undo {
		uctx, cancel := context.WithTimeout(ctx, gate.DefaultFetchTimeout)
		reply, err := c.r.send(uctx, u.Request, u.Body, c.caller)
		cancel()
		if err != nil {
			return err
		}
		status = reply.Status
		gone := status == http.StatusNotFound && u.Request.Method == http.MethodDelete
		if (status < 200 || status > 299) && !gone {
			return fmt.Errorf("an undoing was answered %d", status)
		}
	}
	return nil
}
