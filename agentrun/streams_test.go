package agentrun_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/agentrun"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// How many turns, and bytes of their streams, are remembered.
const (
	maxStreams = 4096
	maxLogs    = 64 << 20
)

// fakeTurn is a fake turn with fixed runs, names and sequence number.
type fakeTurn struct {
	memproxy.Turn
	runs, names []string
	seq         int64
}

func (t *fakeTurn) Runs() []string     { return t.runs }
func (t *fakeTurn) Names() []string    { return t.names }
func (t *fakeTurn) Seq() (int64, bool) { return t.seq, true }
func (t *fakeTurn) Key() string        { return "agent-1" }
func (t *fakeTurn) Agent() string      { return "agent-1" }

func (t *fakeTurn) Cancel() memproxy.SideRequest { return memproxy.SideRequest{} }

// hasEvents reports whether events of the stream are kept.
func hasEvents(ch *agentrun.Stream) bool {
	entries, _, _ := ch.EntriesFrom(0)
	return len(entries) > 0
}

// Kept turns are bounded in number, bytes and time; a forgotten one is requested from
// the backend.
func TestTurnsAreForgotten(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := &agentrun.Streams{Clock: func() time.Time { return now }}
	first := &fakeTurn{runs: []string{"run-first"}, names: []string{"in a"}}
	ch := c.Begin(first)
	ch.Append(first, 1, [][]byte{[]byte("data: 1\n\n")})
	if c.Find("run-first") != ch || c.Find("in a") != ch || c.Find("run-other", "in a") != ch {
		t.Fatal("a turn is not found by its names")
	}
	for i := range maxStreams {
		other := &fakeTurn{runs: []string{fmt.Sprint("run-", i)}, names: []string{"in b"}}
		c.Begin(other).Append(other, 1, nil)
	}
	remembered := func() int { return len(c.Cancelling([]string{"agent-1"})) }
	if n := remembered(); c.Find("run-first") != nil || hasEvents(ch) || n != maxStreams {
		t.Errorf("%d turns are remembered", n)
	}
	now = now.Add(3*time.Hour + time.Second)
	if c.Find("run-1") != nil {
		t.Error("an old turn is remembered")
	}
	c.Begin(first)
	must.Equal(t, remembered(), 1)

	var chs []*agentrun.Stream
	for i := range 8 {
		one := &fakeTurn{runs: []string{fmt.Sprint("big-", i)}, names: []string{fmt.Sprint("in ", i)}}
		ch := c.Begin(one)
		ch.Append(one, 1, [][]byte{big})
		chs = append(chs, ch)
	}
	kept := 0
	for _, ch := range chs {
		if hasEvents(ch) {
			kept += len(big)
		}
	}
	if kept > maxLogs || hasEvents(chs[0]) || !hasEvents(chs[7]) {
		t.Errorf("%d bytes are kept", kept)
	}
	one := &fakeTurn{names: []string{"in x"}}
	ch = c.Begin(one)
	for range 5 {
		ch.Append(one, 1, [][]byte{big})
	}
	if hasEvents(ch) {
		t.Errorf("a stream of %d bytes is kept", 5*len(big))
	}
	if _, _, end := ch.EntriesFrom(0); end != frontend.ErrTooLarge {
		t.Error("who reads a stream that is no longer kept waits for ever")
	}
}

// big is a quarter of maxLogs.
var big = bytes.Repeat([]byte("x"), maxLogs/4)

// Readers are woken when a stream is dropped, for its own size or for that of others.
func TestReadersHearOfLostStreams(t *testing.T) {
	for name, other := range map[string]bool{"it grows too large": false, "others need the room": true} {
		c := &agentrun.Streams{Clock: func() time.Time { return time.Unix(1e9, 0) }}
		one, two := &fakeTurn{names: []string{"in a"}}, &fakeTurn{names: []string{"in b"}}
		ch := c.Begin(one)
		ch.Append(one, 1, [][]byte{big})
		_, more, end := ch.EntriesFrom(1)
		must.Do(t, end, name)
		var all sync.WaitGroup
		all.Go(func() {
			<-more
			for end == nil { // events that were kept before the drop
				_, more, end = ch.EntriesFrom(8)
				if end == nil {
					<-more
				}
			}
		})
		from, said := ch, one
		if other {
			from, said = c.Begin(two), two
		}
		for range 5 {
			from.Append(said, 1, [][]byte{big})
		}
		all.Wait()
		if end != frontend.ErrTooLarge {
			t.Errorf("%s: %v", name, end)
		}
	}
}

