package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// serve runs the sidecar until it is told to stop or a listener fails.
func (a *app) serve() *cobra.Command {
	var path *string
	c := cli.Leaf("serve", "run the sidecar", "memproxy serve --config memproxy.yaml", func(ctx context.Context) int { return a.serving(ctx, *path) })
	path = configFlag(c, "memproxy.yaml", "configuration `file`")
	return c
}

func (a *app) serving(ctx context.Context, path string) int {
	cfg, err := config.Load(path, a.Getenv)
	if err != nil {
		return a.fail(err)
	}
	a.tuneMemory()
	// The sidecar outlives ctx by the drain: what is in flight must finish.
	car, err := a.assemble(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return a.fail(err)
	}
	if err := car.listen(); err != nil {
		_ = car.close(context.Background()) // the listener's error is the one to show
		return a.fail(err)
	}
	car.record(memproxy.EventStart, "version "+a.Version+", profile "+cfg.Profile)
	for _, l := range car.listeners {
		car.log.Info("listening", "name", l.name, "address", l.ln.Addr().String())
	}
	for _, w := range cfg.Warnings() {
		car.log.Warn(w)
	}
	code := cli.OK
	select {
	case <-ctx.Done():
	case err := <-car.anyFailed():
		car.log.Error("a listener failed", "error", err)
		code = cli.Failed
	}
	car.log.Info("stopping")
	stop, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := car.close(stop); err != nil {
		return a.fail(err)
	}
	return code
}

// anyFailed receives the first failure of a listener.
func (s *sidecar) anyFailed() <-chan error {
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

// watch follows the policy directory, prunes, and lets metrics be collected.
func (s *sidecar) watch() {
	in := s.telemetry.Instruments()
	stop, err := in.Watch(signal.Sources{
		AuditLag: func() (int64, int64) { l := s.audit.Lag(); return int64(l.Queued), int64(l.Unsigned) },
		Rules:    func() string { v, _ := s.rules.state(); return v },
		Version:  s.version, Unsafe: s.unsafe, Sealed: s.adoptions.look,
	})
	if err != nil {
		s.log.Error("metrics are not watched", "error", err)
	} else {
		s.onStop(stageTelemetry, func(context.Context) error { return stop() })
	}
	if dir := s.cfg.Policy.Dir; dir != "" && s.cfg.Policy.Control == nil {
		version := s.rules.bundleVersion() // what changed since it was read is an edit
		s.rereading("policy", s.cfg.Policy.Poll.Time(), func(ctx context.Context, tick <-chan time.Time) {
			policy.Watch(ctx, dir, version, tick, s.reload, s.reloadFailed)
		})
	}
	if s.cfg.Screening.Pack != "" && *s.cfg.Screening.Enabled {
		s.rereading("pack", s.cfg.Policy.Poll.Time(), s.watchPack)
	}
	s.loops.begin("hangup", s.hangup)
	s.startJobs()
}

// reload puts a new bundle in force.
func (s *sidecar) reload(b policy.Bundle) error {
	if err := s.rules.take(b, s.gate.Use); err != nil {
		return err
	}
	s.reloaded()
	return nil
}

// reloaded says everywhere that other rules are in force.
func (s *sidecar) reloaded() {
	version, _ := s.rules.state()
	if f := s.fleet.follower; f != nil { // the same release, beside another pack
		s.fleet.tally.name(version, f.State().Running)
	}
	s.telemetry.Instruments().Reloaded(context.Background(), true)
	s.log.Info("rules reloaded", "version", version)
	s.record(memproxy.EventReload, "rules "+version+" in force")
	s.loosened("the rules", s.rules.loosened())
}

// reloadFailed keeps the last good rules and says so everywhere.
func (s *sidecar) reloadFailed(err error) {
	s.rules.fail(err)
	s.telemetry.Instruments().Reloaded(context.Background(), false)
	s.log.Error("the edit of the policy directory is broken; the last good rules stay in force", "error", err)
	s.record(memproxy.EventReload, "a broken edit was not put in force")
}
