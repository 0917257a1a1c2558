package frontend

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/memproxy/memproxy"
)

// A server may close a connection after an internal error without announcing that, as
// uvicorn does after an exception. A request that is sent meanwhile is lost, and a write
// must not be repeated. memproxy therefore closes the connection at the end of such an
// answer and sends nothing on it until then: a Write that fails before its first byte
// makes the transport use another connection, if it can get the body again (GetBody).

// Dial wraps a dial function so that its connections are not reused after an internal
// error of the server.
func Dial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &upstreamConn{Conn: c}, nil
	}
}

type upstreamConn struct {
	net.Conn
	failed atomic.Bool // the server answered with an internal error
}

func (c *upstreamConn) Write(p []byte) (int, error) {
	if c.failed.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// UnsentError is the error of a request that was certainly not sent to the backend, and so
// can be repeated.
type UnsentError struct{ Err error }

func (e UnsentError) Error() string { return e.Err.Error() }
func (e UnsentError) Unwrap() error { return e.Err }

// RoundTrip sends a request. The error is an UnsentError if no connection could be made.
// If the answer is an internal error of the server, nothing more is sent on its
// connection. An answer without a body is excluded: its connection may already be in use
// by another request.
func (f noUpgrade) RoundTrip(r *http.Request) (*http.Response, error) {
	var on net.Conn
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { on = got.Conn }})
	resp, err := f.next.RoundTrip(r.WithContext(ctx))
	if wire := (*net.OpError)(nil); errors.As(err, &wire) && wire.Op == "dial" {
		return nil, UnsentError{fmt.Errorf("%w: %w", memproxy.ErrAway, err)}
	}
	if err == nil && resp.StatusCode < http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the backend returned status %d, which is not a final response", resp.StatusCode)
	}
	if err != nil || resp.StatusCode < http.StatusInternalServerError || resp.ProtoMajor > 1 || resp.ContentLength == 0 {
		return resp, err
	}
	if secured, ok := on.(*tls.Conn); ok {
		on = secured.NetConn()
	}
	if c, ok := on.(*upstreamConn); ok {
		c.failed.Store(true)
		resp.Body = &lastBody{resp.Body, c}
	}
	return resp, nil
}

type lastBody struct {
	io.ReadCloser
	on net.Conn
}

func (b *lastBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.on.Close()
	}
	return n, err
}

func (b *lastBody) Close() error {
	defer b.on.Close()
	return b.ReadCloser.Close()
}

// SetBody gives a request a body that the transport can send again on another connection,
// if it has sent nothing yet.
func SetBody(r *http.Request, body []byte) {
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	r.ContentLength = int64(len(body))
}
