package upkeep

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// looksOfAReread is how often files are read when they are to be read at
	// once: what two looks find alike is no half of an edit.
	looksOfAReread = 2
	// editPace is how long after an edit the first look is, and between the two.
	editPace = 100 * time.Millisecond
)

// Rereads sends to looks whenever files are to be read again, until ctx ends: at
// every tick, on a SIGHUP, and soon after something in their directory was
// edited. The ticks find what a volume does not notify of. Where the process
// itself writes to the directory, own, only ticks and SIGHUP count: each of its
// writes would have the files read.
func Rereads(ctx context.Context, tick <-chan time.Time, looks chan<- time.Time, dir, own string) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	edited := make(chan struct{}, 1)
	if !same(dir, own) {
		defer watch(dir, edited)()
	}
	soon := time.NewTimer(0)
	defer soon.Stop()
	<-soon.C
	for left := 0; ; {
		n, at := 1, time.Time{}
		select {
		case <-ctx.Done():
			return
		case at = <-tick:
		case <-heard:
			n = looksOfAReread
		case <-edited:
			if left == 0 {
				soon.Reset(editPace)
			}
			left = looksOfAReread
			continue
		case <-soon.C:
			if left--; left > 0 {
				soon.Reset(editPace)
			}
		}
		for range n {
			select {
			case <-ctx.Done():
				return
			case looks <- at:
			}
		}
	}
}

// same reports whether two paths are one directory, by whatever links.
func same(a, b string) bool {
	at, err := os.Stat(a)
	if err != nil {
		return false
	}
	to, err := os.Stat(b)
	return err == nil && os.SameFile(at, to)
}

// watch sends to edited when something happens in a directory, and returns what
// stops that. A watcher that lost events counts as edited.
func watch(dir string, edited chan<- struct{}) (stop func()) {
	w, err := fsnotify.NewWatcher()
	if err == nil {
		err = w.Add(dir)
	}
	if err != nil { // the ticks are enough
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
			case _, more = <-w.Errors: // the watcher waits until they are received
			}
			if !more {
				return
			}
			select {
			case edited <- struct{}{}:
			default: // one is enough
			}
		}
	}()
	return func() { _ = w.Close(); <-over }
}

// ErrUnsettled is returned by what puts a version in force when it found another
// one: an edit is under way.
var ErrUnsettled = errors.New("upkeep: it was edited meanwhile")

// Followed is what is kept in files and edited while the process runs.
type Followed struct {
	// Look returns the version of what is there, and what puts it in force. An
	// error means that it cannot be read.
	Look func() (version string, use func() error, err error)
	// Failed is called when an edit is not put in force, once for each error.
	Failed func(error)
}

// Follow has edits put in force at looks until ctx ends; inForce is the version
// that is at the start.
//
// It compares versions and not times, so that a swapped symlink (a ConfigMap's
// way) is seen and a touched file is not. Two looks in a row must find the same:
// what is found in the middle of an edit counts for nothing, neither as content
// nor as an error. What is refused is tried again at every look. When a broken
// edit is taken back, what is in force already is put in force once more, to
// say that all is well.
func (f Followed) Follow(ctx context.Context, inForce string, looks <-chan time.Time) {
	last, failed := inForce, ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks:
		}
		found, use, err := f.Look()
		if err != nil {
			found = "error: " + err.Error()
		}
		settled := found == last
		if last = found; !settled || found == inForce && failed == "" {
			continue
		}
		if err == nil {
			err = use()
		}
		switch {
		case err == nil:
			inForce, failed = found, ""
			continue
		case errors.Is(err, ErrUnsettled):
			last = ""
			continue
		}
		if text := err.Error(); text != failed {
			failed = text
			f.Failed(err)
		}
	}
}
