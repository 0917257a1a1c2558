// Package keyed bounds what goes on at once under one key. Waiters are served first come,
// first served.
package keyed

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Semaphores has a semaphore for each key in use. The zero value is ready for use.
type Semaphores struct {
	mu    sync.Mutex
	held  map[string]*entry
	begun uint64 // number of entries created so far
}

type entry struct {
	places *semaphore.Weighted
	users  int // number of holders and waiters; the entry is deleted at 0
	number uint64
}

// Acquire waits for a share of a key's places, and returns the function that gives it back.
// The number of places is size, which is the same in all calls for a key.
func (s *Semaphores) Acquire(ctx context.Context, key string, share, size int64) (release func(), err error) {
	s.mu.Lock()
	if s.held == nil {
		s.held = map[string]*entry{}
	}
	e := s.held[key]
	if e == nil {
		s.begun++
		e = &entry{places: semaphore.NewWeighted(size), number: s.begun}
		s.held[key] = e
	}
	e.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.users--; e.users == 0 {
			delete(s.held, key)
		}
	}
	err = e.places.Acquire(ctx, share)
	if errors.Is(err, context.DeadlineExceeded) && e.places.TryAcquire(share) {
		err = nil // a place is free: on a busy machine a short deadline can pass before it is tried
	}
	if err != nil {
		leave()
		return nil, err
	}
	return func() { e.places.Release(share); leave() }, nil
}

// Len returns the number of keys in use.
func (s *Semaphores) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// HeldNow returns a function that reports whether any key that is in use now has been in use
// ever since.
func (s *Semaphores) HeldNow() (still func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.begun
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range s.held {
			if e.number <= since {
				return true
			}
		}
		return false
	}
}
