package app

import (
	"context"
	"hash/maphash"
	"sync"

	"github.com/memproxy/memproxy/internal/wait"
)

// deferredWork runs work for which callers do not wait. Work with the same key runs in order,
// other work in parallel, so that the ledger can commit it together (group commit). Work
// that does not fit into its queue, or arrives after close, runs synchronously.
type deferredWork struct {
	seed maphash.Seed

	mu     sync.RWMutex
	closed bool
	work   []chan func()
	all    sync.WaitGroup
}

// newDeferredWork returns an after with lines queues of size entries each.
func newDeferredWork(lines, size int) *deferredWork {
	a := &deferredWork{seed: maphash.MakeSeed(), work: make([]chan func(), lines)}
	for i := range a.work {
		a.work[i] = make(chan func(), size)
		a.all.Go(func() {
			for f := range a.work[i] {
				f()
			}
		})
	}
	return a
}

func (a *deferredWork) run(key string, f func()) {
	if !a.queue(key, f) {
		f()
	}
}

func (a *deferredWork) queue(key string, f func()) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		return false
	}
	select {
	case a.work[maphash.String(a.seed, key)%uint64(len(a.work))] <- f:
		return true
	default:
		return false
	}
}

// close waits until the remaining work is done.
func (a *deferredWork) close(ctx context.Context) error {
	a.mu.Lock()
	if !a.closed {
		a.closed = true
		for _, line := range a.work {
			close(line)
		}
	}
	a.mu.Unlock()
	return wait.For(ctx, a.all.Wait)
}
