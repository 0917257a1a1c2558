package audit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/wait"
)

// item is a queued event, or a barrier if it has no body. Once it is queued, it is the
// writer's.
type item struct {
	bodies []body         // none for a barrier
	event  memproxy.Event // set only if a hook needs it
	caller *caller        // nil if no caller waits
}

// caller is a caller that waits for its event. It outlives the item, which the writer
// reuses as soon as it has answered.
type caller struct {
	state atomic.Int32
	done  chan error // receives the result
}

// The states of a caller. It may withdraw its event until the writer takes it.
const (
	queued int32 = iota
	taken
	withdrawn
)

func (it *item) take() bool {
	c := it.caller
	return c == nil || c.state.Load() == taken || c.state.CompareAndSwap(queued, taken)
}

func (c *caller) withdraw() { c.state.CompareAndSwap(queued, withdrawn) }

// answer releases the caller, if there is one and it still waits.
func (it *item) answer(err error) {
	if c := it.caller; c != nil && c.state.Load() == taken {
		c.done <- err
	}
}

// keepBuffer is the largest buffer that is reused for another event.
const keepBuffer = 8 << 10

type queue struct {
	opt     *Options
	wake    chan struct{} // wakes the writer
	items   sync.Pool     // of *item
	callers sync.Pool     // of *caller

	mu      sync.Mutex
	waiting []*item
	closed  bool
	armed   bool        // the timer runs for what is waiting
	timer   *time.Timer // wakes the writer for asynchronous events; nil before the first
}

func newQueue(opt *Options) *queue {
	q := &queue{opt: opt, wake: make(chan struct{}, 1)}
	q.items.New = func() any { return new(item) }
	q.callers.New = func() any { return &caller{done: make(chan error, 1)} }
	return q
}

// item returns an encoded event that is not queued yet.
func (q *queue) item(ev *memproxy.Event) *item {
	it := q.items.Get().(*item)
	if len(q.opt.Unsafe) > 0 {
		unsafe := *ev
		unsafe.Unsafe, ev = q.opt.Unsafe, &unsafe
	}
	it.bodies = encodeAll(it.bodies, ev)
	if q.opt.OnRecord != nil {
		it.event = *ev
	}
	return it
}

func (q *queue) recycle(it *item) {
	if len(it.bodies) == 0 || cap(it.bodies[0].buf) <= keepBuffer {
		it.bodies, it.event, it.caller = it.bodies[:0], memproxy.Event{}, nil
		q.items.Put(it)
	}
}

// wait queues an item and waits until it is durable. An item without a record is a
// barrier, which completes when all before it is durable.
func (q *queue) wait(ctx context.Context, it *item) error {
	c := q.callers.Get().(*caller)
	c.state.Store(queued)
	it.caller = c
	if err := q.add(it); err != nil {
		return err
	}
	wait.Wake(q.wake)
	select {
	case err := <-c.done:
		q.callers.Put(c)
		return err
	case <-ctx.Done():
		c.withdraw() // the writer skips it, unless it has taken it already
		return ctx.Err()
	}
}

// add appends an item to the queue. One without a waiting caller wakes the writer after
// Options.AsyncDelay, and is usually written with others before that.
func (q *queue) add(it *item) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case len(q.waiting) >= q.opt.MaxQueue:
		return ErrFull
	}
	q.waiting = append(q.waiting, it)
	if it.caller != nil || q.armed {
		return nil
	}
	q.armed = true
	if q.timer == nil {
		q.timer = time.AfterFunc(q.opt.AsyncDelay, func() { wait.Wake(q.wake) })
	} else {
		q.timer.Reset(q.opt.AsyncDelay)
	}
	return nil
}

// takeAll empties the queue for the writer and reuses the storage of spare.
func (q *queue) takeAll(spare []*item) []*item {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.waiting
	q.waiting = spare[:0]
	q.armed = false
	return batch
}

func (q *queue) putBack(items []*item) {
	if len(items) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(items, q.waiting...)
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

func (q *queue) state() (waiting int, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting), q.closed
}
