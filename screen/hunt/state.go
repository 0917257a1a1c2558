package hunt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/memproxy/memproxy/internal/durable"
)

// State is the progress of a walk. The zero value is a walk that has not begun.
type State struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`
	Cursor  string    `json:"cursor"`
	Done    bool      `json:"done"`
	Pages   int64     `json:"pages"`
	Skipped int64     `json:"skipped"` // texts that were not screened: too long, or not returned
	Started time.Time `json:"started"`
	Updated time.Time `json:"updated"`
	Counts
	// Rules counts, for each rule, the texts that would be stopped in which it found
	// something.
	Rules map[string]int64 `json:"rules,omitempty"`
}

// with returns the state with a text's verdict counted. It does not change s.
func (s State) with(v Verdict) State {
	s.Counts.add(v.Verdict)
	if !v.Verdict.Stops() {
		return s
	}
	if s.Rules = maps.Clone(s.Rules); s.Rules == nil {
		s.Rules = map[string]int64{}
	}
	seen := map[string]bool{}
	for _, f := range v.Findings {
		if !seen[f.Rule] {
			seen[f.Rule] = true
			s.Rules[f.Rule]++
		}
	}
	return s
}

const (
	stateVersion = 1
	maxState     = 1 << 20
)

// LoadState reads a state file. An empty path or a missing file is a walk that has not
// begun. A file that is not a valid state is an error: to begin again an operator must
// remove it.
func LoadState(path string) (State, error) {
	if path == "" {
		return State{}, nil
	}
	raw, err := durable.ReadInput(path)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("hunt: the state file: %w", err)
	}
	s, err := parseState(raw)
	if err != nil {
		return State{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func parseState(raw []byte) (State, error) {
	if len(raw) > maxState {
		return State{}, errors.New("hunt: the state is too large")
	}
	var s State
	if err := jsonv2.Unmarshal(raw, &s, jsonv2.RejectUnknownMembers(true)); err != nil {
		return State{}, errors.New("hunt: the file is not a saved state")
	}
	if s.Version != stateVersion {
		return State{}, fmt.Errorf("hunt: the state has version %d, want %d", s.Version, stateVersion)
	}
	counts := append(slices.Collect(maps.Values(s.Rules)), s.Pages, s.Skipped, s.Allow, s.Amend, s.Hold, s.Deny)
	if slices.Min(counts) < 0 || s.Done && s.Cursor != "" {
		return State{}, errors.New("hunt: the saved state is inconsistent")
	}
	return s, nil
}

// Save writes the state atomically and durably. An empty path saves nothing.
func (s State) Save(path string) error {
	if path == "" {
		return nil
	}
	raw, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = durable.Write(path, append(raw, '\n'))
	}
	if err != nil {
		return fmt.Errorf("hunt: saving the state: %w", err)
	}
	return nil
}
