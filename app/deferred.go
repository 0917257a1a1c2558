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

// newDeferredWork returns a deferredWork with queues of size entries each.
func newDeferredWork(queues, size int) *deferredWork {
	d := &deferredWork{seed: maphash.MakeSeed(), work: make([]chan func(), queues)}
	for i := range d.work {
		d.work[i] = make(chan func(), size)
		d.all.Go(func() {
			for f := range d.work[i] {
				f()
			}
		})
	}
	return d
}

func (d *deferredWork) run(key string, f func()) {
	if !d.queue(key, f) {
		f()
	}
}

func (d *deferredWork) queue(key string, f func()) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return false
	}
	select {
	case d.work[maphash.String(d.seed, key)%uint64(len(d.work))] <- f:
		return true
	default:
		return false
	}
}

// close waits until the remaining work is done.
func (d *deferredWork) close(ctx context.Context) error {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		for _, queue := range d.work {
			close(queue)
		}
	}
	d.mu.Unlock()
	return wait.For(ctx, d.all.Wait)
}
