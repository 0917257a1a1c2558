package ledger

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	// postgresReaders is how many queries a proxy asks at once.
	postgresReaders = 8
	// postgresLifetime is how long a connection is used, so that the proxies
	// of a fleet come to a new primary by themselves.
	postgresLifetime = 5 * time.Minute
)

// connectPostgres opens one connection for the writer and a few for readers.
// Nothing is connected before it is needed.
func (s *store) connectPostgres(ctx context.Context) error {
	config, err := pgx.ParseConfig(s.opt.URL)
	if err != nil {
		return errors.New("not the URL of a Postgres database") // the error could quote the password
	}
	config.ConnectTimeout = s.opt.Timeout
	config.DialFunc = newCircuit(s.opt.Timeout).dial(config.DialFunc)
	config.RuntimeParams["application_name"] = "memproxy"
	s.writer = stdlib.OpenDB(*config)
	s.writer.SetMaxOpenConns(1)
	s.writer.SetConnMaxLifetime(postgresLifetime)
	reads := config.Copy()
	reads.RuntimeParams["default_transaction_read_only"] = "on"
	s.reader = stdlib.OpenDB(*reads)
	s.reader.SetMaxOpenConns(postgresReaders)
	s.reader.SetMaxIdleConns(postgresReaders)
	s.reader.SetConnMaxLifetime(postgresLifetime)
	return s.writer.PingContext(ctx)
}

// transient reports whether a transaction failed only because of another one:
// nothing of it was done, and it may be tried again.
func transient(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && strings.HasPrefix(pe.Code, "40") // deadlock, serialization
}

// ErrAway: the database did not answer in time a moment ago, and is left alone
// for a while.
var ErrAway = errors.New("ledger: the database does not answer")

// leftAlone is how long a database that did not answer is left alone. Then one
// call asks it again.
const leftAlone = 2 * time.Second

// circuit keeps a database that is frozen from costing every call its whole
// deadline: the first that it leaves without an answer is the last that waits
// for it, but for one from time to time, until it answers again. So a request
// that asks it ten times waits once.
//
// It is at the connections and not at the calls, so that no call can go round
// it: what is to be sent is refused at once, and so are new connections.
type circuit struct {
	patience time.Duration // a wait that breaks off after less says nothing of the database
	now      func() time.Time

	mu    sync.Mutex
	open  bool
	until time.Time // nobody asks before
}

// newCircuit is for calls that last as long as timeout at most.
func newCircuit(timeout time.Duration) *circuit {
	return &circuit{patience: timeout / 2, now: time.Now}
}

// ask reports whether the database may be asked.
func (c *circuit) ask() error {
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
func (c *circuit) waited(since time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	switch {
	case err == nil:
		c.open = false
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded):
		if now.Sub(since) >= c.patience {
			c.open, c.until = true, now.Add(leftAlone)
		}
	}
}

// dial connects through the circuit.
func (c *circuit) dial(next pgconn.DialFunc) pgconn.DialFunc {
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
		made := &circuitConn{Conn: conn, circuit: c}
		made.asked.Store(true) // what a connection is made for may be asked on it
		return made, nil
	}
}

// circuitConn is a connection on which nothing is asked while the circuit is
// open.
type circuitConn struct {
	net.Conn
	*circuit
	asked atomic.Bool // its question was let through, and what belongs to it is
}

func (c *circuitConn) Write(b []byte) (int, error) {
	if !c.asked.Load() {
		if err := c.ask(); err != nil {
			return 0, err
		}
		c.asked.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *circuitConn) Read(b []byte) (int, error) {
	since := c.now()
	n, err := c.Conn.Read(b)
	c.asked.Store(false)
	if n > 0 { // it answers, whatever comes after
		c.waited(since, nil)
	} else {
		c.waited(since, err)
	}
	return n, err
}

// Ping asks the database whether it can be read and written. On a file it waits for
// what is queued.
func (l *Ledger) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	var one int
	if err := l.reader.QueryRowContext(ctx, `SELECT 1`).Scan(&one); err != nil {
		return l.wrap("ask whether it answers", err)
	}
	return l.do(ctx, &job{also: func(t *transaction) error {
		_, err := t.run(`UPDATE redo SET applied = applied`) // an empty transaction needs no room
		return err
	}})
}
