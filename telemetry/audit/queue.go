package audit

import (
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/memproxy/memproxy"
)

// item is one queued event, or a barrier when it has no body.
type item struct {
	first body
	rest  []body
	parts int            // how many of them there are; 0 for a barrier
	event memproxy.Event // only where somebody wants it
	note  bool
	state atomic.Int32

	index uint64 // of the first record
	leaf  tlog.Hash
	done  chan error // takes one answer
}

// The states of an item: whoever moves it out of queued has it.
const (
	queued int32 = iota
	taken
	withdrawn
)

func (it *item) reset() {
	it.rest, it.parts, it.note, it.event = nil, 0, false, memproxy.Event{}
	it.state.Store(queued)
}

func (it *item) take() bool {
	return it.state.Load() == taken || it.state.CompareAndSwap(queued, taken)
}
func (it *item) withdraw() { it.state.CompareAndSwap(queued, withdrawn) }

func (it *item) body(i int) *body {
	if i == 0 {
		return &it.first
	}
	return &it.rest[i-1]
}

// keepBuffer is the largest buffer that is kept for the next event.
const keepBuffer = 8 << 10

func (l *Log) item(ev *memproxy.Event, at place) *item {
	it := l.items.Get().(*item)
	it.reset()
	if len(l.opt.Unsafe) > 0 {
		unsafe := *ev
		unsafe.Unsafe, ev = l.opt.Unsafe, &unsafe
	}
	it.first, it.rest = encodeAll(it.first.buf, ev, at)
	it.parts = 1 + len(it.rest)
	if l.opt.OnRecord != nil {
		it.event = *ev
	}
	return it
}

// recycle takes an item back that nobody else holds.
func (l *Log) recycle(it *item) {
	if cap(it.first.buf) <= keepBuffer {
		l.items.Put(it)
	}
}

// enqueue puts an item behind the others. One that somebody waits for wakes
// the writer; a note waits a little for company.
func (l *Log) enqueue(it *item) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	if len(l.queue) >= l.opt.MaxQueue {
		l.mu.Unlock()
		return ErrFull
	}
	l.queue = append(l.queue, it)
	now := !it.note || l.opt.NoteDelay < 0
	arm := !now && !l.armed
	l.armed = l.armed || arm
	l.mu.Unlock()
	if now {
		signal(l.wake)
	} else if arm {
		time.AfterFunc(l.opt.NoteDelay, func() { signal(l.wake) })
	}
	return nil
}

// takeAll empties the queue for the writer, leaving it spare's storage.
func (l *Log) takeAll(spare []*item) []*item {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := l.queue
	l.queue = spare[:0]
	l.armed = false
	return batch
}

// putBack returns notes to the front of the queue, in order.
func (l *Log) putBack(notes []*item) {
	if len(notes) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(notes, l.queue...)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
