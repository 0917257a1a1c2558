package upkeep_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/upkeep"
)

// Proves CARD-3: where the file system notifies of an edit, it is read at once, twice,
// without a tick.
func TestAnEditIsReadAtOnce(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	var n atomic.Int32
	go func() {
		defer close(over)
		upkeep.Rereads(ctx, nil, upkeep.Hangups(), dir, filepath.Join(dir, "absent"), func() { n.Add(1) })
	}()
	defer func() { cancel(); <-over }()
	// The directory may not be watched yet at the first edit.
	ring.Until(t, "two looks", func() bool {
		if n.Load() == 0 {
			must.Do(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o600))
		}
		return n.Load() >= 2
	})
}

// Proves CARD-3: a SIGHUP that comes before the reader runs is not lost. Not parallel: the
// signal reaches the whole process.
func TestAnEarlyHangupIsHeard(t *testing.T) {
	heard := upkeep.Hangups()
	ring.HangUp(t)
	ring.Until(t, "the signal", func() bool { return len(heard) == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	looks, over := make(chan struct{}, 2), make(chan struct{})
	go func() {
		defer close(over)
		upkeep.Rereads(ctx, nil, heard, t.TempDir(), "absent", func() { looks <- struct{}{} })
	}()
	defer func() { cancel(); <-over }()
	<-looks
}

// Proves CARD-3: a version that changed while it was put in force is discarded; the
// next two looks decide.
func TestAnEditUnderWayIsNotAnError(t *testing.T) {
	version, answers, events := "one", []error{upkeep.ErrUnsettled, errors.New("refused"), nil}, []string{}
	f := upkeep.Files{
		Load: func() (string, func() error, error) {
			return version, func() error {
				err := answers[0]
				answers = answers[1:]
				events = append(events, "use "+version)
				return err
			}, nil
		},
		Failed: func(err error) { events = append(events, err.Error()) },
	}
	follow := f.Follow("one")
	look := func(want ...string) {
		t.Helper()
		follow()
		expect.List(t, events, want)
		events = nil
	}
	look()
	version = "two"
	look()
	look("use two") // an edit is in progress
	look()
	look("use two", "refused")
	look("use two")
	look()
}

// A directory that the process itself writes to is not watched, whatever its path: each
// write would cause a reread. Ticks find edits.
func TestOwnWritesAreNotWatched(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	tick, looks, over := make(chan time.Time), make(chan int, 9), make(chan struct{})
	n := 0
	go func() {
		defer close(over)
		upkeep.Rereads(ctx, tick, upkeep.Hangups(), dir, link, func() { n++; looks <- n })
	}()
	defer func() { cancel(); <-over }()
	for i := range 3 {
		must.Do(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o600))
		tick <- time.Time{}
		expect.Equal(t, <-looks, i+1, "looks, with one tick each")
	}
	buf := make([]byte, 1<<20)
	expect.Text(t, string(buf[:runtime.Stack(buf, true)]), "the directory is watched").Lacks("fsnotify.newBackend")
}
