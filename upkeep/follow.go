package upkeep

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/memproxy/memproxy/internal/wait"
)

const (
	// checksPerChange is how often the files are read for one reread: two equal results
	// mean that no edit was in progress.
	checksPerChange = 2
	// settleTime is the time from an edit to the first look, and from that to the second.
	settleTime = 100 * time.Millisecond
)

// Hangups returns a channel that receives each SIGHUP from now on, so that a signal
// that arrives before Rereads runs is not lost.
func Hangups() chan os.Signal {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	return heard
}

// Rereads calls look whenever files are to be read again, until ctx ends: at every tick, on
// SIGHUP, and soon after an edit in their directory. The ticks cover volumes that do not
// notify of changes. If the process itself writes to the directory (own), edits do not
// count, because each of its own writes would cause a reread.
func Rereads(ctx context.Context, tick <-chan time.Time, heard chan os.Signal, dir, own string, look func()) {
	defer signal.Stop(heard)
	edited := make(chan struct{}, 1)
	if !same(dir, own) {
		defer watch(dir, edited)()
	}
	soon := time.NewTimer(0)
	defer soon.Stop()
	<-soon.C
	for left := 0; ; {
		n := 1
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-heard:
			n = checksPerChange
		case <-edited:
			if left == 0 {
				soon.Reset(settleTime)
			}
			left = checksPerChange
			continue
		case <-soon.C:
			if left--; left > 0 {
				soon.Reset(settleTime)
			}
		}
		for ; n > 0 && ctx.Err() == nil; n-- {
			look()
		}
	}
}

// same reports whether two paths name the same directory, links resolved.
func same(a, b string) bool {
	at, err := os.Stat(a)
	if err != nil {
		return false
	}
	to, err := os.Stat(b)
	return err == nil && os.SameFile(at, to)
}

// watch sends to edited when something changes in a directory, and returns a function
// that stops the watch. Lost events count as an edit.
func watch(dir string, edited chan<- struct{}) (stop func()) {
	w, err := fsnotify.NewWatcher()
	if err == nil {
		err = w.Add(dir)
	}
	if err != nil { // the ticks suffice
		if w != nil {
			_ = w.Close()
		}
		return func() {}
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			var more bool
			select {
			case _, more = <-w.Events:
			case _, more = <-w.Errors: // the watcher blocks until errors are received
			}
			if !more {
				return
			}
			wait.Wake(edited)
		}
	}()
	return func() { _ = w.Close(); <-over }
}

// ErrUnsettled means that an edit is in progress: the version changed during its use.
var ErrUnsettled = errors.New("upkeep: the files are being edited")

// Files describes files that may be edited while the process runs.
type Files struct {
	// Load returns the present version and a function that puts it in force. An error
	// means that it cannot be read.
	Load func() (version string, use func() error, err error)
	// Failed is called when an edit is not put in force, once for each error.
	Failed func(error)
}

// Follow returns a function that looks at the files once and puts an edit in force, for
// Rereads. inForce is the version at the start.
//
// It compares versions instead of times, so that it notices a swapped symlink (as
// of a ConfigMap) and ignores a touched file. Two looks in a row must agree: what is
// read in the middle of an edit is ignored, content and errors alike. A refused version
// is tried again at every look. When a broken edit is reverted, the version in force is
// put in force once more, which reports the recovery.
func (f Files) Follow(inForce string) (look func()) {
	last, failed := inForce, ""
	return func() {
		found, use, err := f.Load()
		if err != nil {
			found = "error: " + err.Error()
		}
		settled := found == last
		last = found
		if !settled || found == inForce && failed == "" {
			return
		}
		if err == nil {
			err = use()
		}
		switch {
		case err == nil:
			inForce, failed = found, ""
		case errors.Is(err, ErrUnsettled):
			last = ""
		case err.Error() != failed:
			failed = err.Error()
			f.Failed(err)
		}
	}
}
