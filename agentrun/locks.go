package agentrun

import (
	"context"

	"github.com/memproxy/memproxy/internal/keyed"
)

// Locks serialize access to agents: turns of one key run one after another, and changes
// of an agent's tools wait for its turns. A lock is held until the changes of its turn are
// recorded.
type Locks struct{ keyed.Semaphores }

// Shares of a lock: a turn takes its agent's lock shared, and the lock of its own key
// exclusively.
const (
	Shared    = 1
	Exclusive = 1 << 20
)

// Lock waits for a share of a key's lock and returns the function that releases it.
func (t *Locks) Lock(ctx context.Context, key string, share int64) (unlock func(), err error) {
	return t.Acquire(ctx, key, share, Exclusive)
}

// LockSet is a set of locks that are released together.
type LockSet struct {
	Locks *Locks

	unlock []func()
}

// Lock waits for a share of a key's lock and adds it to the set.
func (h *LockSet) Lock(ctx context.Context, key string, share int64) error {
	unlock, err := h.Locks.Lock(ctx, key, share)
	if err == nil {
		h.unlock = append(h.unlock, unlock)
	}
	return err
}

// Unlock releases all locks of the set.
func (h *LockSet) Unlock() {
	for _, f := range h.unlock {
		f()
	}
	h.unlock = nil
}
