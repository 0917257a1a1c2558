package policy

import (
	"context"
	"time"
)

// Watch looks at a directory at every tick and calls use when its content is
// another than the version in force, or failed with the error when it cannot
// be read or use refuses it.
//
// It compares content and not times, so that a swapped symlink (a ConfigMap's
// way) is seen and a touched file is not. Two looks in a row must find the
// same: what is found in the middle of an edit counts for nothing, neither as
// rules nor as an error. An error is reported once, not at every tick, and use
// is asked again until it takes the bundle. When a broken edit is taken back,
// use is called with what is in force already, to say that all is well.
//
// Watch returns when ctx ends.
func Watch(ctx context.Context, dir, version string, tick <-chan time.Time, use func(Bundle) error, failed func(error)) {
	w := watcher{inForce: version, last: version, use: use, failed: failed}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			w.look(Load(dir))
		}
	}
}

// watcher is what Watch remembers between two looks.
type watcher struct {
	inForce  string // version of the bundle in force
	reported string // the error that was reported last; "" when all is well
	last     string // what the look before found: a version, or an error
	use      func(Bundle) error
	failed   func(error)
}

func (w *watcher) look(b Bundle, err error) {
	found := ""
	if err != nil {
		found = "error: " + err.Error()
	} else {
		found = b.Version()
	}
	if found != w.last {
		w.last = found
		return
	}
	if err == nil {
		if found == w.inForce && w.reported == "" {
			return
		}
		if err = w.use(b); err == nil {
			w.inForce, w.reported = found, ""
			return
		}
	}
	if msg := err.Error(); msg != w.reported {
		w.reported = msg
		w.failed(err)
	}
}
