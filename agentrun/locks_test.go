package agentrun

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-1: a lock that is free is taken also if a busy machine lets the deadline pass
// before the lock is tried; one that is held is not, and a caller who is gone takes none.
func TestFreeLocksAreTakenLate(t *testing.T) {
	locks := &Locks{}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	unlock := must.Get(locks.Lock(late, "agent", Exclusive))(t)
	if _, err := locks.Lock(late, "agent", Shared); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that is held: %v", err)
	}
	unlock()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := locks.Lock(gone, "agent", Exclusive); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who is gone: %v", err)
	}
	must.Get(locks.Lock(t.Context(), "agent", Exclusive))(t)()
	if len(locks.held) > 0 {
		t.Errorf("%d are held", len(locks.held))
	}
}
