package proxy

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"slices"

	"github.com/memproxy/memproxy/face"
)

// events splits a stream of server-sent events (WHATWG HTML, section 9.2) at the
// blank lines between them, for every kind of line ending.
type events struct {
	in    *bufio.Reader
	max   int64
	lease *face.Lease // accounts for the memory of large events
	held  int64       // by the lease before
}

func newEvents(r io.Reader, max int64, lease *face.Lease) *events {
	return &events{bufio.NewReaderSize(r, 16<<10), max, lease, lease.Holds()}
}

// next returns one event with the blank line that ends it, unchanged. The slice is
// valid until the next call.
func (e *events) next(ctx context.Context) ([]byte, error) {
	e.lease.Keep(e.held)
	var event []byte
	for {
		line, err := e.in.ReadSlice('\n')
		if n := len(event) + len(line); n > cap(event) && n > 16<<10 { // it doubles, at least
			if err := e.lease.Grow(ctx, 2*int64(n)); err != nil {
				return nil, err
			}
			event = slices.Grow(event, 2*n-len(event))
		}
		event = append(event, line...)
		if int64(len(event)) > e.max {
			return nil, face.ErrTooLarge
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && len(bytes.TrimSpace(event)) > 0:
			return event, nil // a last event without a blank line
		case err != nil:
			return nil, err
		}
		before := event[:len(event)-len(line)]
		switch blank := len(bytes.TrimRight(line, "\r\n")) == 0; {
		case blank && len(before) == 0:
			event = before // a blank line more than needed
		case blank && before[len(before)-1] == '\n':
			return event, nil
		}
	}
}
