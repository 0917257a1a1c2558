// Package circuit is a circuit breaker for a database that does not answer.
package circuit

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Dial opens a connection, as (*net.Dialer).DialContext does.
type Dial = func(ctx context.Context, network, addr string) (net.Conn, error)

// ErrOpen means that the database did not answer just now, so that no call is made for a
// while.
var ErrOpen = errors.New("the database does not answer")

// openFor is how long the circuit stays open after the database did not answer. Then
// one call is let through as a probe.
const openFor = 2 * time.Second

// Breaker spares calls the wait for a frozen database. Once one call has waited for its
// deadline in vain, the circuit is open: further calls fail at once, except for a probe
// from time to time, until the database answers again. A request that makes ten calls
// waits only once.
//
// Breaker works on connections and not on calls, so that no call can bypass it: while
// the circuit is open, writes to connections and new connections fail at once.
type Breaker struct {
	minWait time.Duration // a wait that ends earlier says nothing about the database
	now     func() time.Time

	mu    sync.Mutex
	open  bool
	until time.Time // while open, no call is let through before
}

// New returns a Breaker for calls of at most timeout.
func New(timeout time.Duration) *Breaker {
	return &Breaker{minWait: timeout / 2, now: time.Now}
}

// allow returns ErrOpen while the circuit is open, except for a probe.
func (c *Breaker) allow() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open {
		return nil
	}
	now := c.now()
	if now.Before(c.until) {
		return ErrOpen
	}
	c.until = now.Add(openFor) // the caller is the probe
	return nil
}

// recordWait records how a wait for the database ended. A caller that gave up says nothing
// about the database, unless it had waited for half of a call's timeout.
func (c *Breaker) recordWait(since time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	late := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
	if err == nil {
		c.open = false
	} else if late && now.Sub(since) >= c.minWait {
		c.open, c.until = true, now.Add(openFor)
	}
}

// Dial returns a dialer that connects through the circuit.
func (c *Breaker) Dial(next Dial) Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := c.allow(); err != nil {
			return nil, err
		}
		since := c.now()
		conn, err := next(ctx, network, addr)
		if err != nil {
			c.recordWait(since, err)
			return nil, err
		}
		made := &guarded{Conn: conn, breaker: c}
		made.allowed.Store(true) // the request that the connection was opened for may be sent
		return made, nil
	}
}

// guarded is a connection on which no new request is sent while the circuit is open.
type guarded struct {
	net.Conn
	breaker *Breaker
	allowed atomic.Bool // the request in progress was let through, so its further writes are too
}

func (c *guarded) Write(b []byte) (int, error) {
	if !c.allowed.Load() {
		if err := c.breaker.allow(); err != nil {
			_ = c.Conn.Close() // so that the database rolls the transaction back and releases its locks
			return 0, err
		}
		c.allowed.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *guarded) Read(b []byte) (int, error) {
	since := c.breaker.now()
	n, err := c.Conn.Read(b)
	c.allowed.Store(false)
	if n > 0 { // the database answers, whatever the error is
		c.breaker.recordWait(since, nil)
	} else {
		c.breaker.recordWait(since, err)
	}
	return n, err
}
