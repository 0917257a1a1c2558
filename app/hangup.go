package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/memproxy/memproxy/upkeep"
)

// hangup says that a SIGHUP was heard, which would else end the process.
func (s *App) hangup(ctx context.Context) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	for {
		select {
		case <-ctx.Done():
			return
		case <-heard:
			s.log.Info("SIGHUP: the configuration, policies and packs are read again")
		}
	}
}

// rereading is group.Tick for what follows files: it ticks on a SIGHUP too.
func (s *App) rereading(name string, every time.Duration, f func(context.Context, <-chan time.Time)) {
	merged := make(chan time.Time)
	s.group.Tick(name+" pace", every, func(ctx context.Context, tick <-chan time.Time) { upkeep.Hangups(ctx, tick, merged) })
	s.group.Go(name, func(ctx context.Context) { f(ctx, merged) })
}
