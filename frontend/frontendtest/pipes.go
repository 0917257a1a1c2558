package frontendtest

import (
	"context"
	"net"
	"os"
	"sync"
	"time"
)

// Pipes is a listener in memory, with deadlines like the kernel's, whose connections are
// pipes, so that a test can run in a synctest bubble, where time advances when all
// goroutines wait.
type Pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
	due    time.Time // ends Accept; zero: never
}

// NewPipes returns a listener at which so many connections wait to be accepted.
func NewPipes(backlog int) *Pipes {
	p := &Pipes{conns: make(chan net.Conn, backlog), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

// SetDeadline is only for the goroutine that accepts.
func (p *Pipes) SetDeadline(t time.Time) error { p.due = t; return nil }

// Close ends Accept and Offer.
func (p *Pipes) Close() error { p.close(); return nil }

// Addr is a fixed address.
func (p *Pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

// Accept returns the next connection.
func (p *Pipes) Accept() (net.Conn, error) {
	ctx, cancel := context.Background(), func() {}
	if !p.due.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, p.due)
	}
	defer cancel()
	select {
	case <-p.closed:
		return nil, net.ErrClosed
	case c := <-p.conns:
		return c, nil
	case <-ctx.Done():
		return nil, os.ErrDeadlineExceeded
	}
}

// Offer hands the listener the server's end of a connection from an address.
func (p *Pipes) Offer(server net.Conn, from net.Addr) error {
	select {
	case p.conns <- PipeEnd{server, p.Addr(), from}:
		return nil
	case <-p.closed:
		return net.ErrClosed
	}
}

// Dial connects to the listener, as http.Transport.DialContext.
func (p *Pipes) Dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	return client, p.Offer(server, server.RemoteAddr())
}

// PipeEnd is one end of a pipe, with the addresses of a connection.
type PipeEnd struct {
	net.Conn
	Local, Remote net.Addr
}

func (e PipeEnd) LocalAddr() net.Addr  { return e.Local }
func (e PipeEnd) RemoteAddr() net.Addr { return e.Remote }
