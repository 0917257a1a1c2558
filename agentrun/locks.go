package agentrun

import (
	"context"

	"github.com/memproxy/memproxy/internal/keyed"
)

// Locks serialize access to agents: turns of one key run one after another, and changes
// of an agent's tools wait for its turns. A lock is held until the changes of its turn are
// recorded.
type Locks struct{ keyed.Queue }

// A turn takes its agent's lock shared, and the lock of its own key exclusively.
const (
	Shared    = false
	Exclusive = true
)

// Lock waits for a key's lock, Shared or Exclusive, and returns the function that releases it.
func (t *Locks) Lock(ctx context.Context, key string, alone bool) (unlock func(), err error) {
	ticket := t.EnterLock(alone, key)
	if err := ticket.Wait(ctx); err != nil {
		return nil, err
	}
	return ticket.Leave, nil
}

// LockSet is a set of locks that are released together.
type LockSet struct {
	Locks *Locks

	unlock []func()
}

// Lock waits for a key's lock and adds it to the set.
func (h *LockSet) Lock(ctx context.Context, key string, alone bool) error {
	unlock, err := h.Locks.Lock(ctx, key, alone)
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
