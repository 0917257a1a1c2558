package upkeep

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// looksOfAReread is how often a directory is looked at on a SIGHUP: what two
// looks find alike is no half of an edit.
const looksOfAReread = 2

// Hangups passes ticks on, and a SIGHUP as ticks, until ctx ends.
func Hangups(ctx context.Context, tick <-chan time.Time, merged chan<- time.Time) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	for {
		n, at := 1, time.Time{}
		select {
		case <-ctx.Done():
			return
		case at = <-tick:
		case <-heard:
			n = looksOfAReread
		}
		for range n {
			select {
			case <-ctx.Done():
				return
			case merged <- at:
			}
		}
	}
}
