// Package keyed bounds what goes on at once under one key. Waiters are served first come,
// first served.
package keyed

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Queue has a number of places for each key in use. The zero value is ready for use.
type Queue struct {
	mu           sync.Mutex
	keys         map[string][]waiter
	begun, ended uint64 // number of tickets
}

// waiter is a ticket in the queue for one key.
type waiter struct {
	*Ticket
	share, size int64
	first       bool // its share is free
}

// Ticket is a place in the queues of some keys. Its turn comes when a share of each is free.
type Ticket struct {
	queue  *Queue
	keys   []string
	left   int           // keys at which it still waits
	come   chan struct{} // closed when left is zero; nil if it never waited
	number uint64
}

// Enter puts a ticket in the queues of keys, for a share of their places. The number of
// places is size, which is the same in all calls for a key. Tickets in several queues have the
// same order in each, so that none waits for one behind it.
func (q *Queue) Enter(share, size int64, keys ...string) *Ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.keys == nil {
		q.keys = map[string][]waiter{}
	}
	q.begun++
	t := &Ticket{queue: q, number: q.begun}
	for _, key := range keys {
		queue := q.keys[key]
		if n := len(queue); n > 0 && queue[n-1].Ticket == t {
			continue // a repeated key
		}
		taken := share
		for i := range queue {
			taken += queue[i].share
		}
		if taken > size {
			t.left++
		}
		t.keys = append(t.keys, key)
		q.keys[key] = append(queue, waiter{t, share, size, taken <= size})
	}
	if t.left > 0 {
		t.come = make(chan struct{})
	}
	return t
}

// EnterLock is Enter for a lock that is shared, or that the ticket has alone.
func (q *Queue) EnterLock(alone bool, keys ...string) *Ticket {
	const size = 1 << 20
	if alone {
		return q.Enter(size, size, keys...)
	}
	return q.Enter(1, size, keys...)
}

// WaitAtMost is Wait for a limited time. It returns at once if the turn came at once, whatever
// the context.
func (t *Ticket) WaitAtMost(ctx context.Context, patience time.Duration) error {
	if t.come == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return t.Wait(ctx)
}

// Wait waits until the turn comes. If the context ends before, the ticket is left. A turn that
// came at once counts after a deadline, too, but not for a caller who is gone.
func (t *Ticket) Wait(ctx context.Context) error {
	if err := ctx.Err(); t.come == nil && !errors.Is(err, context.Canceled) {
		return nil
	}
	select {
	case <-t.come:
		return nil
	case <-ctx.Done():
		t.Leave()
		return ctx.Err()
	}
}

// Leave gives the shares back. It may be called more than once.
func (t *Ticket) Leave() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(t.keys) > 0 {
		q.ended++
	}
	for _, key := range t.keys {
		rest := slices.DeleteFunc(q.keys[key], func(w waiter) bool { return w.Ticket == t })
		if len(rest) == 0 {
			delete(q.keys, key)
			continue
		}
		q.keys[key] = rest
		var taken int64
		for i := range rest {
			w := &rest[i]
			if taken += w.share; taken > w.size {
				break
			}
			if w.first {
				continue
			}
			w.first = true
			if w.left--; w.left == 0 {
				close(w.come)
			}
		}
	}
	t.keys = nil
}

// Ended returns the number of tickets that were left so far, at any key.
func (q *Queue) Ended() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

// Len returns the number of keys in use.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.keys)
}

// HeldNow returns a function that reports whether any ticket that is in a queue now has not been
// left since.
func (q *Queue) HeldNow() (still func() bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	since := q.begun
	return func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, queue := range q.keys {
			if slices.ContainsFunc(queue, func(w waiter) bool { return w.number <= since }) {
				return true
			}
		}
		return false
	}
}
