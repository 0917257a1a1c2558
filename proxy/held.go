package proxy

import (
	"errors"
	"net/http"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// compensate admits a run that cannot be gated call by call. At its end, its memory
// writes are ruled on, and undone if they are not admitted. A stream is passed on at
// once, other answers after that.
func (p *Proxy) compensate(w *answerWriter, r *http.Request, a *gate.Admission) {
	ctx, cancel := p.upstreamContext(r.Context(), a)
	defer cancel()
	c, err := p.runs.Watch(ctx, a, r.Header)
	if errors.Is(err, memproxy.ErrUngated) {
		if reply, refused := p.opt.Gate.Agents().Blind(ctx, a); refused {
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
		if !settles { // a panic on the way
			c.Leave()
		}
	}()
	p.opt.Gate.Agents().Watching(ctx, a)
	p.opt.Steps.At(memproxy.StepRunJournalled)
	answered := func() {
		p.opt.Steps.At(memproxy.StepRunAnswered)
		settles = true
	}
	if !c.Background() {
		w.before = func() {
			answered()
			c.Settle(ctx)
		}
	}
	p.send(w, r, a, nil)
	if !settles {
		answered()
		c.Later()
	}
}
