package agentrun_test

import (
	"context"
	"testing"
	"time"

	"github.com/memproxy/memproxy/agentrun"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-1: a lock that is free is taken also if a busy machine lets the deadline pass
// before the lock is tried; one that is held is not, and a caller who is gone takes none.
func TestFreeLocksAreTakenLate(t *testing.T) {
	locks := &agentrun.Locks{}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	unlock := must.Get(locks.Lock(late, agentrun.Exclusive, "agent"))(t)
	expect.Is(t, expect.Err(locks.Lock(late, agentrun.Shared, "agent")), context.DeadlineExceeded, "one that is held")
	unlock()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	expect.Is(t, expect.Err(locks.Lock(gone, agentrun.Exclusive, "agent")), context.Canceled, "a caller who is gone")
	must.Get(locks.Lock(t.Context(), agentrun.Exclusive, "agent"))(t)()
	expect.Equal(t, locks.Len(), 0)
}
