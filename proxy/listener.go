package proxy

import (
	"container/list"
	"net"
	"time"
)

// Bounds of writing to a client.
const (
	// DefaultWriteTimeout is how long a client may take nothing of what is
	// written to it.
	DefaultWriteTimeout = 30 * time.Second
	// writePiece is the most that is written under one deadline, in bytes.
	writePiece = 64 << 10
	// slowest is the slowest pace, in bytes a second, at which a body may come
	// in the long run, or one piece of an answer go out.
	slowest = 32 << 10
)

// boundedListener bounds its connections, in number and in what they may take
// in time.
type boundedListener struct {
	net.Listener
	stall time.Duration
	conns conns
}

// boundedConn cuts off a reader that takes nothing: every write has a deadline
// of its own. How long nothing is written, because the backend has nothing to
// say, does not count.
type boundedConn struct {
	net.Conn
	stall time.Duration

	conns   *conns
	peer    string
	counted bool
	in      [2]*list.List // where it stands, or nil
	place   place
}

// Write writes b piece by piece, each in time and all of them at a pace.
func (c *boundedConn) Write(b []byte) (written int, err error) {
	now := time.Now()
	last := now.Add(c.stall + time.Duration(len(b))*time.Second/slowest)
	for {
		piece := b[:min(len(b), writePiece)]
		deadline := now.Add(c.stall)
		if deadline.After(last) {
			deadline = last
		}
		if err := c.SetWriteDeadline(deadline); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(piece)
		written += n
		if b = b[n:]; err != nil || len(b) == 0 {
			return written, err
		}
		now = time.Now()
	}
}

// CloseWrite lets the server close in two steps, so that a client that is
// still sending reads its answer.
func (c *boundedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
