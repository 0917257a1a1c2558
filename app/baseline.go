package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/screen/baseline"
	"github.com/memproxy/memproxy/upkeep"
)

// snapshots is how often the baselines of users are saved: a crash loses at most as
// much.
const snapshots = 5 * time.Minute

// habits stores a baseline in a file.
type habits struct {
	store *baseline.Store
	path  string
	log   *slog.Logger
}

// keepBaseline loads the baseline, and saves it periodically and at the end. A
// snapshot that cannot be read is set aside, and learning starts again: a baseline
// is a hint, and no reason not to start.
func (s *App) keepBaseline() {
	if s.rules.desk.baseline == nil {
		return
	}
	h := &habits{store: s.rules.desk.baseline, path: s.path("baseline.json"), log: s.log}
	h.restore()
	s.jobs.Start(upkeep.Job{Name: "baseline", Every: snapshots, Once: func(context.Context, time.Time) error {
		if err := h.save(); err != nil {
			return fmt.Errorf("what is usual for users could not be written down: %w", err)
		}
		return nil
	}})
	s.group.Own(stageNotes, func(context.Context) error { return h.save() })
}

func (h *habits) restore() {
	f, err := durable.Regular(h.path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = errors.Join(h.store.Restore(f), f.Close())
	}
	if err == nil {
		return
	}
	aside := h.path + ".broken"
	if renamed := os.Rename(h.path, aside); renamed != nil {
		err = errors.Join(err, renamed)
	}
	h.log.Error("the baseline of users cannot be read; learning starts again", "file", aside, "error", err)
}

// save replaces the snapshot. Its owner alone may read it: it has the users' ids.
func (h *habits) save() error {
	return durable.Replace(h.path, func(f *os.File) error { return h.store.Snapshot(f) })
}
