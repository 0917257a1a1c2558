package face

import (
	"context"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/wait"
)

// Bounds of looking after writes that the backend's model works on after they
// were answered.
const (
	followTime = 5 * time.Minute
	followMost = 64
	followWait = time.Second // doubled from one question to the next
	followMax  = 15 * time.Second
)

// Follower polls the backend for the outcome of admitted writes, so that what its
// model made of them is screened. It works in parallel with requests: the writers
// have long been answered. Writes that are not followed, because there are too many
// or the process ends, are screened when they are read, and have the status that
// was stored by their decision before they were sent.
type Follower struct {
	gate    *gate.Gate
	fetch   gate.Fetcher // nil: nothing is followed
	backend string       // its name, for the log
	run     Runtime

	slots chan struct{}
	life  context.Context
	end   context.CancelFunc
	all   sync.WaitGroup
}

// NewFollower returns a Follower of a backend's writes. A fetch that is nil follows
// nothing. Close ends it.
func NewFollower(g *gate.Gate, fetch gate.Fetcher, backend string, run Runtime) *Follower {
	f := &Follower{gate: g, fetch: fetch, backend: backend, run: run, slots: make(chan struct{}, followMost)}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

// Follow looks after one write, if there is anything to wait for.
func (f *Follower) Follow(a *gate.Admission) {
	if f.fetch == nil {
		return
	}
	for _, q := range f.gate.Owed(a) {
		select {
		case f.slots <- struct{}{}:
		default:
			f.run.Log.Warn("too many writes are worked on to look after this one", "backend", f.backend, "decision", a.Decision.ID)
			continue
		}
		f.all.Go(func() {
			defer func() { <-f.slots }()
			ctx, cancel := context.WithTimeout(f.life, followTime)
			defer cancel()
			f.inquire(ctx, a, q)
		})
	}
}

func (f *Follower) inquire(ctx context.Context, a *gate.Admission, q memproxy.Request) {
	for wait := followWait; ; wait = min(2*wait, followMax) {
		select {
		case <-ctx.Done():
			f.run.Log.Warn("the outcome of a write was not known in time", "backend", f.backend, "decision", a.Decision.ID)
			return
		case <-f.run.After(wait):
		}
		fctx, cancel := context.WithTimeout(ctx, gate.DefaultFetchTimeout)
		reply, err := f.fetch.Fetch(fctx, q)
		cancel()
		if err == nil && f.gate.Extracted(ctx, a, reply) {
			return
		}
	}
}

// Close stops polling and waits for requests under way.
func (f *Follower) Close(ctx context.Context) error {
	f.end()
	return wait.For(ctx, f.all.Wait)
}
