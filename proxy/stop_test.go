package proxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/proxy"
)

// A request that a stop cuts off before the backend answers is recorded as that. Its caller
// did not leave.
func TestRequestsCutOffByAStop(t *testing.T) {
	for method, body := range map[string]io.Reader{"GET": nil, "POST": strings.NewReader("x")} {
		inBubble(t, nil, func(q *http.Request, _ net.Conn) { time.Sleep(time.Minute) }, func(t *testing.T, b *bubble) {
			time.AfterFunc(time.Second, b.proxy.AbortAll)
			resp, said, err := b.ask(t, method, "/memory", body)
			must.Do(t, err, method, resp, said)
			expect.Equal(t, resp.StatusCode, http.StatusBadGateway, method, resp, said)
			b.outcome(t, memproxy.StreamStopped, 0)
			time.Sleep(time.Minute) // the backend's handler ends
		})
	}
}

// A stop closes the connections of the requests that it cuts off: that the request's context
// ends as well is not the caller's doing, whichever of the two is noticed first. A public
// route has no outcome.
func TestAStopClosesConnections(t *testing.T) {
	for _, route := range append(slices.Clone(streamers[1:]), streamer{name: "no answer", method: "GET", path: "/memory", adapter: frontendtest.Toy{}}) {
		t.Run(route.name, func(t *testing.T) {
			inBubble(t, func(o *proxy.Options, rules *gate.Rules) {
				o.Adapter, rules.Enforce = route.adapter, !route.shadow
				o.Ungated, o.Journal = gate.UngatedCompensate, t.TempDir()
			}, func(_ *http.Request, c net.Conn) {
				if route.name != "no answer" {
					io.WriteString(c, streamHead)
					chunk(c, firstEvent)
				}
				time.Sleep(time.Minute)
			}, func(t *testing.T, b *bubble) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, func() { b.proxy.AbortAll(); cancel() })
				func() {
					defer func() { _ = recover() }() // how a handler breaks an answer off
					b.proxy.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, route.method, route.path, nil))
				}()
				time.Sleep(time.Hour)
				synctest.Wait()
				b.outcome(t, memproxy.StreamStopped, map[bool]int{true: 0, false: 200}[route.name == "no answer"])
			})
		})
	}
}

// A request that fails because its caller disconnected counts as 499, one that a stop cut off
// as the server's error, and an error of the backend as itself.
func TestStatusOfUnansweredRequests(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(b *bubble, hangUp func(), answer chan<- string)
		want int
	}{
		{"the caller hangs up", func(_ *bubble, hangUp func(), _ chan<- string) { hangUp() }, 499},
		{"memproxy stops", func(b *bubble, _ func(), _ chan<- string) { b.proxy.AbortAll() }, 502},
		{"the backend fails", func(_ *bubble, _ func(), answer chan<- string) {
			answer <- "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"
		}, 500},
		{"the backend breaks off", func(_ *bubble, _ func(), answer chan<- string) { answer <- "" }, 502},
	} {
		for _, path := range []string{"/memory", "/ping"} {
			var statuses []int
			var answer chan string
			inBubble(t, func(o *proxy.Options, _ *gate.Rules) {
				answer = make(chan string, 1)
				o.Observe = func(_ context.Context, _, _ string, status int, _ time.Duration) { statuses = append(statuses, status) }
			}, func(_ *http.Request, c net.Conn) {
				select {
				case said := <-answer:
					_, _ = io.WriteString(c, said)
					c.Close()
				case <-time.After(time.Minute):
				}
			}, func(t *testing.T, b *bubble) {
				ctx, hangUp := context.WithCancel(t.Context())
				defer hangUp()
				q := must.Get(http.NewRequestWithContext(ctx, "GET", "http://memproxy"+path, http.NoBody))(t)
				go func() {
					if resp, err := b.client.Do(q); err == nil {
						_ = resp.Body.Close()
					}
				}()
				synctest.Wait()
				tc.end(b, hangUp, answer)
				synctest.Wait()
				expect.List(t, statuses, []int{tc.want}, tc.name, path)
				time.Sleep(time.Hour)
			})
		}
	}
}
