package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/proxy"
)

// pipes is a listener whose connections are pipes in memory, so that a test can run in
// a synctest bubble, where time advances when all goroutines wait.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	due    time.Time // ends Accept; zero: never
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	ctx, cancel := context.Background(), func() {}
	if !p.due.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, p.due)
	}
	defer cancel()
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, os.ErrDeadlineExceeded
	}
}

// SetDeadline is only for the goroutine that accepts.
func (p *pipes) SetDeadline(t time.Time) error { p.due = t; return nil }

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	return client, p.offer(server)
}

// offer hands the listener a connection.
func (p *pipes) offer(server net.Conn) error {
	select {
	case p.conns <- server:
		return nil
	case <-p.closed:
		return net.ErrClosed
	}
}

// pipeFrom is the server's end of a pipe from an address.
type pipeFrom struct {
	net.Conn
	remote net.TCPAddr
}

func (p *pipeFrom) RemoteAddr() net.Addr { return &p.remote }

// bubble is a rig in a synctest bubble: a client, the product's own listener, and a
// backend, connected by pipes.
type bubble struct {
	stop   func(context.Context) error
	parts  *frontendtest.Parts
	front  *pipes
	client *http.Client
	proxy  *proxy.Proxy
}

// inBubble runs a test in a bubble. The backend is called with each connection and the
// head of its request, and writes the answer.
func inBubble(t *testing.T, change func(*proxy.Options, *gate.Rules), backend func(*http.Request, net.Conn), f func(*testing.T, *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{parts: &frontendtest.Parts{}, front: newPipes()}
		back := newPipes()
		go func() {
			for {
				c, err := back.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					in := bufio.NewReader(c)
					for {
						q, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						if backend(q, c); q.Close {
							return
						}
					}
				}()
			}
		}()
		transport := func() *http.Transport {
			tr := proxy.NewTransport(nil, 0)
			tr.DialContext = back.dial
			return tr
		}
		transports := [...]*http.Transport{transport(), transport(), transport()}
		opt := proxy.Options{
			Backend:   frontend.Backend{Name: "toy", Adapter: frontendtest.Toy{}, Upstream: &url.URL{Scheme: "http", Host: "backend"}},
			Transport: transports[0], PassTransport: transports[1], SideTransport: transports[2],
		}
		rules := frontendtest.Rules(b.parts)
		if change != nil {
			change(&opt, &rules)
		}
		opt.Gate = frontendtest.NewGate(t, b.parts, &rules)
		b.proxy = must.Get(proxy.New(opt))(t)
		b.stop, _ = proxy.Serve(b.front, proxy.ServerOptions{Handler: b.proxy, Cut: b.proxy.AbortAll})
		in := &http.Transport{DialContext: b.front.dial, DisableCompression: true}
		b.client = &http.Client{Transport: in}
		f(t, b)
		in.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		expect.OK(t, b.stop(ctx))
		expect.OK(t, b.proxy.Close(ctx))
		for _, tr := range transports {
			tr.CloseIdleConnections()
		}
		back.Close()
		synctest.Wait()
	})
}

// ask sends a request with headers, and returns the answer, its body, and the error
// that ended it.
func (b *bubble) ask(t *testing.T, method, path string, body io.Reader, header ...string) (*http.Response, string, error) {
	t.Helper()
	q := must.Get(http.NewRequestWithContext(t.Context(), method, "http://memproxy"+path, body))(t)
	q.Header.Set("Content-Type", "application/octet-stream")
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	resp, err := b.client.Do(q)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	return resp, string(said), err
}
