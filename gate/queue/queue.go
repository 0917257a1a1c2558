// Package queue has changes of the same memory follow one another.
package queue

import (
	"context"
	"sync"
	"time"
)

// Queue has changes of one memory follow one another, from before it is looked up until
// their outcome is in the ledger: the last text that the backend took is then the last
// that the ledger knows, and what was deleted stays deleted. Deletions of all that an
// owner has follow its additions in the same way, which do not wait for one another.
// It is first come, first served, and holds within one process. Where several share a
// ledger, a change whose outcome comes over another's asks the backend which of them was
// the last.
type Queue struct {
	mu   sync.Mutex
	keys map[string][]place
}

// place is a change in the queue for one key.
type place struct {
	of    *ticket
	alone bool // it shares the key with no other
	first bool // its turn has come
}

// ticket is a change that waits until its turn has come for each of its keys.
type ticket struct {
	keys  []string
	left  int           // keys for which it has not
	ready chan struct{} // closed when none is left
}

// Enter waits for the turn of a change, which shares its keys or has them alone, as
// long as patience, and returns what ends it; false: its turn did not come.
func (q *Queue) Enter(ctx context.Context, patience time.Duration, alone bool, keys ...string) (leave func(), ok bool) {
	c := &ticket{ready: make(chan struct{})}
	q.mu.Lock()
	if q.keys == nil {
		q.keys = map[string][]place{}
	}
	for _, key := range keys {
		queue := q.keys[key]
		if n := len(queue); n > 0 && queue[n-1].of == c {
			continue // named twice
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
	if c.left == 0 {
		close(c.ready)
	}
	q.mu.Unlock()
	leave = sync.OnceFunc(func() { q.leave(c) })
	select {
	case <-c.ready:
		return leave, true
	default:
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

func (q *Queue) leave(c *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range c.keys {
		queue := q.keys[key]
		rest := queue[:0]
		for _, p := range queue {
			if p.of != c {
				rest = append(rest, p)
			}
		}
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
}
