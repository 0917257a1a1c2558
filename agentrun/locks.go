package agentrun

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Locks order what happens to agents: one turn of a key at a time, and what
// changes an agent's tools not during any of its turns. Waiting is first come,
// first served.
type Locks struct {
	mu    sync.Mutex
	held  map[string]*keyLock
	begun uint64 // how many locks there were, ever
}

type keyLock struct {
	sem    *semaphore.Weighted
	users  int // that hold it or wait for it
	number uint64
}

// Shares of a lock: a turn shares its agent, and has its key to itself.
const (
	Shared    = 1
	Exclusive = 1 << 20
)

// Lock waits for a share of a key and returns what gives it back.
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
	if err := l.sem.Acquire(ctx, share); err != nil {
		leave()
		return nil, err
	}
	return func() { l.sem.Release(share); leave() }, nil
}

// Begun returns a function that reports whether one of the locks that are held now
// still is: a turn is under way, or what it changed is not recorded yet.
func (t *Locks) Begun() (underway func() bool) {
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

// Held are locks that are given back together.
type Held struct {
	Locks *Locks

	unlock []func()
}

// Lock waits for a share of a key.
func (h *Held) Lock(ctx context.Context, key string, share int64) error {
	unlock, err := h.Locks.Lock(ctx, key, share)
	if err == nil {
		h.unlock = append(h.unlock, unlock)
	}
	return err
}

// Unlock gives them all back.
func (h *Held) Unlock() {
	for _, f := range h.unlock {
		f()
	}
	h.unlock = nil
}
