package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/telemetry/signal"
	"github.com/memproxy/memproxy/upkeep"
	"github.com/memproxy/memproxy/upkeep/holds"
)

// settingsFile stores the settings of the last start.
const settingsFile = "settings.json"

// maxListed is how many bytes of sentences about an edit fit into a record, with escaped
// quotes. Longer texts are recorded as a hash.
const maxListed = 700

// edits puts edits of the configuration, the policies and the screening pack in force, and
// reports the outcome.
type edits struct{ *App }

// compare reports the settings that weaken production, as errors, and those that are
// looser than at the last start or edit. It then stores the present settings.
func (s *edits) compare(cfg *config.Config) error {
	for _, set := range s.cfg.Unsafe() {
		s.log.Error("UNSAFE: a setting weakens production", "setting", set.Path, "value", set.Value, "why", set.Unsafe, "from", set.From, "allowed_by", config.UnsafeEnv)
	}
	now := cfg.Settings()
	var before map[string]string
	text, err := durable.Read(s.path(settingsFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fmt.Errorf("state: %w", err)
	default:
		err := json.Unmarshal(text, &before)
		if err == nil && before == nil {
			err = errors.New("the file has no settings")
		}
		if err != nil {
			// A crash may have truncated the file. It is written again below.
			s.log.Warn("the settings of the last start cannot be read; edits since then are not reported", "error", err)
		}
	}
	if before != nil {
		s.loosened("the configuration", config.Loosened(before, now))
	}
	if text, err = json.Marshal(config.Snapshot(now)); err != nil {
		return err
	}
	if err := durable.Write(s.path(settingsFile), text); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// loosened reports edits that loosen a control, in the log and in the audit log.
func (s *edits) loosened(what string, edits []string) {
	for _, e := range edits {
		s.log.Warn("an edit of "+what+" loosens a control", "edit", e)
	}
	if len(edits) > 0 {
		s.record(memproxy.EventReload, "an edit of "+what+" loosens: "+sentencesOf(edits))
	}
}

// notInForce records that an edit was refused, and why.
func (s *edits) notInForce(what string, err error) {
	s.record(memproxy.EventReload, what+" was not put in force: "+sentencesOf(strings.Split(err.Error(), "\n")))
}

// sentencesOf joins as many sentences as fit unchanged into a record.
func sentencesOf(list []string) string {
	out := ""
	for i, text := range list {
		if i > 0 && len(out)+len(text) > maxListed {
			return fmt.Sprintf("%s; and %d more", out, len(list)-i)
		} else if i > 0 {
			out += "; "
		}
		out += strings.ToValidUTF8(text[:min(len(text), maxListed)], "")
	}
	return out
}

// configurationIn returns a function that reads the configuration file, and returns its hash
// and how to apply it.
func (s *edits) configurationIn(ctx context.Context, file string) func() (string, func() error, error) {
	return func() (string, func() error, error) {
		text, err := config.Read(file)
		if err != nil {
			return "", nil, err
		}
		return config.Version(text), func() error {
			next, err := config.Parse(file, text, s.opt.Getenv)
			if err == nil {
				err = s.apply(ctx, next)
			}
			return err
		}, nil
	}
}

// apply puts an edit in force, except for settings that need a restart.
func (s *edits) apply(ctx context.Context, next *config.Config) error {
	if next.Profile != s.cfg.Profile { // all defaults depend on the profile
		return fmt.Errorf("profile: restart to change from %s to %s", s.cfg.Profile, next.Profile)
	}
	was := s.rules.now.Load().cfg
	cfg, restart, early := was.Adopt(next)
	unsafe, err := allowedUnsafe(next, s.opt.Getenv) // the whole file: the next start reads all of it
	if err = errors.Join(err, checkValues(next)); err != nil {
		return err
	}
	if !slices.Equal(unsafe, s.unsafe) { // every audit record names them, from the start of the process
		return fmt.Errorf("exceptions that weaken production apply at start only: restart to change from [%s] to [%s]", strings.Join(s.unsafe, ", "), strings.Join(unsafe, ", "))
	}
	if early == nil {
		_, early = cfg.AllowedUnsafe(s.opt.Getenv(config.UnsafeEnv))
	}
	if early != nil {
		return fmt.Errorf("restart to put this edit in force: until then other settings of it keep their former values, with which it is invalid: %w", early)
	}
	identifier := s.callers.now.Load()
	if !reflect.DeepEqual(cfg.Identity, was.Identity) {
		if identifier, err = buildIdentifier(cfg, s.callers.key, s.callers.issuer); err != nil {
			return err
		}
		if sameIssuer(cfg.Identity.OIDC, was.Identity.OIDC) {
			identifier.KeepIssuer(s.callers.now.Load()) // its keys are known, also while it is away
		}
	}
	err = s.rules.edit(fromConfiguration, func(in *ruleSources) { in.cfg, in.restart = cfg, restart }, func(rules *gate.Rules) error {
		if err := bindNames(ctx, cfg, s.ledger, s.clock(), s.log); err != nil {
			if contradictions, ok := errors.AsType[config.Faults](err); ok {
				return contradictions
			}
			return errOutage
		}
		err := s.gate.Use(rules)
		if err == nil {
			s.callers.now.Store(identifier)
		}
		return err
	})
	if err != nil {
		return err
	}
	s.reloaded()
	s.log.Info("configuration reloaded")
	s.warn(cfg)
	if len(restart) > 0 {
		s.log.Warn("some of the changed settings need a restart", "settings", restart)
	}
	if err := s.compare(cfg); err != nil { // the edit is in force nevertheless
		s.log.Error("the settings cannot be saved; the next start reports edits since the last saved settings", "error", err)
	}
	return nil
}

// errOutage replaces every failure of the ledger: the store's own messages contain ports
// and times, so each attempt would look like a new failure and be reported again.
var errOutage = errors.New("the ledger is unavailable, so the names in the configuration are not bound to their tenants yet; retrying")

// warn logs valid settings that are probably not intended.
func (s *edits) warn(cfg *config.Config) {
	for _, w := range append(cfg.Warnings(), unmatched(cfg, s.rules.now.Load().cedar)...) {
		s.log.Warn(w)
	}
	if short := frontend.FileLimitWarning(cfg.Limits.Connections, len(cfg.Backends)); short != "" {
		s.log.Warn(short)
	}
}

// check is the readiness check of the configuration file: it fails if the newest edit is
// not in force.
func (s *edits) check() proxy.Check {
	c := proxy.Check{Name: "configuration", OK: true}
	restart := s.rules.now.Load().restart
	if broken := s.rules.failure(fromConfiguration); broken != nil {
		c.Degraded, c.Detail = true, "the newest edit is not in force: "+broken.Error()
	} else if len(restart) > 0 {
		c.Degraded, c.Detail = true, "these settings of the newest edit need a restart: "+strings.Join(restart, ", ")
	}
	return c
}

// watch exports metrics, watches files for edits, and starts the jobs.
func (s *App) watch() {
	held := &holds.Maintainer{
		Config: s.cfg, Holds: s.ledger.Holds, Sessions: s.ledger.Sessions, Audit: s.audit, Log: s.log, Clock: s.clock, Rules: s.rules.current, Changed: s.rules.changed,
		Backend: clientsOf(s), Settled: s.review.Runner.Wake,
	}
	stop, err := s.telemetry.Instruments().ObserveSource(func(observe signal.Observe) {
		lag := s.audit.Lag()
		observe(signal.MetricAuditLag, int64(lag.Queued), signal.StateQueued)
		observe(signal.MetricAuditLag, int64(lag.Unsigned), signal.StateUnsigned)
		observe(signal.MetricRules, 1, s.rules.current().Version)
		for _, setting := range s.unsafe {
			observe(signal.MetricUnsafe, 1, setting)
		}
		for backend, sealed := range s.checker.Sealed() {
			observe(signal.MetricSealed, map[bool]int64{true: 1}[sealed], backend)
		}
		s.rules.screeners.layers.Outages.Counts(func(layer string, failed, refused int64) {
			observe(signal.MetricUnscreened, failed, layer, signal.ResultFailed)
			observe(signal.MetricUnscreened, refused, layer, signal.ResultRefused)
		})
		if age, known := held.OldestAge(); known {
			observe(signal.MetricHoldAge, int64(age.Seconds()))
		}
	})
	if err != nil {
		s.log.Error("metrics of the stores are not collected", "error", err)
	} else {
		s.group.Own(stageTelemetry, func(context.Context) error { return stop() })
	}
	if dir := s.cfg.Policy.Dir; dir != "" && s.cfg.Policy.Control == nil {
		s.edits.follow("policy", fromPolicies, s.edits.policiesIn(dir), s.rules.now.Load().bundle.Version(), dir) // so that an edit since the policies were read is noticed
	}
	if dir := s.cfg.Screening.Pack; dir != "" && *s.cfg.Screening.Enabled {
		s.edits.follow("pack", fromPack, s.edits.packIn(dir), s.rules.now.Load().pack.Digest(), dir)
	}
	s.group.Go("hangup", func(ctx context.Context) { hangup(ctx, s.log) })
	if file := s.opt.File; file != "" {
		s.edits.follow("configuration", fromConfiguration, s.edits.configurationIn(s.group.Context(), file), s.cfg.Version(), filepath.Dir(file))
	}
	s.startJobs(held)
}

// follow watches the files of a source and applies their edits.
func (s *edits) follow(name, source string, load func() (string, func() error, error), inForce, dir string) {
	files := upkeep.Files{Load: load, Failed: func(err error) { s.failed(source, err) }}
	look, heard := files.Follow(inForce), upkeep.Hangups()
	s.group.Tick(name, s.cfg.Policy.Poll.Std(), func(ctx context.Context, tick <-chan time.Time) {
		upkeep.Rereads(ctx, tick, heard, dir, s.cfg.State, look)
	})
}

// policiesIn returns a function that reads the policy directory, and returns its version and
// how to apply it.
func (s *edits) policiesIn(dir string) func() (string, func() error, error) {
	return func() (string, func() error, error) {
		b, err := policy.Load(dir)
		if err != nil {
			return "", nil, err
		}
		return b.Version(), func() error {
			err := s.rules.useBundle(b, s.gate.Use)
			if err == nil {
				s.reloaded()
			}
			return err
		}, nil
	}
}

// packIn returns a function that reads the digest of a screening pack. Only a new pack is
// loaded, and an invalid one only once, because loading takes long and a stop has to wait
// for it.
func (s *edits) packIn(dir string) func() (string, func() error, error) {
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
			p, err := s.rules.screeners.pack()
			if err == nil && p.Digest() != found {
				return upkeep.ErrUnsettled
			}
			if err == nil {
				err = s.rules.edit(fromPack, func(in *ruleSources) { in.pack = p }, s.gate.Use)
			}
			of, broken = found, err
			if err == nil {
				s.reloaded()
			}
			return err
		}, nil
	}
}

