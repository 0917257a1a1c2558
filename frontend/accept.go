package frontend

import (
	"container/list"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// Limits of the queue of a full listener.
const (
	// maxWaiting limits the connections that wait for a slot. Each costs one file
	// descriptor, and no more.
	maxWaiting = 16 << 10
	// spareFiles is the number of file descriptors left for everything else.
	spareFiles = 2048
	// maxQueueTime is how long a connection waits.
	maxQueueTime = 10 * time.Second
	// evictInterval is the average interval between two connections that are closed to make
	// room, and evictBurst how many may be closed at once (token bucket).
	evictInterval = time.Millisecond
	evictBurst    = 64
)

// queue has the connections that wait for a slot in a full listener. It is last in, first
// out: clients that flood a listener fill the queue and wait there instead of
// reconnecting, and a client that connects once is served at once. Only Accept uses it.
type queue struct {
	most         int
	waiting      list.List // of *Conn, newest first
	nextEviction time.Time // when the next connection may be closed to make room
}

// queueFor returns the queue of a listener with a limit of connections. Without spare
// file descriptors there is no queue, and connections without a slot are closed.
func queueFor(ln net.Listener, connections int) queue {
	if _, ok := ln.(interface{ SetDeadline(time.Time) error }); !ok {
		return queue{} // without a deadline, Accept would not return to the waiting connections
	}
	return queue{most: max(0, min(maxWaiting, maxOpenFiles()-spareFiles-connections))}
}

// maxOpenFiles returns the number of file descriptors that the process may have open. The Go
// runtime raises the soft limit to the hard one.
func maxOpenFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<30)) // the limit may be infinite
}

// filesPerConnection is how many file descriptors the process needs for each connection
// that its listeners may have: for each backend one for the client's connection and one for
// that to the backend, and one for everything else.
func filesPerConnection(backends int) int { return 2*max(1, backends) + 1 }

// FileLimitWarning returns a sentence for the operator if the process may not open enough
// files for the limit of connections, so that each listener accepts fewer; else "". The
// process has one listener for each backend.
func FileLimitWarning(connections, backends int) string {
	each := filesPerConnection(backends)
	if maxOpenFiles() >= each*connections {
		return ""
	}
	return fmt.Sprintf("limits.connections (%d) needs %d open files and this process may have %d, so each listener takes %d connections; raise the hard limit of open files (RLIMIT_NOFILE)",
		connections, each*connections, maxOpenFiles(), max(1, maxOpenFiles()/each))
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		now := time.Now()
		if c := l.next(now); c != nil {
			return c, nil
		}
		l.setAcceptDeadline(now)
		nc, err := l.Listener.Accept()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case errors.Is(err, net.ErrClosed):
			for e := l.queue.waiting.Back(); e != nil; e = l.queue.waiting.Back() {
				l.reset(e)
			}
			return nil, err
		case err != nil:
			return nil, err
		}
		c := &Conn{Conn: nc, stall: l.WriteTimeout, conns: &l.conns, peer: Peer(nc.RemoteAddr().String()), arrived: now}
		if l.takeSlot(c, now) {
			return c, nil
		}
		l.queue.waiting.PushFront(c)
		if l.queue.waiting.Len() > l.queue.most {
			l.reset(l.queue.waiting.Back())
		}
	}
}

// setAcceptDeadline limits the wait for the next connection while others wait for a slot.
func (l *Listener) setAcceptDeadline(now time.Time) {
	var deadline time.Time
	if l.queue.waiting.Len() > 0 {
		deadline = now.Add(evictInterval)
	}
	if timed, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		_ = timed.SetDeadline(deadline) // Accept also returns the error of a closed listener
	}
}

// next returns the newest waiting connection, if there is a slot for it.
func (l *Listener) next(now time.Time) *Conn {
	q := &l.queue
	for e := q.waiting.Back(); e != nil && now.Sub(e.Value.(*Conn).arrived) > maxQueueTime; e = q.waiting.Back() {
		l.reset(e)
	}
	e := q.waiting.Front()
	if e == nil || !l.takeSlot(e.Value.(*Conn), now) {
		return nil
	}
	return q.waiting.Remove(e).(*Conn)
}

// takeSlot gives a connection a slot, if one is free or can be freed by closing another
// connection.
func (l *Listener) takeSlot(c *Conn, now time.Time) bool {
	evict := !l.conns.keep && !l.queue.nextEviction.After(now)
	ok, over := l.conns.admit(c, evict)
	if over != nil {
		if early := now.Add(-evictBurst * evictInterval); l.queue.nextEviction.Before(early) {
			l.queue.nextEviction = early
		}
		l.queue.nextEviction = l.queue.nextEviction.Add(evictInterval)
		_ = over.Conn.Close() // it is no longer counted
	}
	return ok
}

func (l *Listener) reset(e *list.Element) {
	c := l.queue.waiting.Remove(e).(*Conn)
	l.conns.refused.Add(1)
	if t, is := c.Conn.(*net.TCPConn); is {
		_ = t.SetLinger(0) // reset, so that the kernel keeps no state for the connection
	}
	_ = c.Conn.Close()
}
