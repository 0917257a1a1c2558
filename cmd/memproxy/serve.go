package main

import (
	"context"
	"fmt"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// drainTime bounds a graceful stop; Kubernetes gives 30 s by default.
const drainTime = 20 * time.Second

// serve runs the sidecar until it is told to stop or a listener fails.
func (a *app) serve(ctx context.Context, args []string) int {
	fs := a.flags("serve")
	path := fs.String("config", "memproxy.yaml", "configuration file")
	if code := a.parse(fs, args); code >= 0 {
		return code
	}
	cfg, err := config.Load(*path, a.Getenv)
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
	if !*cfg.Enforce {
		car.log.Warn("enforce is false: everything is forwarded, decisions are only recorded")
	}
	for _, w := range cfg.Warnings() {
		car.log.Warn(w)
	}
	code := exitOK
	select {
	case <-ctx.Done():
	case err := <-car.anyFailed():
		car.log.Error("a listener failed", "error", err)
		code = exitFailed
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
		go func() { out <- fmt.Errorf("%s: %w", l.name, <-l.failed) }()
	}
	return out
}

// watch follows the policy directory, prunes, and lets metrics be collected.
func (s *sidecar) watch(ctx context.Context) {
	in := s.telemetry.Instruments()
	stop, err := in.Watch(signal.Sources{
		AuditLag: func() (int64, int64) { l := s.audit.Lag(); return int64(l.Queued), int64(l.Unsigned) },
		Rules:    func() string { v, _ := s.rules.state(); return v },
		Version:  s.version,
	})
	if err != nil {
		s.log.Error("metrics are not watched", "error", err)
	} else {
		s.onClose(func(context.Context) error { return stop() })
	}
	if dir := s.cfg.Policy.Dir; dir != "" && s.cfg.Policy.Control == nil {
		tick := time.NewTicker(s.cfg.Policy.Poll.Time())
		version := s.rules.bundleVersion() // what changed since it was read is an edit
		go func() {
			defer tick.Stop()
			policy.Watch(ctx, dir, version, tick.C, s.reload, s.reloadFailed)
		}()
	}
	if s.cfg.Screening.Pack != "" && *s.cfg.Screening.Enabled {
		tick := time.NewTicker(s.cfg.Policy.Poll.Time())
		go func() {
			defer tick.Stop()
			s.watchPack(ctx, tick.C)
		}()
	}
	s.keepBaseline(ctx)
	s.watchReview(ctx)
	go s.upkeep(ctx)
	s.watchRetention(ctx)
	s.watchRejections(ctx)
	go s.keepAnchors(ctx)
	go s.keepSweeping(ctx)
	go s.keepSuspecting(ctx)
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
}

// reloadFailed keeps the last good rules and says so everywhere.
func (s *sidecar) reloadFailed(err error) {
	s.rules.fail(err)
	s.telemetry.Instruments().Reloaded(context.Background(), false)
	s.log.Error("the edit of the policy directory is broken; the last good rules stay in force", "error", err)
	s.record(memproxy.EventReload, "a broken edit was not put in force")
}
