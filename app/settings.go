package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
)

// settingsFile has the settings of the last start.
const settingsFile = "settings.json"

// maxLoosened is how many loosened settings a record names.
const maxLoosened = 20

// sayUnsafe says loudly what weakens production.
func (s *App) sayUnsafe() {
	for _, set := range s.cfg.Unsafe() {
		s.log.Error("UNSAFE: a setting weakens production", "setting", set.Path, "value", set.Value, "why", set.Unsafe, "from", set.From, "allowed_by", config.UnsafeEnv)
	}
}

// compareSettings names the settings that are looser than at the last start or
// edit, and remembers these.
func (s *App) compareSettings(cfg *config.Config) error {
	s.sayUnsafe()
	now := cfg.Settings()
	var before map[string]string
	text, err := os.ReadFile(s.path(settingsFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return fmt.Errorf("state: %w", err)
	default:
		if err := json.Unmarshal(text, &before); err != nil {
			// A crash may have cut it. It is written anew.
			s.log.Warn("the settings of the last start cannot be read; edits since are not named", "error", err)
		}
	}
	if before != nil {
		s.loosened("the configuration", config.Looser(before, now))
	}
	if text, err = json.Marshal(config.Snapshot(now)); err != nil {
		return err
	}
	part := s.path(settingsFile + ".part")
	if err := os.WriteFile(part, text, 0o600); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return os.Rename(part, s.path(settingsFile))
}

// loosened names what an edit of something loosens, in the log and on record.
func (s *App) loosened(what string, edits []string) {
	for _, e := range edits {
		s.log.Warn("an edit of "+what+" loosens a control", "edit", e)
	}
	if len(edits) > maxLoosened {
		edits = append(edits[:maxLoosened:maxLoosened], fmt.Sprintf("and %d more", len(edits)-maxLoosened))
	}
	if len(edits) > 0 {
		s.record(memproxy.EventReload, "an edit of "+what+" loosens: "+strings.Join(edits, "; "))
	}
}

// looserRules are what newer rules allow beyond older ones, as far as that
// shows without asking them.
func looserRules(from, to policy.Bundle, older, newer *cedar.Policy) []string {
	return append(cedar.Looser(older, newer), policy.Raised(from, to)...)
}
