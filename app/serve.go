package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
)

// Serve runs memproxy until ctx ends or a listener fails: the HTTP listeners of
// the configuration and, unless envoy is nil, Envoy's processor beside them.
func Serve(ctx context.Context, cfg *config.Config, opt Options, envoy *Envoy) error {
	// The sidecar outlives ctx by the drain: what is in flight must finish.
	s, err := New(context.WithoutCancel(ctx), cfg, opt)
	if err != nil {
		return err
	}
	detail := "version " + s.version + ", profile " + cfg.Profile
	if err = s.Listen(); err == nil && envoy != nil {
		detail += ", behind Envoy"
		err = s.listenExtproc(*envoy)
	}
	if err != nil {
		_ = s.Close(context.Background()) // the listener's error is the one to show
		return err
	}
	s.record(memproxy.EventStart, detail)
	for _, l := range s.listeners {
		s.log.Info("listening", "name", l.name, "address", l.ln.Addr().String())
	}
	for _, w := range cfg.Warnings() {
		s.log.Warn(w)
	}
	select {
	case <-ctx.Done():
	case err = <-s.anyFailed():
		s.log.Error("a listener failed", "error", err)
	}
	s.log.Info("stopping")
	stop, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	return errors.Join(err, s.Close(stop))
}

// anyFailed receives the first failure of a listener.
func (s *App) anyFailed() <-chan error {
	out := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		s.loops.begin("listener "+l.name, func(ctx context.Context) {
			select {
			case err := <-l.failed:
				out <- fmt.Errorf("%s: %w", l.name, err)
			case <-ctx.Done():
			}
		})
	}
	return out
}
