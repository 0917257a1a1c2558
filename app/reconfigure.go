package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/proxy"
)

// adopted is what came of edits of the configuration's file.
type adopted struct {
	mu      sync.Mutex
	cfg     *config.Config // in force, which is the start's where a restart is needed
	broken  error          // why the newest edit is not in force, or nil
	restart []string       // what the newest edit has that needs a restart
}

// followConfiguration takes an edit of the file over when two looks in a row
// find it, as the policies' are.
func (s *App) followConfiguration(file string) {
	s.rereading("configuration", s.cfg.Policy.Poll.Time(), func(ctx context.Context, tick <-chan time.Time) {
		inForce, last := s.cfg.Sum(), s.cfg.Sum()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
			text, err := os.ReadFile(file)
			if err != nil {
				s.adoptFailed(fmt.Errorf("config: %w", err))
				continue
			}
			sum := sha256.Sum256(text)
			if sum == last && (sum != inForce || s.configurationBroken()) && s.adopt(ctx, file, text) {
				inForce = sum
			}
			last = sum
		}
	})
}

// adopt puts a configuration in force, or leaves everything as it is and says
// why.
func (s *App) adopt(ctx context.Context, file string, text []byte) bool {
	next, err := config.Parse(file, text, s.getenv)
	if err == nil {
		err = s.reconfigure(ctx, next)
	}
	if err != nil {
		s.adoptFailed(err)
	}
	return err == nil
}

func (s *App) reconfigure(ctx context.Context, next *config.Config) error {
	if next.Profile != s.cfg.Profile { // all defaults hang on it
		return fmt.Errorf("profile: restart to change from %s to %s", s.cfg.Profile, next.Profile)
	}
	cfg, restart := s.adopted.cfg.Adopt(next)
	unsafe, err := cfg.Allowed(s.getenv(config.UnsafeEnv))
	if err != nil {
		return err
	}
	if !slices.Equal(unsafe, s.unsafe) { // each record names them from the start on
		return fmt.Errorf("what weakens production is decided at the start: restart to change from [%s] to [%s]", strings.Join(s.unsafe, ", "), strings.Join(unsafe, ", "))
	}
	identifier, err := buildIdentifier(cfg, s.callers.key)
	if err != nil {
		return err
	}
	if err := bindNames(ctx, cfg, s.ledger, s.clock(), s.log); err != nil {
		return err
	}
	err = s.rules.adopt(cfg, func(rules *gate.Rules) error {
		err := s.gate.Use(rules)
		if err == nil {
			s.callers.now.Store(identifier)
		}
		return err
	})
	if err != nil {
		return err
	}
	s.adopted.mu.Lock()
	s.adopted.cfg, s.adopted.broken, s.adopted.restart = cfg, nil, restart
	s.adopted.mu.Unlock()
	s.reloaded()
	s.log.Info("the configuration was edited and is in force")
	if len(restart) > 0 {
		s.log.Warn("a part of the edit of the configuration needs a restart", "settings", restart)
	}
	return s.compareSettings(cfg)
}

// adoptFailed keeps the configuration in force and says so everywhere, once.
func (s *App) adoptFailed(err error) {
	s.adopted.mu.Lock()
	before := s.adopted.broken
	s.adopted.broken = err
	s.adopted.mu.Unlock()
	if before != nil && before.Error() == err.Error() {
		return
	}
	s.telemetry.Instruments().Reloaded(context.Background(), false)
	s.log.Error("the edit of the configuration is not in force; what was before stays", "error", err)
	s.record(memproxy.EventReload, "an edit of the configuration was not put in force")
}

func (s *App) configurationBroken() bool {
	s.adopted.mu.Lock()
	defer s.adopted.mu.Unlock()
	return s.adopted.broken != nil
}

// configurationReady says whether the file is what is in force.
func (s *App) configurationReady() proxy.Check {
	s.adopted.mu.Lock()
	defer s.adopted.mu.Unlock()
	c := proxy.Check{Name: "configuration", OK: true}
	switch {
	case s.adopted.broken != nil:
		c.Degraded, c.Detail = true, "the newest edit is not in force: "+s.adopted.broken.Error()
	case len(s.adopted.restart) > 0:
		c.Degraded, c.Detail = true, "these settings of the newest edit need a restart: "+strings.Join(s.adopted.restart, ", ")
	}
	return c
}
