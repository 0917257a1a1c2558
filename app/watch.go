package app

import (
	"context"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// watch follows the policy directory, prunes, and lets metrics be collected.
func (s *App) watch(file string) {
	in := s.telemetry.Instruments()
	stop, err := in.Watch(signal.Sources{
		AuditLag: func() (int64, int64) { l := s.audit.Lag(); return int64(l.Queued), int64(l.Unsigned) },
		Rules:    func() string { v, _ := s.rules.state(); return v },
		Version:  s.version, Unsafe: s.unsafe, Sealed: s.custodian.Sealed,
	})
	if err != nil {
		s.log.Error("metrics are not watched", "error", err)
	} else {
		s.group.Own(stageTelemetry, func(context.Context) error { return stop() })
	}
	if dir := s.cfg.Policy.Dir; dir != "" && s.cfg.Policy.Control == nil {
		version := s.rules.bundleVersion() // what changed since it was read is an edit
		s.rereading("policy", s.cfg.Policy.Poll.Time(), func(ctx context.Context, tick <-chan time.Time) {
			policy.Watch(ctx, dir, version, tick, s.reload, func(err error) { s.reloadFailed(fromPolicies, err) })
		})
	}
	if s.cfg.Screening.Pack != "" && *s.cfg.Screening.Enabled {
		s.rereading("pack", s.cfg.Policy.Poll.Time(), s.watchPack)
	}
	s.group.Go("hangup", s.hangup)
	if file != "" {
		s.edits.follow(file)
	}
	s.startJobs()
}

// reload puts a new bundle in force.
func (s *App) reload(b policy.Bundle) error {
	if err := s.rules.take(b, s.gate.Use); err != nil {
		return err
	}
	s.reloaded()
	return nil
}

// reloaded says everywhere that other rules are in force.
func (s *App) reloaded() {
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
func (s *App) reloadFailed(what string, err error) {
	s.rules.fail(what, err)
	s.telemetry.Instruments().Reloaded(context.Background(), false)
	s.log.Error("the edit of the rules is broken; the last good rules stay in force", "of", what, "error", err)
	s.record(memproxy.EventReload, "a broken edit was not put in force")
}
