package proxy

import (
	"context"
	"sync"
)

// turns lets one turn of a key take place at a time, in no particular order.
type turns struct {
	mu   sync.Mutex
	held map[string]*turnLock
}

type turnLock struct {
	free    chan struct{} // holds one token while nobody holds the lock
	waiting int
}

// lock waits for the key's turn.
func (t *turns) lock(ctx context.Context, key string) error {
	t.mu.Lock()
	if t.held == nil {
		t.held = map[string]*turnLock{}
	}
	l := t.held[key]
	if l == nil {
		l = &turnLock{free: make(chan struct{}, 1)}
		l.free <- struct{}{}
		t.held[key] = l
	}
	l.waiting++
	t.mu.Unlock()
	select {
	case <-l.free:
		return nil
	case <-ctx.Done():
		t.leave(key, l)
		return ctx.Err()
	}
}

func (t *turns) unlock(key string) {
	t.mu.Lock()
	l := t.held[key]
	t.mu.Unlock()
	l.free <- struct{}{}
	t.leave(key, l)
}

func (t *turns) leave(key string, l *turnLock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.waiting--; l.waiting == 0 {
		delete(t.held, key)
	}
}
