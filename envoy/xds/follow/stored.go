package follow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/memproxy/memproxy/internal/durable"
)

// storedState is the state that survives a restart: the release in force, and the lowest
// number that may follow it. The file is a line of JSON, followed by the release as
// received.
type storedState struct {
	Floor   uint64 `json:"floor"`
	release []byte
}

// readStoredState reads the file. Without a file it returns an empty storedState.
func readStoredState(path string) (storedState, error) {
	b, err := durable.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return storedState{}, nil
	} else if err != nil {
		return storedState{}, fmt.Errorf("follow: %w", err)
	}
	head, release, ok := bytes.Cut(b, []byte("\n"))
	k := storedState{release: release}
	if err := json.Unmarshal(head, &k); err != nil || !ok {
		// The floor is lost as well, so the error is not ignored.
		return storedState{}, fmt.Errorf("follow: %s is not a stored release; remove it to start without one", path)
	}
	return k, nil
}

// write replaces the file atomically and durably.
func (s storedState) write(path string) error {
	head, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := durable.Write(path, append(append(head, '\n'), s.release...)); err != nil {
		return fmt.Errorf("follow: storing the release failed: %w", err)
	}
	return nil
}
