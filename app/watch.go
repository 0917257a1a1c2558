package app

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/telemetry/signal"
	"github.com/memproxy/memproxy/upkeep"
)

// watch exports metrics, watches files for edits, and starts the jobs.
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
		policies := upkeep.Followed{Look: policiesIn(dir, s.reload), Failed: func(err error) { s.reloadFailed(fromPolicies, err) }}
		s.follow("policy", policies, s.rules.bundleVersion(), dir) // a change since it was read is an edit
	}
	if dir := s.cfg.Screening.Pack; dir != "" && *s.cfg.Screening.Enabled {
		pack := upkeep.Followed{Look: s.packIn(dir), Failed: func(err error) { s.reloadFailed(fromPack, err) }}
		s.follow("pack", pack, s.rules.packDigest(), dir)
	}
	s.group.Go("hangup", func(ctx context.Context) { hangup(ctx, s.log) })
	if file != "" {
		s.follow("configuration", upkeep.Followed{Look: s.edits.in(s.group.Context(), file), Failed: s.edits.failed}, version(s.cfg.Sum()), filepath.Dir(file))
	}
	s.startJobs()
}

// follow watches files and applies their edits.
func (s *App) follow(name string, f upkeep.Followed, inForce string, dir string) {
	looks := make(chan time.Time)
	s.group.Tick(name+" pace", s.cfg.Policy.Poll.Time(), func(ctx context.Context, tick <-chan time.Time) { upkeep.Rereads(ctx, tick, looks, dir, s.cfg.State) })
	s.group.Go(name, func(ctx context.Context) { f.Follow(ctx, inForce, looks) })
}

// policiesIn reads the policies of a directory.
func policiesIn(dir string, use func(policy.Bundle) error) func() (string, func() error, error) {
	return func() (string, func() error, error) {
		b, err := policy.Load(dir)
		if err != nil {
			return "", nil, err
		}
		return b.Version(), func() error { return use(b) }, nil
	}
}

// packIn reads the digest of a screening pack. Only a new pack is loaded, and a
// broken one only once, because loading takes so long that a stop has to wait for
// it.
func (s *App) packIn(dir string) func() (string, func() error, error) {
	var broken error
	var of string
	return func() (string, func() error, error) {
		found, err := screen.Digest(os.DirFS(dir))
		if err != nil {
			return "", nil, err
		}
		return found, func() error {
			if broken != nil && of == found {
				return broken
			}
			p, err := s.rules.desk.pack()
			if err == nil && p.Digest() != found {
				return upkeep.ErrUnsettled
			}
			if err == nil {
				err = s.rules.takePack(p, s.gate.Use)
			}
			if of, broken = found, err; err == nil {
				s.reloaded()
			}
			return err
		}, nil
	}
}

// reload puts a new bundle in force.
func (s *App) reload(b policy.Bundle) error {
	if err := s.rules.take(b, s.gate.Use); err != nil {
		return err
	}
	s.reloaded()
	return nil
}

// reloaded reports new rules in metrics, log and audit log.
func (s *App) reloaded() {
	version, _ := s.rules.state()
	if f := s.fleet.follower; f != nil { // the same release, with another pack
		s.fleet.tally.name(version, f.State().Running)
	}
	s.telemetry.Instruments().Reloaded(context.Background(), true)
	s.log.Info("rules reloaded", "version", version)
	s.record(memproxy.EventReload, "rules "+version+" in force")
	s.edits.loosened("the rules", s.rules.loosened())
}

// reloadFailed keeps the last good rules and reports the failure in metrics, log
// and audit log.
func (s *App) reloadFailed(what string, err error) {
	s.rules.fail(what, err)
	s.telemetry.Instruments().Reloaded(context.Background(), false)
	s.log.Error("the edit of the rules is broken; the last good rules stay in force", "of", what, "error", err)
	s.record(memproxy.EventReload, "a broken edit was not put in force")
}
