package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
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
