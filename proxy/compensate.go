package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
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
	// maxUnsettled is how long settling is tried again, over restarts too.
	maxUnsettled = 24 * time.Hour
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

// watched is a run that is let through, until what it wrote has been ruled on.
// Its agents are locked meanwhile: what changes is its doing, as far as this
// process can see to that.
type watched struct {
	p      *Proxy
	a      *gate.Admission
	watch  memproxy.Watch
	caller http.Header
	held   []func()
	ruled  map[string]*gate.Admission // by the change's key
}

// compensate lets a run through that cannot be gated call by call. When it is
// over, what it wrote is ruled on, and undone where it is not let in. A stream
// goes to the caller as it comes, an answer in one piece when all is settled.
func (p *Proxy) compensate(w http.ResponseWriter, r *http.Request, a *gate.Admission) {
	ctx, cancel := p.upstreamContext(r.Context(), a)
	defer cancel()
	c, err := p.watch(ctx, r, a)
	if errors.Is(err, memproxy.ErrUngated) {
		if reply, refused := p.opt.Gate.Blind(ctx, a); refused {
			p.write(w, reply, nil, a)
			return
		}
		p.send(w, r, a, nil)
		return
	}
	if err != nil {
		p.abandon(w, r, a, err)
		return
	}
	settles := false
	defer func() {
		if !settles { // a panic on the way; the journal has it still
			c.unlock()
			p.unsettled.leave(c, p.opt.Clock())
		}
	}()
	p.opt.Gate.Watching(ctx, a)
	p.opt.Steps.At(memproxy.StepRunJournalled)
	answer := &heldAnswer{ResponseWriter: w, limit: p.opt.MaxAnswer, passes: c.watch.Background()}
	p.send(answer, r, a, nil)
	p.opt.Steps.At(memproxy.StepRunAnswered)
	settles = true
	if answer.passes {
		p.later(c)
		return
	}
	c.settle(ctx)
	answer.release()
}

// watch locks the agents of a run and takes down what they remember, for this
// process and for the next.
func (p *Proxy) watch(ctx context.Context, r *http.Request, a *gate.Admission) (*watched, error) {
	compensator := p.opt.Adapter.(gate.Compensator) // or the gate would not have let it through
	call := a.Call()
	c := &watched{p: p, a: a, caller: r.Header, ruled: map[string]*gate.Admission{}}
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
			err = p.keep(c)
			if err == nil {
				return c, nil
			}
		}
		c.unlock()
		if err != nil {
			return nil, err
		}
		who = c.watch.Agents()
	}
	return nil, errors.New("the agents of the run keep changing")
}

// keep writes a run into the journal.
func (p *Proxy) keep(c *watched) error {
	picture, err := c.watch.Picture()
	if err != nil {
		return err
	}
	call := c.a.Call()
	p.unsettled.take(c.a.Decision.ID, p.opt.Clock())
	if err := p.journal.write(&journalEntry{
		Decision: c.a.Decision.ID, Begun: p.opt.Clock().UTC(), Principal: c.a.Principal,
		Route: call.Route.ID, Method: call.Request.Method, Path: call.Request.EscapedPath, Session: call.Session, Picture: picture,
	}); err != nil {
		p.unsettled.drop(c.a.Decision.ID)
		return fmt.Errorf("the run cannot be written down: %w", err)
	}
	return nil
}

func (c *watched) lock(ctx context.Context, agents []string) error {
	for _, id := range agents { // sorted, so that no two wait for each other
		unlock, err := c.p.turns.lock(ctx, "agent "+id, exclusive)
		if err != nil {
			return err
		}
		c.held = append(c.held, unlock)
	}
	return nil
}

func (c *watched) unlock() {
	for _, f := range c.held {
		f()
	}
	c.held = nil
}

// look looks at the agents' memory.
func (c *watched) look(ctx context.Context) error {
	c.watch.Look()
	for range maxLook {
		q, more := c.watch.Ask()
		if !more {
			return nil
		}
		reply, err := c.p.ask(ctx, q, c.caller)
		if err != nil {
			return err
		}
		if err := c.watch.Answered(reply); err != nil {
			return err
		}
	}
	return errLook
}

// later settles a run when its answer has been passed on.
func (p *Proxy) later(c *watched) {
	p.after.Go(func() {
		ctx, cancel := context.WithTimeout(p.life, p.opt.RunTimeout)
		defer cancel()
		c.settle(ctx)
	})
}

