// Which of 256 writes gives way is seen inside of the package alone, so this is in the slow ring,
// where the package is compiled once more for it.

//go:build slow

package frontend

import (
	"slices"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
)

// A caller with many slow writes takes no room from others: its own oldest are dropped.
func TestTheBusiestCallersOldestGivesWay(t *testing.T) {
	t.Parallel()
	var f Follower
	follow := func(caller string, size int) *followed {
		w := &followed{party{"acme", caller}, size, make(chan struct{})}
		f.enter(w)
		return w
	}
	gone := func(w *followed) bool {
		select {
		case <-w.leave:
			return !slices.Contains(f.followed, w)
		default:
			return false
		}
	}
	quiet := follow("quiet", 1)
	busy := make([]*followed, 0, followMost)
	for range followMost - 1 {
		busy = append(busy, follow("busy", 1))
	}
	expect.Equal(t, slices.ContainsFunc(append(busy, quiet), gone), false, "one gave way while there was room")
	newcomer := follow("newcomer", 2)
	expect.That(t, !gone(quiet) && !gone(newcomer) && gone(busy[0]) && gone(busy[1]) && !gone(busy[2]), "the busiest caller's oldest did not give way")
	f.leave(newcomer)
	follow("busy", 2)
	expect.That(t, !gone(busy[2]), "what has left takes room")
}
