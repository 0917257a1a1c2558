package audit

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/wait"
)

// item is a queued event, or a barrier if it has no body.
type item struct {
	bodies []body         // none for a barrier
	event  memproxy.Event // set only if a hook needs it
	async  bool
	state  atomic.Int32
	done   chan error // receives the result
}

// The states of an item. The goroutine that moves it out of queued owns it.
const (
	queued int32 = iota
	taken
	withdrawn
)

func (it *item) take() bool {
	return it.state.Load() == taken || it.state.CompareAndSwap(queued, taken)
}
func (it *item) withdraw() { it.state.CompareAndSwap(queued, withdrawn) }

// keepBuffer is the largest buffer that is reused for another event.
const keepBuffer = 8 << 10

// queue holds the events that wait for the writer.
type queue struct {
	opt  *Options
	wake chan struct{} // wakes the writer
	pool sync.Pool     // of *item

	mu      sync.Mutex
	waiting []*item
	closed  bool
	armed   bool // a timer for asynchronous events is running
}

func newQueue(opt *Options) *queue {
	q := &queue{opt: opt, wake: make(chan struct{}, 1)}
	q.pool.New = func() any { return &item{done: make(chan error, 1)} }
	return q
}

// item returns an encoded event that is not queued yet.
func (q *queue) item(ev *memproxy.Event, at place) *item {
	it := q.barrier()
	if len(q.opt.Unsafe) > 0 {
		unsafe := *ev
		unsafe.Unsafe, ev = q.opt.Unsafe, &unsafe
	}
	it.bodies = encodeAll(it.bodies, ev, at)
	if q.opt.OnRecord != nil {
		it.event = *ev
	}
	return it
}

// barrier returns an item without a record, which completes when all before it is durable.
func (q *queue) barrier() *item {
	it := q.pool.Get().(*item)
	it.bodies, it.async, it.event = it.bodies[:0], false, memproxy.Event{}
	it.state.Store(queued)
	return it
}

// recycle returns an item to the pool. The caller must have the only reference.
func (q *queue) recycle(it *item) {
	if len(it.bodies) == 0 || cap(it.bodies[0].buf) <= keepBuffer {
		q.pool.Put(it)
	}
}

// add appends an item to the queue. An item with a waiting caller wakes the writer; an
// asynchronous one waits for others up to Options.AsyncDelay.
func (q *queue) add(it *item) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrClosed
	}
	if len(q.waiting) >= q.opt.MaxQueue {
		q.mu.Unlock()
		return ErrFull
	}
	q.waiting = append(q.waiting, it)
	async := it.async // once the lock is released, the writer may recycle the item
	arm := async && !q.armed
	q.armed = q.armed || arm
	q.mu.Unlock()
	if !async {
		wait.Wake(q.wake)
	} else if arm {
		time.AfterFunc(q.opt.AsyncDelay, func() { wait.Wake(q.wake) })
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

// putBack returns items to the front of the queue, in order.
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

// state returns the number of waiting events and whether the queue is closed.
func (q *queue) state() (waiting int, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting), q.closed
}
