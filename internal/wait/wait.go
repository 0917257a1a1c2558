// Package wait waits for a moment, or for work to end, no longer than a context allows,
// and wakes what waits.
package wait

import (
	"context"
	"time"
)

// Sleep waits for d, or until ctx ends, with its error.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// For waits until f returns, or until ctx ends, with its error. F goes on then.
func For(ctx context.Context, f func()) error {
	done := make(chan struct{})
	go func() { f(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wake sends to a channel with room for one, and does not block: what is woken by an
// earlier send sees what this one is about.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
