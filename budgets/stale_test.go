package budgets_test

import (
	"context"
	"testing"
)

// Proves CARD-4: an answer to a call from before the outage is no return: the
// store would be told its debts while it is away, and lose them.
func TestAnswersFromBeforeAreNoReturn(t *testing.T) {
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
