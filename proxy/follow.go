package proxy

import (
	"context"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// Bounds of looking after writes that the backend's model works on after they
// were answered.
const (
	followTime = 5 * time.Minute
	followMost = 64
	followWait = time.Second // doubled from one question to the next
	followMax  = 15 * time.Second
)

// follow asks what became of an admitted write until the backend knows, so that
// what its model made of it is screened. It is done beside the request: who
// wrote has long been answered. What is not followed, because there is too much
// of it or the process ends, is still screened when it is read.
func (p *Proxy) follow(a *gate.Admission) {
	for _, q := range p.opt.Gate.Owed(a) {
		select {
		case p.follows <- struct{}{}:
		default:
			p.opt.Log.Warn("too many writes are worked on to look after this one", "backend", p.opt.Name, "decision", a.Decision.ID)
			continue
		}
		p.after.Go(func() {
			defer func() { <-p.follows }()
			ctx, cancel := context.WithTimeout(p.life, followTime)
			defer cancel()
			p.inquire(ctx, a, q)
		})
	}
}

func (p *Proxy) inquire(ctx context.Context, a *gate.Admission, q memproxy.Request) {
	for wait := followWait; ; wait = min(2*wait, followMax) {
		select {
		case <-ctx.Done():
			p.opt.Log.Warn("what a write became is not known in time", "backend", p.opt.Name, "decision", a.Decision.ID)
			return
		case <-p.opt.After(wait):
		}
		fctx, cancel := context.WithTimeout(ctx, gate.DefaultFetchTimeout)
		reply, err := fetcher{p}.Fetch(fctx, q)
		cancel()
		if err == nil && p.opt.Gate.Extracted(ctx, a, reply) {
			return
		}
	}
}
