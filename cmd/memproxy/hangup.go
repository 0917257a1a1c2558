package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// hangup says that a SIGHUP was heard, which would else end the process.
func (s *sidecar) hangup(ctx context.Context) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	for {
		select {
		case <-ctx.Done():
			return
		case <-heard:
			s.log.Info("SIGHUP: policies and packs are read again; the configuration is that of the start")
		}
	}
}

// looksOfAReread is how often a directory is looked at on a SIGHUP: what two
// looks find alike is no half of an edit.
const looksOfAReread = 2

// rereading is loops.ticking for what follows files: it ticks on a SIGHUP too.
func (s *sidecar) rereading(name string, every time.Duration, f func(context.Context, <-chan time.Time)) {
	merged := make(chan time.Time)
	s.loops.ticking(name+" pace", every, func(ctx context.Context, tick <-chan time.Time) { withHangups(ctx, tick, merged) })
	s.loops.begin(name, func(ctx context.Context) { f(ctx, merged) })
}

// withHangups passes ticks on, and a SIGHUP as ticks, until ctx ends.
func withHangups(ctx context.Context, tick <-chan time.Time, merged chan<- time.Time) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	for {
		n, at := 1, time.Time{}
		select {
		case <-ctx.Done():
			return
		case at = <-tick:
		case <-heard:
			n = looksOfAReread
		}
		for range n {
			select {
			case <-ctx.Done():
				return
			case merged <- at:
			}
		}
	}
}
