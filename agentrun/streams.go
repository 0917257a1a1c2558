package agentrun

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
)

// ErrInterrupted ends the stream of a turn that was interrupted.
var ErrInterrupted = errors.New("the turn was interrupted")

// Limits of the turns in memory.
const (
	// streamTime is how long a turn is kept, which is as long as Letta keeps the stream
	// of a background run.
	streamTime = 3 * time.Hour
	maxStreams = 4096
	// maxLogs is the maximum size of all kept streams together, in bytes.
	maxLogs = 64 << 20
)

// Streams keeps turns by the ids of their runs, and by the names under which callers
// request their streams.
type Streams struct {
	Clock func() time.Time

	mu     sync.Mutex // of the streams, too
	byName map[string]*Stream
	order  []*Stream // by age
	size   int
}

// Stream is one turn: its backend runs and, if the backend would also keep the stream,
// the events as the caller received them.
type Stream struct {
	all   *Streams
	begun time.Time
	names []string  // the events of a stream without a name are not kept
	turn  [2]string // its key and its agent

	runs []string
	log  []Entry
	size int
	lost bool // the stream grew too large to keep
	last bool // the turn sends no further request
	over bool
	done bool // complete, without a pause

	cancels   int // requests to cancel the turn that the backend has not answered
	cancelled bool
	changed   chan struct{} // closed at the next change
}

// Entry is one event of the backend as sent to the caller.
type Entry struct {
	Seq    int64 // 0 for the last events, which have no number
	Events [][]byte
}

// Begin registers a turn that starts.
func (c *Streams) Begin(t memproxy.Turn) *Stream {
	now := c.Clock()
	ch := &Stream{all: c, begun: now, names: t.Names(), turn: [2]string{t.Key(), t.Agent()}, changed: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.order) > 0 && (len(c.order) >= maxStreams || now.Sub(c.order[0].begun) > streamTime) {
		c.forget()
	}
	c.order = append(c.order, ch)
	c.name(ch, ch.names)
	return ch
}

// name registers a stream under names; a newer stream replaces an older one.
func (c *Streams) name(ch *Stream, names []string) {
	if c.byName == nil {
		c.byName = map[string]*Stream{}
	}
	for _, n := range names {
		c.byName[n] = ch
	}
}

// forget drops the oldest stream; the lock is held.
func (c *Streams) forget() {
	ch := c.order[0]
	c.order = slices.Delete(c.order, 0, 1)
	for _, n := range slices.Concat(ch.names, ch.runs) {
		if c.byName[n] == ch {
			delete(c.byName, n)
		}
	}
	c.size -= ch.size
	ch.dropEvents()
}

// dropEvents drops the kept events and wakes readers; the lock is held.
func (ch *Stream) dropEvents() {
	ch.size, ch.log, ch.lost = 0, nil, true
	ch.notify()
}

// notify wakes readers that wait for more events; the lock is held.
func (ch *Stream) notify() {
	close(ch.changed)
	ch.changed = make(chan struct{})
}

// Find returns the turn of the first of the names that is registered, or nil.
func (c *Streams) Find(names ...string) *Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range names {
		if ch := c.byName[n]; ch != nil && c.Clock().Sub(ch.begun) <= streamTime {
			return ch
		}
	}
	return nil
}

// Resumed returns the requested stream, or nil if its events are not kept and the backend must
// answer.
func (c *Streams) Resumed(q memproxy.Resumption) *Stream {
	ch := c.Find(q.Names...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch == nil || len(ch.names) == 0 || ch.lost || q.Within != "" && !slices.Contains(ch.names, q.Within) || q.Active && ch.over {
		return nil
	}
	return ch
}

// Cancelling returns the turns in progress with one of the names, which are ids of runs or
// agents, or keys of turns. Each turn postpones its next request until EndCancel is called
// for it.
func (c *Streams) Cancelling(names []string) (turns []*Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.order {
		if !ch.last && !ch.over && slices.ContainsFunc(names, func(n string) bool { return slices.Contains(ch.turn[:], n) || slices.Contains(ch.runs, n) }) {
			ch.cancels++
			turns = append(turns, ch)
		}
	}
	return turns
}

// EndCancel ends what Cancelling began. If the turn is cancelled it sends no further request.
func (ch *Stream) EndCancel(cancelled bool) {
	ch.all.mu.Lock()
	defer ch.all.mu.Unlock()
	ch.cancels, ch.cancelled = ch.cancels-1, ch.cancelled || cancelled
	ch.notify()
}

// Cancelled reports whether the turn is cancelled. It waits for requests that may cancel it
// until the context ends.
func (ch *Stream) Cancelled(ctx context.Context) bool {
	for {
		ch.all.mu.Lock()
		cancelled, waits, more := ch.cancelled, ch.cancels > 0, ch.changed
		ch.all.mu.Unlock()
		if cancelled || !waits || ctx.Err() != nil {
			return cancelled
		}
		select {
		case <-more:
		case <-ctx.Done():
		}
	}
}

// Last marks the turn as one that sends no further request, so that it can no longer be
// cancelled.
func (ch *Stream) Last() {
	ch.all.mu.Lock()
	defer ch.all.mu.Unlock()
	ch.last = true
}

// Cancellable returns the first run of the turn, or "" if the turn has none yet or sends no
// further request.
func (ch *Stream) Cancellable() (run string) {
	ch.all.mu.Lock()
	defer ch.all.mu.Unlock()
	if ch.last || len(ch.runs) == 0 {
		return ""
	}
	return ch.runs[0]
}

// Append adds events that were sent to the caller, and the turn's new run ids.
func (ch *Stream) Append(t memproxy.Turn, seq int64, events [][]byte) {
	runs := t.Runs()
	size := 0
	if len(ch.names) == 0 {
		events = nil
	}
	for _, e := range events {
		size += len(e)
	}
	ch.all.mu.Lock()
	defer ch.all.mu.Unlock()
	for ch.all.size+size > maxLogs && len(ch.all.order) > 0 && ch.all.order[0] != ch {
		ch.all.forget()
	}
	if ch.all.size+size > maxLogs && !ch.lost {
		ch.all.size -= ch.size
		ch.dropEvents()
	}
	if len(runs) > len(ch.runs) {
		ch.all.name(ch, runs[len(ch.runs):])
		ch.runs = slices.Clone(runs)
	}
	if ch.lost || len(events) == 0 {
		return
	}
	ch.log = append(ch.log, Entry{seq, events})
	ch.size += size
	ch.all.size += size
	ch.notify()
}

// End marks the turn as ended. If it is complete, readers end with io.EOF.
func (ch *Stream) End(complete bool) {
	ch.all.mu.Lock()
	defer ch.all.mu.Unlock()
	ch.over, ch.done = true, complete
	ch.notify()
}

// State returns the turn's runs and whether it has ended.
func (ch *Stream) State() (runs []string, over bool) {
	ch.all.mu.Lock()
	defer ch.all.mu.Unlock()
	return ch.runs, ch.over
}

// EntriesFrom returns the entries from index i on, and a channel that is closed at the next
// change. After the last entry, end is how the stream ended; io.EOF means complete.
func (ch *Stream) EntriesFrom(i int) (entries []Entry, more <-chan struct{}, end error) {
	ch.all.mu.Lock()
	defer ch.all.mu.Unlock()
	switch {
	case i < len(ch.log):
		entries = ch.log[i:len(ch.log):len(ch.log)]
	case ch.lost:
		end = frontend.ErrTooLarge
	case ch.done:
		end = io.EOF
	case ch.over:
		end = ErrInterrupted
	}
	return entries, ch.changed, end
}
