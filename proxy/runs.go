package proxy

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
)

// errBroke ends the stream of a turn that did not come to its end.
var errBroke = errors.New("the turn broke off")

// Bounds of what is remembered of turns.
const (
	// chainTime is how long a turn is remembered: as long as Letta keeps the
	// stream of a background run.
	chainTime = 3 * time.Hour
	maxChains = 4096
	// maxLogs bounds the streams that are kept, all together.
	maxLogs = 64 << 20
)

// chains remember turns under the runs of their legs and under the names that
// their streams are asked for by.
type chains struct {
	clock func() time.Time

	mu     sync.Mutex
	byName map[string]*chain
	order  []*chain // by age
	size   int
}

// chain is one turn: the runs that the backend knows it by and, where the
// backend would keep it, the stream as the caller sees it.
type chain struct {
	all   *chains
	begun time.Time
	kept  bool // the stream is kept
	names []string

	mu      sync.Mutex
	runs    []string
	log     []entry
	size    int
	lost    bool // the stream grew too large to keep
	over    bool
	done    bool          // it came to its end, and left no pause
	changed chan struct{} // closed at the next change
}

// entry is what one event of the backend became for the caller.
type entry struct {
	seq    int64 // 0: one without a number, at the end
	events [][]byte
}

// begin remembers a turn that starts.
func (c *chains) begin(t memproxy.Resumable) *chain {
	now := c.clock()
	ch := &chain{all: c, begun: now, names: t.Names(), changed: make(chan struct{})}
	ch.kept = len(ch.names) > 0
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.order) > 0 && (len(c.order) >= maxChains || now.Sub(c.order[0].begun) > chainTime) {
		c.forget(0)
	}
	c.order = append(c.order, ch)
	c.name(ch, ch.names)
	return ch
}

// name makes a chain known under names; of two the newer one is meant.
func (c *chains) name(ch *chain, names []string) {
	if c.byName == nil {
		c.byName = map[string]*chain{}
	}
	for _, n := range names {
		c.byName[n] = ch
	}
}

// forget drops a chain; the lock is held.
func (c *chains) forget(i int) {
	ch := c.order[i]
	c.order = append(c.order[:i:i], c.order[i+1:]...)
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for _, n := range append(ch.names, ch.runs...) {
		if c.byName[n] == ch {
			delete(c.byName, n)
		}
	}
	c.size -= ch.size
	ch.size, ch.log, ch.lost = 0, nil, true
}

// find returns the first chain that goes by one of the names, or nil.
func (c *chains) find(names ...string) *chain {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range names {
		if ch := c.byName[n]; ch != nil && c.clock().Sub(ch.begun) <= chainTime {
			return ch
		}
	}
	return nil
}

// note takes down what a turn sent, and the runs that it has by now.
func (ch *chain) note(t memproxy.Resumable, seq int64, events [][]byte) {
	runs := t.Runs()
	size := 0
	for _, e := range events {
		size += len(e)
	}
	if !ch.kept {
		size = 0
	}
	ch.all.mu.Lock()
	defer ch.all.mu.Unlock()
	for ch.all.size+size > maxLogs && len(ch.all.order) > 0 && ch.all.order[0] != ch {
		ch.all.forget(0)
	}
	if ch.all.size+size > maxLogs && !ch.lost {
		ch.all.size -= ch.size
		ch.lost, ch.size, ch.log = true, 0, nil
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if len(runs) > len(ch.runs) {
		ch.all.name(ch, runs[len(ch.runs):])
		ch.runs = append([]string(nil), runs...)
	}
	if ch.lost || !ch.kept || len(events) == 0 {
		return
	}
	ch.log = append(ch.log, entry{seq, events})
	ch.size += size
	ch.all.size += size
	close(ch.changed)
	ch.changed = make(chan struct{})
}

// end says that the turn is over.
func (ch *chain) end() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if !ch.over {
		ch.over = true
		close(ch.changed)
		ch.changed = make(chan struct{})
	}
}

// finish says that the turn came to its end.
func (ch *chain) finish() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.done = true
}

// ended reports whether a run is of a turn of this process that came to its
// end.
func (c *chains) ended(run string) bool {
	ch := c.find(run)
	if ch == nil {
		return false
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.done
}

// state is what is known of the turn now: its runs, and whether it is over.
func (ch *chain) state() (runs []string, over bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.runs, ch.over
}

// from returns the log's entries from one on, and what is closed when there are
// more. After the last it says how the stream ended: io.EOF is its end.
func (ch *chain) from(i int) (entries []entry, more <-chan struct{}, end error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	switch {
	case i < len(ch.log):
		entries = ch.log[i:len(ch.log):len(ch.log)]
	case ch.lost:
		end = face.ErrTooLarge
	case ch.done:
		end = io.EOF
	case ch.over:
		end = errBroke
	}
	return entries, ch.changed, end
}

// readable reports whether the stream can be read again.
func (ch *chain) readable() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.kept && !ch.lost
}
