package proxy

import (
	"context"
	"io"

	"github.com/memproxy/memproxy/face"
)

// events reads a stream of server-sent events one by one.
type events struct {
	in    io.Reader
	split face.Events
	piece []byte
	ready [][]byte    // read, and not returned yet
	err   error       // what ends the stream after those
	lease *face.Lease // accounts for the memory of large events
	held  int64       // by the lease before
}

func newEvents(r io.Reader, max int64, lease *face.Lease) *events {
	return &events{in: r, split: face.Events{Max: max}, piece: make([]byte, 16<<10), lease: lease, held: lease.Holds()}
}

// next returns one event with the blank line that ends it, unchanged.
func (e *events) next(ctx context.Context) ([]byte, error) {
	e.lease.Keep(e.held)
	taken := int64(len(e.piece)) // what needs no account
	for len(e.ready) == 0 && e.err == nil {
		n, err := e.in.Read(e.piece)
		if size := e.split.Held() + int64(n); size > taken { // it doubles, at least
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
