package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// Bounds of a sweep.
const (
	// graces is for how many intervals a pause must have waited until it counts
	// as nobody's: another replica may be about to answer it. With one, an agent
	// is free by the second sweep after its pause.
	graces = 1
	// maxAnswered is how many pauses that are over are remembered.
	maxAnswered = 1 << 14
	// recoveryLegs bounds the requests by which one pause is answered: the
	// model may try again.
	recoveryLegs = 20
	// patience is how long an agent that may be busy is waited for.
	patience = 50 * time.Millisecond
)

// unanswered is what the agent reads instead of its call's result.
const unanswered = "memproxy restarted before this call was ruled on; nothing was written"

// reconciler is in whose name pauses are answered.
func reconciler() memproxy.Principal {
	return memproxy.Principal{ID: "system:reconciler", Kind: memproxy.KindService, Trust: memproxy.TrustSystem, Method: "internal"}
}

// Start takes up what earlier processes left unsettled, and from then on looks
// for pauses that nobody answers. It returns before requests are to be served,
// and goes on until Close.
func (p *Proxy) Start() {
	if p.opt.Journal == "" && p.opt.Reconcile <= 0 {
		return
	}
	p.takeUp()
	p.after.Go(func() {
		every := p.opt.Reconcile
		if every <= 0 {
			every = DefaultReconcile
		}
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			if p.opt.Reconcile > 0 {
				p.sweep(p.life)
			}
			select {
			case <-p.life.Done():
				return
			case <-tick.C:
				p.takeUp()
			}
		}
	})
}

// Close ends what goes on in the background. What is not settled by then is
// left to the next process.
func (p *Proxy) Close(ctx context.Context) error {
	p.end()
	followed := p.follower.Close(ctx)
	done := make(chan struct{})
	go func() { p.after.Wait(); close(done) }()
	select {
	case <-done:
		p.closeIdle()
		return followed
	case <-ctx.Done():
		return errors.Join(followed, ctx.Err())
	}
}

// closeIdle closes the connections that nothing uses any more.
func (p *Proxy) closeIdle() {
	for _, t := range [...]http.RoundTripper{p.opt.Transport, p.opt.PassTransport, p.opt.SideTransport} {
		if c, ok := t.(interface{ CloseIdleConnections() }); ok {
			c.CloseIdleConnections()
		}
	}
}

// takeUp settles the journal's runs that nobody settles. Their agents are
// locked when it returns, unless they are busy: those have their turn later.
func (p *Proxy) takeUp() {
	compensator, ok := p.opt.Adapter.(gate.Compensator)
	if !ok || p.opt.Journal == "" {
		return
	}
	entries, err := p.journal.left()
	if err != nil {
		p.opt.Log.Error("the journal of runs cannot be read", "backend", p.opt.Name, "error", err)
	}
	for _, e := range entries {
		if p.life.Err() != nil {
			return
		}
		left, mine := p.unsettled.take(e.Decision, p.opt.Clock())
		if !mine {
			continue
		}
		if left, err = p.resettle(compensator, e, left); err != nil {
			p.unsettled.put(e.Decision, left)
			p.opt.Log.Warn("a run is not settled yet", "backend", p.opt.Name, "decision", e.Decision, "error", err)
		}
	}
}

// resettle settles a run that was left, as this process or an earlier one left
// it, beside everything else.
func (p *Proxy) resettle(compensator gate.Compensator, e *journalEntry, c *watched) (*watched, error) {
	if c == nil {
		call := &gate.Call{
			Backend: p.backend, Known: true, Route: memproxy.Route{ID: e.Route, Kind: memproxy.Run}, Session: e.Session,
			Request: memproxy.Request{Method: e.Method, EscapedPath: e.Path},
		}
		c = &watched{p: p, a: p.opt.Gate.Assume(call, e.Principal, e.Decision), ruled: map[string]*gate.Admission{}}
	}
	if p.opt.Clock().Sub(e.Begun) > maxUnsettled {
		p.opt.Gate.Unsettled(p.life, c.a, true, errUnsettled)
		p.unsettled.drop(e.Decision)
		return nil, p.journal.remove(e.Decision)
	}
	if c.watch == nil {
		var err error
		if c.watch, err = compensator.Rewatch(e.Picture); err != nil {
			return c, err
		}
	}
	ctx, cancel := context.WithTimeout(p.life, patience)
	defer cancel()
	if err := c.lock(ctx, c.watch.Agents()); err != nil {
		c.unlock()
		return c, err
	}
	p.later(c)
	return c, nil
}

