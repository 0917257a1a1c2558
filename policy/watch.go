package policy

import (
	"context"
	"time"
)

// Watch loads a directory at every tick and calls use when its content is
// another than before, or failed with the error when it cannot be read or use
// refuses it. It compares content and not times, so that a swapped symlink (a
// ConfigMap's way) and a touched file are told apart. An error is reported
// once, not at every tick. Watch returns when ctx ends.
func Watch(ctx context.Context, dir, version string, tick <-chan time.Time, use func(Bundle) error, failed func(error)) {
	last, lastErr := version, ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		b, err := Load(dir)
		if err == nil {
			v := b.Version()
			if v == last {
				if lastErr != "" { // edited back to what is in force
					lastErr = ""
					err = use(b)
				}
			} else if err = use(b); err == nil {
				last, lastErr = v, ""
			}
		}
		if err != nil && err.Error() != lastErr {
			lastErr = err.Error()
			failed(err)
		}
	}
}