// A turn whose backend keeps no stream is found by its runs alone.
func TestUnnamedStreamsAreNotKept(t *testing.T) {
	c := &agentrun.Streams{Clock: time.Now}
	named, one := &fakeTurn{names: []string{"in a"}}, &fakeTurn{runs: []string{"run-1", "run-2"}}
	kept, ch := c.Begin(named), c.Begin(one)
	kept.Append(named, 1, [][]byte{big})
	for range 5 {
		ch.Append(one, 0, [][]byte{big})
	}
	if !hasEvents(kept) || hasEvents(ch) || c.Find("run-2") != ch {
		t.Errorf("of the two, kept are %v and %v", hasEvents(kept), hasEvents(ch))
	}
}

// Proves EDGE-1: a stream read again ends with io.EOF only if its turn completed.
func TestStreamsReadAgainEndAsTheirTurn(t *testing.T) {
	for name, tc := range map[string]struct {
		complete bool
		want     error
	}{"the turn came to its end": {true, io.EOF}, "it broke off": {false, agentrun.ErrInterrupted}} {
		c := &agentrun.Streams{Clock: time.Now}
		one := &fakeTurn{runs: []string{"run-1"}, names: []string{"in a"}}
		ch := c.Begin(one)
		ch.Append(one, 1, [][]byte{[]byte("data: 1\n\n")})
		if entries, _, end := ch.EntriesFrom(0); len(entries) != 1 || end != nil {
			t.Errorf("%s: %v, %v", name, entries, end)
		}
		if _, _, end := ch.EntriesFrom(1); end != nil {
			t.Errorf("it ends while its turn goes on: %v", end)
		}
		ch.End(tc.complete)
		if _, _, end := ch.EntriesFrom(1); end != tc.want {
			t.Errorf("%s: %v", name, end)
		}
	}
}

// Proves EDGE-1: a turn can be cancelled from its first run until it sends no further request.
func TestTurnsAreCancellableWhileTheyGoOn(t *testing.T) {
	c := &agentrun.Streams{Clock: time.Now}
	one := &fakeTurn{}
	ch := c.Begin(one)
	expect.Equal(t, ch.Cancellable(), "", "before its first run")
	one.runs = []string{"run-1", "run-2"}
	ch.Append(one, 0, nil)
	expect.Equal(t, ch.Cancellable(), "run-1", "between its requests")
	turns := c.Cancelling([]string{"run-2", "run-2"})
	must.Len(t, turns, 1, "each turn once")
	ch.Last() // while the backend answers the request to cancel
	expect.Equal(t, ch.Cancellable(), "", "after its last request")
	ch.EndCancel(false)
	expect.Len(t, c.Cancelling([]string{"run-2"}), 0, "after its last request")
}

// Proves EDGE-1: a turn waits for a request that may cancel it for no longer than it may take
// itself.
func TestTurnsWaitForACancellationWithinTheirTime(t *testing.T) {
	c := &agentrun.Streams{Clock: time.Now}
	ch := c.Begin(&fakeTurn{runs: []string{"run-1"}})
	ch.Append(&fakeTurn{runs: []string{"run-1"}}, 0, nil)
	must.Len(t, c.Cancelling([]string{"run-1"}), 1)
	over, end := context.WithCancel(t.Context())
	end()
	if ch.Cancelled(over) {
		t.Error("cancelled before the answer")
	}
	ch.EndCancel(true)
	if !ch.Cancelled(t.Context()) {
		t.Error("not cancelled after the answer")
	}
}
