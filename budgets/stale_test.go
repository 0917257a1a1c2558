package budgets_test

import (
	"context"
	"testing"
	"time"
)

// Proves CARD-4: the result of a call from before the outage does not end it: debts
// would be sent to a store that is down, and lost.
func TestEarlierResultsDoNotEndAnOutage(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(context.Context) error {
		close(entered)
		<-release
		return nil
	})
	early, late := r.ask(1, 40), r.ask(1, 40)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.charge(early, true, false)
	}()
	<-entered
	r.remote.set(down)
	r.charge(late, true, true)
	close(release)
	<-done
	if !r.d.Degraded() {
		t.Error("a late answer brought the store back")
	}
	if away, back := r.changed(); away != 1 || back != 0 {
		t.Errorf("%d times away, %d times back; want once and never", away, back)
	}
}

// Proves TRL-6, CARD-4: writes beyond their reservation during an outage count against
// the share at once, and against the shared limit after the recovery.
func TestSettlementsAreOwed(t *testing.T) {
	r := newRig(t, down)
	r.charge(r.ask(1, 100), true, true)
	more := r.ask(150, 100)
	more.Written = true
	r.charge(more, true, true)
	r.charge(r.ask(1, 100), false, true)
	r.remote.set(nil)
	r.Advance(time.Second)
	r.charge(r.ask(0, 100), true, false)
	r.arrived(3)
	if a := r.charge(r.ask(1, 100), false, false); a.Lines[0].Used != 151 {
		t.Errorf("used %d, want 151", a.Lines[0].Used)
	}
}
