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
	// waitMost is how long a connection waits.
	waitMost = 10 * time.Second
	// evictEach is the average interval between two connections that are closed to make
	// room, and evictBurst how many may be closed at once (token bucket).
	evictEach  = time.Millisecond
	evictBurst = 64
)

// queue has the connections that wait for a slot in a full listener. It is last in, first
// out: clients that flood a listener fill the queue and wait there instead of
// reconnecting, and a client that connects once is served at once. Only Accept uses it.
type queue struct {
	most    int
	waiting list.List // of *Conn, newest first
	evicts  time.Time // when the next connection may be closed to make room
}

// queueFor returns the queue of a listener with a limit of connections. Without spare
// file descriptors there is no queue, and connections without a slot are closed.
func queueFor(ln net.Listener, connections int) queue {
	if _, ok := ln.(interface{ SetDeadline(time.Time) error }); !ok {
		return queue{} // without a deadline, Accept would not return to the waiting connections
	}
	return queue{most: max(0, min(maxWaiting, files()-spareFiles-connections))}
}

// files returns the number of file descriptors that the process may have open. The Go
// runtime raises the soft limit to the hard one.
func files() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<30)) // the limit may be infinite
}

// filesEach is how many file descriptors a process needs for each of the connections that a
// listener may have: for each listener of a backend one for it and one for its connection to
// the backend, and one for everything else.
func filesEach(backends int) int { return 2*max(1, backends) + 1 }

// FilesShort says that a listener takes fewer connections than the limit, because the
// process, which has a listener for each of the backends, may not open enough files, or "".
func FilesShort(connections, backends int) string {
	each := filesEach(backends)
	if files() >= each*connections {
		return ""
	}
	return fmt.Sprintf("limits.connections (%d) needs %d open files and this process may have %d, so each listener takes %d connections; raise the hard limit of open files (RLIMIT_NOFILE)",
		connections, each*connections, files(), max(1, files()/each))
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
				l.turnAway(e)
			}
			return nil, err
		case err != nil:
			return nil, err
		}
		remote := nc.RemoteAddr().String()
		c := &Conn{Conn: nc, stall: l.stall, conns: &l.conns, remote: remote, peer: Peer(remote), came: now}
		if l.takeSlot(c, now) {
			return c, nil
		}
		l.queue.waiting.PushFront(c)
		if l.queue.waiting.Len() > l.queue.most {
			l.turnAway(l.queue.waiting.Back())
		}
	}
}

// setAcceptDeadline limits the wait for the next connection while others wait for a slot.
func (l *Listener) setAcceptDeadline(now time.Time) {
	var deadline time.Time
	if l.queue.waiting.Len() > 0 {
		deadline = now.Add(evictEach)
	}
	if timed, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		_ = timed.SetDeadline(deadline) // Accept also returns the error of a closed listener
	}
}

// next returns the newest waiting connection, if there is a slot for it.
func (l *Listener) next(now time.Time) *Conn {
	q := &l.queue
	for e := q.waiting.Back(); e != nil && now.Sub(e.Value.(*Conn).came) > waitMost; e = q.waiting.Back() {
		l.turnAway(e)
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
	evict := !l.conns.keep && !l.queue.evicts.After(now)
	ok, over := l.conns.admit(c, evict)
	if over != nil {
		if early := now.Add(-evictBurst * evictEach); l.queue.evicts.Before(early) {
			l.queue.evicts = early
		}
		l.queue.evicts = l.queue.evicts.Add(evictEach)
		_ = over.Conn.Close() // it is no longer counted
	}
	return ok
}

// turnAway closes a connection that waited too long.
func (l *Listener) turnAway(e *list.Element) {
	c := l.queue.waiting.Remove(e).(*Conn)
	l.conns.mu.Lock()
	l.conns.refused++
	l.conns.mu.Unlock()
	if t, is := c.Conn.(*net.TCPConn); is {
		_ = t.SetLinger(0) // reset, so that the kernel keeps no state for the connection
	}
	_ = c.Conn.Close()
}
