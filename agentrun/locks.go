package agentrun

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Locks serialize access to agents: turns of one key run one after another, and changes
// of an agent's tools wait for its turns. Waiters are served first come, first served.
type Locks struct {
	mu    sync.Mutex
	held  map[string]*keyLock
	begun uint64 // number of locks created so far
}

type keyLock struct {
	sem    *semaphore.Weighted
	users  int // number of holders and waiters
	number uint64
}

// Shares of a lock: a turn takes its agent's lock shared, and the lock of its own key
// exclusively.
const (
	Shared    = 1
	Exclusive = 1 << 20
)

// Lock waits for a share of a key's lock and returns the function that releases it.
func (t *Locks) Lock(ctx context.Context, key string, share int64) (unlock func(), err error) {
	t.mu.Lock()
	if t.held == nil {
		t.held = map[string]*keyLock{}
	}
	l := t.held[key]
	if l == nil {
		t.begun++
		l = &keyLock{sem: semaphore.NewWeighted(Exclusive), number: t.begun}
		t.held[key] = l
	}
	l.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(t.held, key)
		}
	}
	err = l.sem.Acquire(ctx, share)
	if errors.Is(err, context.DeadlineExceeded) && l.sem.TryAcquire(share) {
		err = nil // the lock is free: on a busy machine a short deadline can pass before it is tried
	}
	if err != nil {
		leave()
		return nil, err
	}
	return func() { l.sem.Release(share); leave() }, nil
}

// HeldNow returns a function that reports whether any lock that is held now is still held,
// which means that its turn is in progress, or that the turn's changes are not recorded
// yet.
func (t *Locks) HeldNow() (underway func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	since := t.begun
	return func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, l := range t.held {
			if l.number <= since {
				return true
			}
		}
		return false
	}
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
