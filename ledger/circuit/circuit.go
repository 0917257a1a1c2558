// Package circuit breaks the circuit to a database that does not answer.
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

// ErrAway: the database did not answer in time a moment ago, and is left alone
// for a while.
var ErrAway = errors.New("the database does not answer")

// leftAlone is how long a database that did not answer is left alone. Then one
// call asks it again.
const leftAlone = 2 * time.Second

// Breaker keeps a database that is frozen from costing every call its whole
// deadline: the first that it leaves without an answer is the last that waits
// for it, but for one from time to time, until it answers again. So a request
// that asks it ten times waits once.
//
// It is at the connections and not at the calls, so that no call can go round
// it: what is to be sent is refused at once, and so are new connections.
type Breaker struct {
	patience time.Duration // a wait that breaks off after less says nothing of the database
	now      func() time.Time

	mu    sync.Mutex
	open  bool
	until time.Time // nobody asks before
}

// New is for calls that last as long as timeout at most.
func New(timeout time.Duration) *Breaker {
	return &Breaker{patience: timeout / 2, now: time.Now}
}

// ask reports whether the database may be asked.
func (c *Breaker) ask() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open {
		return nil
	}
	now := c.now()
	if now.Before(c.until) {
		return ErrAway
	}
	c.until = now.Add(leftAlone) // this one asks for all
	return nil
}

// waited records how a wait for the database ended. Callers who give up say
// nothing of it, unless it has had the time of a call by then.
func (c *Breaker) waited(since time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	late := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
	if err == nil {
		c.open = false
	} else if late && now.Sub(since) >= c.patience {
		c.open, c.until = true, now.Add(leftAlone)
	}
}

// Dial connects through the circuit.
func (c *Breaker) Dial(next Dial) Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := c.ask(); err != nil {
			return nil, err
		}
		since := c.now()
		conn, err := next(ctx, network, addr)
		if err != nil {
			c.waited(since, err)
			return nil, err
		}
		made := &guarded{Conn: conn, breaker: c}
		made.asked.Store(true) // what a connection is made for may be asked on it
		return made, nil
	}
}

// guarded is a connection on which nothing is asked while the circuit is
// open.
type guarded struct {
	net.Conn
	breaker *Breaker
	asked   atomic.Bool // its question was let through, and what belongs to it is
}

func (c *guarded) Write(b []byte) (int, error) {
	if !c.asked.Load() {
		if err := c.breaker.ask(); err != nil {
			return 0, err
		}
		c.asked.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *guarded) Read(b []byte) (int, error) {
	since := c.breaker.now()
	n, err := c.Conn.Read(b)
	c.asked.Store(false)
	if n > 0 { // it answers, whatever comes after
		c.breaker.waited(since, nil)
	} else {
		c.breaker.waited(since, err)
	}
	return n, err
}
