package hunt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"time"

	"github.com/memproxy/memproxy/internal/durable"
)

// State is how far a walk came. The zero value is a walk that has not begun.
type State struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`
	Cursor  string    `json:"cursor"`
	Done    bool      `json:"done"`
	Pages   int64     `json:"pages"`
	Skipped int64     `json:"skipped"` // texts that were not screened: over the limit, or not given
	Started time.Time `json:"started"`
	Updated time.Time `json:"updated"`
	Counts
	// Rules are, of the texts that would not pass, in how many each rule found
	// something.
	Rules map[string]int64 `json:"rules,omitempty"`
}

// with returns the state with a text's verdict counted, and leaves s alone.
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

// LoadState reads a state file. No path, or no file, is a walk that has not
// begun. A file that cannot be read as a state is an error: to begin anew
// somebody must remove it.
func LoadState(path string) (State, error) {
	if path == "" {
		return State{}, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("hunt: the state file: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxState+1))
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
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var s State
	if err := dec.Decode(&s); err != nil {
		return State{}, errors.New("hunt: this is no state of a walk")
	}
	if _, err := dec.Token(); err != io.EOF {
		return State{}, errors.New("hunt: something follows the state")
	}
	if s.Version != stateVersion {
		return State{}, fmt.Errorf("hunt: a state of version %d, want %d", s.Version, stateVersion)
	}
	if s.Pages < 0 || s.Skipped < 0 || s.Allow < 0 || s.Amend < 0 || s.Hold < 0 || s.Deny < 0 || s.Done && s.Cursor != "" {
		return State{}, errors.New("hunt: a state that no walk can be in")
	}
	for _, n := range s.Rules {
		if n < 0 {
			return State{}, errors.New("hunt: a state that no walk can be in")
		}
	}
	return s, nil
}

// Save writes the state durably and as a whole. No path: nowhere.
func (s State) Save(path string) (err error) {
	if path == "" {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("hunt: keeping the state: %w", err)
		}
	}()
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return durable.Write(path, append(raw, '\n'))
}