// settle waits until the run is over, rules on what it wrote, and gives the
// agents free. What cannot be settled stays in the journal.
func (c *watched) settle(ctx context.Context) {
	defer c.unlock()
	err := c.idle(ctx)
	switch {
	case c.p.life.Err() != nil:
		err = c.p.life.Err() // the next process will see to it
	case err == nil || ctx.Err() != nil:
		// A run that does not end is ruled on as far as it came.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer cancel()
		err = c.rule(rctx)
	}
	if err == nil {
		c.p.opt.Steps.At(memproxy.StepRunSettled)
		err = c.p.journal.remove(c.a.Decision.ID)
	}
	if err != nil {
		c.p.opt.Gate.Unsettled(context.WithoutCancel(ctx), c.a, false, err)
		c.p.unsettled.leave(c, c.p.opt.Clock())
		return
	}
	c.p.unsettled.drop(c.a.Decision.ID)
}

// idle waits until none of the agents runs. A run that another follows is not
// over when it looks so for the first time.
func (c *watched) idle(ctx context.Context) error {
	quiet, wanted := 0, 1
	if c.watch.Background() || len(c.watch.Agents()) > 1 {
		wanted = 2
	}
	for wait := firstPause; ; wait = min(lastPause, wait*3/2) {
		switch busy, err := c.busy(ctx); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			c.p.opt.Log.WarnContext(ctx, "a run cannot be asked whether it is over", "backend", c.p.opt.Name, "decision", c.a.Decision.ID, "error", err)
			quiet = 0
		case busy:
			quiet = 0
		default:
			if quiet++; quiet >= wanted {
				return nil
			}
		}
		if err := c.p.pause(ctx, wait); err != nil {
			return err
		}
	}
}

func (c *watched) busy(ctx context.Context) (bool, error) {
	for _, q := range c.watch.Busy() {
		reply, err := c.p.ask(ctx, q, c.caller)
		if err != nil {
			return false, err
		}
		if busy, err := c.watch.Runs(reply); busy || err != nil {
			return busy, err
		}
	}
	return false, nil
}

func (p *Proxy) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.opt.After(d):
		return nil
	}
}

// rule rules on what changed, undoes what is not let in, and looks again.
func (c *watched) rule(ctx context.Context) error {
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
		if err := c.p.pause(ctx, wait); err != nil {
			return last
		}
		wait *= 4
	}
	return last
}

// round is one look. Open says that there was something to undo.
func (c *watched) round(ctx context.Context) (open bool, err error) {
	if err := c.look(ctx); err != nil {
		return true, err
	}
	var failed []error
	for _, change := range c.watch.Changes() {
		if c.ruled[change.Key] == nil && c.p.opt.Gate.Vouched(ctx, c.a, change) {
			c.watch.Accept(change.Key)
			continue
		}
		a := c.ruled[change.Key]
		if a == nil {
			a = c.p.opt.Gate.Ask(ctx, c.a, change.Call)
			c.p.log(ctx, a, a.Call().Route.ID)
			c.ruled[change.Key] = a
		}
		if !a.Decision.Verdict.Stops() {
			c.p.opt.Gate.Changed(ctx, a, change.Memories)
			c.watch.Accept(change.Key)
			continue
		}
		open = true
		c.p.opt.Steps.At(memproxy.StepRunRuled)
		err := c.undo(ctx, change)
		c.p.opt.Steps.At(memproxy.StepRunUndone)
		c.p.opt.Gate.Undone(ctx, a, change, err)
		failed = append(failed, err)
	}
	if c.watch.Cut() && !open {
		return true, errCut
	}
	return open, errors.Join(failed...)
}

// undo takes a change back.
func (c *watched) undo(ctx context.Context, change memproxy.Change) (err error) {
	start, status := time.Now(), http.StatusBadGateway
	defer func() {
		c.p.opt.Observe(ctx, c.a.Call().Route.ID+"/undo", string(change.Call.Operation.Kind), memproxy.Deny.String(), status, time.Since(start))
	}()
	for _, u := range change.Undo {
		uctx, cancel := context.WithTimeout(ctx, gate.DefaultFetchTimeout)
		reply, err := c.p.beside(uctx, u.Request, u.Body, c.caller)
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
