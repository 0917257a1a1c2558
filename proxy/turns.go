package proxy

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// turns orders what happens to agents: one turn of a key at a time, and what
// changes an agent's tools not during any of its turns. Waiting is first come,
// first served.
type turns struct {
	mu    sync.Mutex
	held  map[string]*turnLock
	begun uint64 // how many locks there were, ever
}

type turnLock struct {
	sem    *semaphore.Weighted
	users  int // that hold it or wait for it
	number uint64
}

// Shares of a lock: a turn shares its agent, and has its key to itself.
const (
	shared    = 1
	exclusive = 1 << 20
)

// lock waits for a share of a key and returns what gives it back.
func (t *turns) lock(ctx context.Context, key string, share int64) (unlock func(), err error) {
	t.mu.Lock()
	if t.held == nil {
		t.held = map[string]*turnLock{}
	}
	l := t.held[key]
	if l == nil {
		t.begun++
		l = &turnLock{sem: semaphore.NewWeighted(exclusive), number: t.begun}
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

// TurnsBegun returns a function that reports whether a turn of an agent that is
// under way now still is, or what it changed is not recorded yet.
func (p *Proxy) TurnsBegun() (underway func() bool) {
	t := &p.turns
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

// LongestTurn is how long a turn lasts at most that is not streamed, and how long
// one that is streamed may be silent.
func (p *Proxy) LongestTurn() time.Duration { return p.opt.RunTimeout }
