package budgets_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
)

// A charge that was granted during an outage is counted afterwards, although others have used
// up the limit meanwhile. One that the shared store fails to count three times is given up.
func TestReplaysPassTheLimitAndAreGivenUp(t *testing.T) { synctest.Test(t, replaysPassTheLimit) }

func replaysPassTheLimit(t *testing.T) {
	r := newRig(t, down)
	r.charge(r.ask(1, 100), true, true)
	calls := 0
	for range 3 { // the store answers the probe, and fails at what is replayed
		calls = 0
		r.remote.set(func(context.Context) error {
			if calls++; calls > 1 {
				return errAway
			}
			return nil
		})
		r.Advance(2 * time.Second)
		r.charge(r.ask(1, 100), true, false)
		synctest.Wait()
		expect.Equal(t, calls, 2, "calls")
	}
	r.charge(r.ask(1, 8), true, true)
	r.remote.set(nil)
	r.Advance(2 * time.Second)
	r.charge(r.ask(5, 8), true, false) // uses the limit up
	synctest.Wait()
	expect.Equal(t, slices.Contains(r.arrived(5), "d1"), false, "the one that failed three times is replayed")
	expect.Equal(t, r.charge(r.ask(0, 100), true, false).Lines[0].Used, 9, "used")
}