// sweep finds the pauses that nobody answers and declines what waits in them.
// It asks with the backend's own credential, if there is one.
func (p *Proxy) sweep(ctx context.Context) {
	recoverer, ok := p.opt.Adapter.(gate.Recoverer)
	if !ok || !p.opt.Gate.Rules().Enforce {
		return
	}
	if err := p.sweepPages(ctx, recoverer); err != nil && ctx.Err() == nil {
		p.opt.Log.WarnContext(ctx, "pauses that nobody answers cannot be looked for", "backend", p.opt.Name, "error", err)
	}
}

// recover declines what waits in a pause, until the run ends. Over says that
// nothing of the gate's waits there any more.
func (p *Proxy) recover(ctx context.Context, recoverer gate.Recoverer, found memproxy.Pause) (over bool, err error) {
	req, turn, err := recoverer.Recover(found)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.opt.RunTimeout)
	defer cancel()
	soon, enough := context.WithTimeout(ctx, patience)
	defer enough()
	for _, l := range [...]struct {
		key   string
		share int64
	}{{"turn " + turn.Key(), exclusive}, {"agent " + found.Agent, shared}} {
		unlock, err := p.turns.lock(soon, l.key, l.share)
		if err != nil {
			return false, nil // a turn is under way here, which will see to it
		}
		defer unlock()
	}
	if err := p.prepareRecovery(ctx, turn); err != nil {
		return errors.Is(err, memproxy.ErrUngated), ignore(err, memproxy.ErrUngated)
	}
	if len(turn.Waiting()) == 0 {
		return true, nil
	}
	if p.opt.Clock().Sub(turn.Since()) < graces*p.opt.Reconcile {
		return false, nil // a later one than was looked for
	}
	route, known := p.opt.Adapter.Route(memproxy.Request{Method: req.Method, Path: req.EscapedPath, EscapedPath: req.EscapedPath})
	a := p.opt.Gate.Assume(&gate.Call{Backend: p.backend, Request: req, Route: route, Known: known}, reconciler(), "")
	if a.Shadow() {
		return false, nil
	}
	p.opt.Log.WarnContext(ctx, "a pause that nobody answered is answered", "backend", p.opt.Name, "run", found.Run, "decision", a.Decision.ID)
	for range recoveryLegs {
		for _, call := range turn.Waiting() {
			declined := p.opt.Gate.Decline(ctx, a, call, unanswered)
			p.log(ctx, declined, declined.Call().Route.ID)
			turn.Rule(call.ID, declined.Decision)
		}
		body, err := turn.Leg()
		if err != nil {
			return false, err
		}
		reply, err := p.beside(ctx, req, body, nil)
		if err != nil {
			return false, err
		}
		if reply.Status != http.StatusOK {
			return false, fmt.Errorf("the answer was answered %d", reply.Status)
		}
		if err := turn.Whole(reply.Body); err != nil {
			return false, err
		}
		if !turn.Paused() {
			return true, nil
		}
	}
	return false, errLegs
}

// ignore is nil for an error that is no trouble.
func ignore(err, no error) error {
	if errors.Is(err, no) {
		return nil
	}
	return err
}

func (p *Proxy) prepareRecovery(ctx context.Context, turn memproxy.Turn) error {
	for range maxAsides {
		q, more := turn.Prepare()
		if !more {
			return nil
		}
		reply, err := p.pay(ctx, q)
		if err != nil {
			return err
		}
		if err := turn.Prepared(reply); err != nil {
			return err
		}
	}
	return errors.New("the turn cannot be prepared")
}
