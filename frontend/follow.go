package frontend

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/wait"
)

// Limits of polling for the outcome of writes that the backend's model processes after
// the answer.
const (
	followTime = 5 * time.Minute
	followMost = 256         // number of writes; a large write counts once more for each 64 KiB
	followWait = time.Second // first interval; doubled after each poll
	followMax  = 15 * time.Second
)

// Follower polls the backend for the outcome of admitted writes, so that the memories
// that its model extracted are screened. It runs in parallel with requests: the callers
// have already been answered. Writes that are not followed, because newer ones displaced
// them or the process ends, are screened when they are read. Their status was stored
// under their decision before they were sent.
type Follower struct {
	gate    *gate.Gate
	fetch   backend.Fetcher // nil if nothing is followed
	backend string          // name of the backend, for the log
	run     Runtime

	life context.Context
	end  context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex
	followed []*followed // the oldest first
}

// followed is a write that is polled until leave is closed.
type followed struct {
	party
	size  int
	leave chan struct{}
}

// NewFollower returns a Follower of a backend's writes. If fetch is nil it follows
// nothing. Close ends it.
func NewFollower(g *gate.Gate, fetch backend.Fetcher, backend string, run Runtime) *Follower {
	f := &Follower{gate: g, fetch: fetch, backend: backend, run: run}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

// Follow polls for the outcome of a write, if the write is asynchronous.
func (f *Follower) Follow(a *gate.Admission) {
	if f.fetch == nil {
		return
	}
	for _, q := range f.gate.FollowUpRequests(a) {
		w := &followed{party{a.Principal.Tenant, a.Principal.ID}, min(1+len(a.Body)>>16, followMost/4), make(chan struct{})}
		f.enter(w)
		f.all.Go(func() {
			defer f.leave(w)
			ctx, cancel := context.WithTimeout(f.life, followTime)
			defer cancel()
			f.poll(ctx, w.leave, a, q)
		})
	}
}

// enter adds a write. While there are too many, it removes the oldest write of the caller
// that has the most, so that writes without an outcome do not displace those of other
// callers.
func (f *Follower) enter(w *followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followed = append(f.followed, w)
	for {
		sum, of, most := 0, map[party]int{}, w.party
		for _, w := range f.followed {
			sum += w.size
			if of[w.party] += w.size; of[w.party] > of[most] {
				most = w.party
			}
		}
		if sum <= followMost {
			return
		}
		i := slices.IndexFunc(f.followed, func(w *followed) bool { return w.party == most })
		close(f.followed[i].leave)
		f.followed = slices.Delete(f.followed, i, i+1)
	}
}

func (f *Follower) leave(w *followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followed = slices.DeleteFunc(f.followed, func(o *followed) bool { return o == w })
}

func (f *Follower) poll(ctx context.Context, leave <-chan struct{}, a *gate.Admission, q memproxy.Request) {
	for interval := followWait; ; interval = min(2*interval, followMax) {
		select {
		case <-ctx.Done():
			f.run.Log.Warn("the outcome of a write was not known before the deadline", "backend", f.backend, "decision", a.Decision.ID)
			return
		case <-leave:
			f.run.Log.Warn("too many pending writes; the outcome of this one is not followed", "backend", f.backend, "decision", a.Decision.ID)
			return
		case <-time.After(interval):
		}
		fctx, cancel := a.Call().Backend.Within(ctx)
		reply, err := f.fetch.Fetch(fctx, q)
		cancel()
		if err == nil && f.gate.ReadFollowUp(ctx, a, reply) {
			return
		}
	}
}

// Close stops polling and waits for requests in progress.
func (f *Follower) Close(ctx context.Context) error {
	f.end()
	return wait.For(ctx, f.all.Wait)
}
