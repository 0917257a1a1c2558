package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/wait"
)

// What is waited for ends the wait, or else the context does.
func TestWaitsEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{time.Second, time.Hour} {
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			slept, waited := wait.Sleep(ctx, d), wait.For(ctx, func() { time.Sleep(d) })
			cancel()
			if d > time.Minute {
				if !errors.Is(slept, context.DeadlineExceeded) || !errors.Is(waited, context.DeadlineExceeded) || time.Since(begun) != time.Minute {
					t.Errorf("%v: %v and %v after %v", d, slept, waited, time.Since(begun))
				}
			} else if slept != nil || waited != nil || time.Since(begun) != 2*d {
				t.Errorf("%v: %v and %v after %v", d, slept, waited, time.Since(begun))
			}
		}
		time.Sleep(time.Hour) // what was not waited for ends
	})
}

// A channel that somebody was woken by already blocks nobody.
func TestWakeDoesNotBlock(t *testing.T) {
	c := make(chan struct{}, 1)
	wait.Wake(c)
	wait.Wake(c)
	expect.Len(t, c, 1)
}
