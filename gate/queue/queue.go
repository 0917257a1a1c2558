// Package queue orders concurrent changes of the same memory.
package queue

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Queue is a set of fair read-write locks by key, first come, first served. It orders
// the changes of one memory, from its lookup until the outcome is in the ledger, so that
// the last text in the backend is also the last in the ledger, and a deleted memory
// stays deleted. Bulk deletions for an owner are ordered with its additions in the same
// way; additions share the key and do not wait for one another.
//
// A Queue orders the changes of one process. If several processes share a ledger, a
// change whose outcome conflicts with another's asks the backend which was the last.
type Queue struct {
	mu    sync.Mutex
	keys  map[string][]place
	ended uint64
}

// place is a change in the queue for one key.
type place struct {
	of    *ticket
	alone bool // it has the key exclusively
	first bool // its turn has come
}

// ticket is a change that waits for its turn at each of its keys.
type ticket struct {
	keys  []string
	left  int           // keys at which it still waits
	ready chan struct{} // closed when left is zero; nil if it never waited
}

// Enter waits at most patience for the turn of a change at all its keys, which it has
// exclusively (alone) or shares. It returns the function that ends the turn, which may
// be called more than once, and false if the turn did not come.
func (q *Queue) Enter(ctx context.Context, patience time.Duration, alone bool, keys ...string) (leave func(), ok bool) {
	c := &ticket{}
	q.mu.Lock()
	if q.keys == nil {
		q.keys = map[string][]place{}
	}
	for _, key := range keys {
		queue := q.keys[key]
		if n := len(queue); n > 0 && queue[n-1].of == c {
			continue // a repeated key
		}
		first := len(queue) == 0
		if !first && !alone {
			last := queue[len(queue)-1]
			first = last.first && !last.alone
		}
		if !first {
			c.left++
		}
		c.keys = append(c.keys, key)
		q.keys[key] = append(queue, place{c, alone, first})
	}
	waits := c.left > 0
	if waits {
		c.ready = make(chan struct{})
	}
	q.mu.Unlock()
	leave = func() { q.leave(c) }
	if !waits {
		return leave, true
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-c.ready:
		return leave, true
	case <-ctx.Done():
		leave()
		return nil, false
	}
}

// Ended returns the number of turns that ended so far, at any key.
func (q *Queue) Ended() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

func (q *Queue) leave(c *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(c.keys) > 0 {
		q.ended++
	}
	for _, key := range c.keys {
		rest := slices.DeleteFunc(q.keys[key], func(p place) bool { return p.of == c })
		if len(rest) == 0 {
			delete(q.keys, key)
			continue
		}
		q.keys[key] = rest
		for i := range rest {
			p := &rest[i]
			if i > 0 && (p.alone || rest[0].alone) {
				break
			}
			if p.first {
				continue
			}
			p.first = true
			if p.of.left--; p.of.left == 0 {
				close(p.of.ready)
			}
		}
	}
	c.keys = nil
}
