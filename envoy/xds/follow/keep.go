package follow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/memproxy/memproxy/internal/durable"
)

// kept is the state that survives a restart: the release in force, and the lowest number
// that may follow it. The file is a line of JSON, followed by the release as received.
type kept struct {
	Floor   uint64 `json:"floor"`
	release []byte
}

// readKept reads the file. Without a file it returns an empty kept.
func readKept(path string) (kept, error) {
	b, err := durable.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return kept{}, nil
	} else if err != nil {
		return kept{}, fmt.Errorf("follow: %w", err)
	}
	head, release, ok := bytes.Cut(b, []byte("\n"))
	k := kept{release: release}
	if err := json.Unmarshal(head, &k); err != nil || !ok {
		// The floor is lost as well, so the error is not ignored.
		return kept{}, fmt.Errorf("follow: %s is not a kept release; remove it to start without one", path)
	}
	return k, nil
}

// write replaces the file atomically and durably.
func (k kept) write(path string) error {
	head, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := durable.Write(path, append(append(head, '\n'), k.release...)); err != nil {
		return fmt.Errorf("follow: the release could not be kept: %w", err)
	}
	return nil
}
