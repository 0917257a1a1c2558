package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
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

// bubble is a rig in a synctest bubble: a client, the product's own listener, and a
// backend, connected by pipes.
type bubble struct {
	stop   func(context.Context) error
	parts  *frontendtest.Parts
	front  *frontendtest.Pipes
	client *http.Client
	proxy  *proxy.Proxy
}

// inBubble runs a test in a bubble. The backend is called with each connection and the
// head of its request, and writes the answer.
func inBubble(t *testing.T, change func(*proxy.Options, *gate.Rules), backend func(*http.Request, net.Conn), f func(*testing.T, *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{parts: &frontendtest.Parts{}, front: frontendtest.NewPipes(0)}
		back := frontendtest.NewPipes(0)
		go respond(back, backend)
		transport := func() *http.Transport {
			tr := proxy.NewTransport(nil, 0)
			tr.DialContext = back.Dial
			return tr
		}
		transports := [...]*http.Transport{transport(), transport(), transport()}
		opt := proxy.Options{
			Backend:   frontend.Backend{Backend: gate.Backend{Name: "toy", Adapter: frontendtest.Toy{}}, Upstream: &url.URL{Scheme: "http", Host: "backend"}},
			Transport: transports[0], PassTransport: transports[1], SideTransport: transports[2],
		}
		rules := frontendtest.Rules(b.parts)
		if change != nil {
			change(&opt, &rules)
		}
		opt.Gate = frontendtest.NewGate(t, b.parts, &rules)
		b.proxy = must.Get(proxy.New(opt))(t)
		b.stop, _ = proxy.Serve(frontend.Limit(b.front, frontend.ListenOptions{}), proxy.ServerOptions{Handler: b.proxy, Cut: b.proxy.AbortAll})
		in := &http.Transport{DialContext: b.front.Dial, DisableCompression: true}
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

// respond calls answer with each connection of a listener and the head of each request on
// it.
func respond(ln net.Listener, answer func(*http.Request, net.Conn)) {
	for {
		c, err := ln.Accept()
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
				if answer(q, c); q.Close {
					return
				}
			}
		}()
	}
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
