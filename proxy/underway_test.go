package proxy_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/proxy"
)

// Proves EDGE-14: a caller with more slow requests than its share is refused, on
// gated and passed routes, in shadow mode as well; another tenant's write reaches
// the backend at once.
func TestOneCallerDoesNotStopOthers(t *testing.T) {
	const slow = 25 * time.Second
	for _, path := range []string{"/memory", "/keys", "/health"} {
		for _, enforce := range []bool{true, false} {
			var arrived atomic.Int64
			held := frontend.NewInFlight(0, 0)
			inBubble(t, func(o *proxy.Options, r *gate.Rules) { o.InFlight, r.Enforce = held, enforce }, func(q *http.Request, c net.Conn) {
				arrived.Add(1)
				_, _ = io.Copy(io.Discard, q.Body)
				time.Sleep(slow)
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nm1 ann\n")
			}, func(t *testing.T, b *bubble) {
				const many = 600
				type answer struct {
					resp *http.Response
					body string
				}
				got := make(chan answer, many)
				for range many {
					go func() {
						resp, body, err := b.ask(t, "GET", path, nil, "X-Key", "mallory")
						if err != nil {
							t.Error(err)
						}
						got <- answer{resp, body}
					}()
				}
				time.Sleep(time.Second)
				begun := time.Now()
				if resp, _, err := b.ask(t, "POST", "/memory", strings.NewReader("tea")); err != nil || resp.StatusCode != 200 || time.Since(begun) != slow {
					t.Errorf("%s: another tenant's write: %v, %v after %v", path, resp, err, time.Since(begun))
				}
				codes := map[int]int64{}
				for range many {
					a := <-got
					codes[a.resp.StatusCode]++
					if a.resp.StatusCode == 503 && (a.resp.Header.Get("Retry-After") == "" || a.body != `"`+string(memproxy.LimitInFlight)+`"`) {
						t.Fatalf("%s: refused with %q, %v", path, a.body, a.resp.Header)
					}
				}
				if codes[200] > frontend.MaxRequests/2 || codes[200]+1 != arrived.Load() || codes[200] == 0 {
					t.Errorf("%s, enforced: %v: %v, and %d arrived", path, enforce, codes, arrived.Load())
				}
				if resp, _, err := b.ask(t, "GET", path, nil, "X-Key", "mallory"); err != nil || resp.StatusCode != 200 {
					t.Error("not served afterwards:", path, resp, err)
				}
			})
		}
	}
}