// allowedUnsafe returns the settings that weaken production, in the configuration and in the
// policy directory, or an error if one of them is not explicitly allowed. A directory
// that cannot be loaded is reported where its policies are compiled.
func allowedUnsafe(cfg *config.Config, getenv func(string) string) ([]string, error) {
	if cfg.Policy.Dir != "" {
		b, _ := policy.Load(cfg.Policy.Dir)
		config.SetBuiltinOff(cfg, b.BuiltinOff())
	}
	list := getenv(config.UnsafeEnv)
	if cfg.Policy.Control != nil && strings.Contains(list, config.BuiltinPolicies) {
		config.SetBuiltinOff(cfg, "policy.control") // any release may leave them out
	}
	return cfg.AllowedUnsafe(list)
}

// reloaded reports new rules in metrics, the log and the audit log.
func (s *edits) reloaded() {
	version := s.rules.current().Version
	if f := s.rules.follower; f != nil { // the same release, with another pack
		s.fleet.meter.name(version, f.State().Running)
	}
	s.log.Info("rules reloaded", "version", version)
	s.noteInForce("rules " + version)
}

// noteInForce reports new rules in metrics and the audit log, and what they loosen.
func (s *edits) noteInForce(what string) {
	s.telemetry.Instruments().Reloaded(context.Background(), true)
	s.record(memproxy.EventReload, what+" in force")
	s.loosened("the rules", s.rules.now.Load().looser)
}

// failed reports in metrics, the log and the audit log that an edit of a source failed. What
// was in force stays in force.
func (s *edits) failed(source string, err error) {
	s.rules.fail(source, err)
	s.telemetry.Instruments().Reloaded(context.Background(), false)
	if source == fromConfiguration {
		s.log.Error("configuration reload failed; the previous configuration stays in force", "error", err)
	} else {
		s.log.Error("rules reload failed; the last good rules stay in force", "source", source, "error", err)
	}
	s.notInForce("an edit of "+source, err)
}
