package main

import (
	"context"
	"sync"
)

// after runs what need not be done before a caller has its answer, in order,
// on one goroutine. What does not fit, or comes late, is done at once.
type after struct {
	mu     sync.RWMutex
	closed bool
	work   chan func()
	done   chan struct{}
}

func newAfter(size int) *after {
	a := &after{work: make(chan func(), size), done: make(chan struct{})}
	go func() {
		defer close(a.done)
		for f := range a.work {
			f()
		}
	}()
	return a
}

func (a *after) run(f func()) {
	if !a.queue(f) {
		f()
	}
}

func (a *after) queue(f func()) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		return false
	}
	select {
	case a.work <- f:
		return true
	default:
		return false
	}
}

// close does what is left.
func (a *after) close(ctx context.Context) error {
	a.mu.Lock()
	if !a.closed {
		a.closed = true
		close(a.work)
	}
	a.mu.Unlock()
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
