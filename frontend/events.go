package frontend

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/memproxy/memproxy"
)

// EventStream reports whether an answer is a stream of server-sent events, by its media
// type.
func EventStream(h http.Header) bool {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(media), "text/event-stream")
}

// StreamEndOf returns how a stream ended by the error that ended it; nil and io.EOF are
// its regular end.
func StreamEndOf(err error) memproxy.StreamEnd {
	switch {
	case err == nil, err == io.EOF:
		return memproxy.StreamWhole
	case errors.Is(err, ErrTooLarge):
		return memproxy.StreamTooLarge
	case errors.Is(err, ErrBusy):
		return memproxy.StreamNoRoom
	}
	return memproxy.StreamTorn
}

// Events splits a stream of server-sent events (WHATWG HTML, section 9.2) at the blank
// lines between them, however the stream is cut into pieces. The zero value has no size
// limit.
type Events struct {
	// Max is the maximum size of one event in bytes; 0 is no limit.
	Max int64

	buf  []byte
	line int // offset in buf of the incomplete line
	seen int // offset in buf up to which no line ends
}

// Feed takes the next bytes of the stream and returns the complete events, each unchanged
// and with the blank line that ends it. The caller owns the slices.
func (e *Events) Feed(b []byte) (events [][]byte, err error) {
	e.buf = append(e.buf, b...)
	for {
		n := bytes.IndexByte(e.buf[e.seen:], '\n')
		if n < 0 {
			e.seen = len(e.buf)
			if e.Max > 0 && int64(len(e.buf)) > e.Max {
				return events, ErrTooLarge
			}
			return events, nil
		}
		next := e.seen + n + 1
		switch blank := len(bytes.TrimRight(e.buf[e.line:next], "\r\n")) == 0; {
		case !blank:
			e.line, e.seen = next, next
			continue
		case e.line > 0: // else it is a redundant blank line
			if e.Max > 0 && int64(next) > e.Max {
				return events, ErrTooLarge
			}
			events = append(events, bytes.Clone(e.buf[:next]))
		}
		e.buf, e.line, e.seen = e.buf[next:], 0, 0
	}
}

// Pending returns the number of bytes of the incomplete event.
func (e *Events) Pending() int64 { return int64(len(e.buf)) }

// Rest returns the remainder at the end of the stream: an event without its blank line,
// or none.
func (e *Events) Rest() (events [][]byte) {
	if len(bytes.TrimSpace(e.buf)) > 0 {
		events = [][]byte{e.buf}
	}
	e.buf, e.line, e.seen = nil, 0, 0
	return events
}

// EventReader reads a stream of server-sent events one by one.
type EventReader struct {
	in    io.Reader
	split Events
	piece []byte
	ready [][]byte // read, and not returned yet
	err   error    // error to return after the ready events
	lease *Lease   // accounts for the memory of large events
	held  int64    // bytes that the lease had before
}

// SmallPiece is how many bytes of a stream may be in memory without being counted.
const SmallPiece = 16 << 10

// NewEventReader reads events of at most max bytes. The lease may be nil.
func NewEventReader(r io.Reader, max int64, lease *Lease) *EventReader {
	return &EventReader{in: r, split: Events{Max: max}, piece: make([]byte, SmallPiece), lease: lease, held: lease.Holds()}
}

// Next returns one event with the blank line that ends it, unchanged.
func (e *EventReader) Next(ctx context.Context) ([]byte, error) {
	e.lease.Keep(e.held)
	taken := int64(SmallPiece)
	for len(e.ready) == 0 && e.err == nil {
		n, err := e.in.Read(e.piece)
		if size := e.split.Pending() + int64(n); size > taken { // the count at least doubles
			taken = 2 * size
			if err := e.lease.Grow(ctx, taken); err != nil {
				return nil, err
			}
		}
		if e.ready, e.err = e.split.Feed(e.piece[:n]); e.err == nil {
			e.err = err
		}
		if e.err == io.EOF {
			e.ready = append(e.ready, e.split.Rest()...)
		}
	}
	if len(e.ready) == 0 {
		return nil, e.err
	}
	event := e.ready[0]
	e.ready = e.ready[1:]
	return event, nil
}
