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
