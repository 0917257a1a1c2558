package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/proxy"
)

// Proves EDGE-14: if a listener is full, connections without a request are closed for
// new ones, those with a request stay, and one address does not get all places.
func TestConnectionsAreBounded(t *testing.T) {
	inBubble(t, nil, func(_ *http.Request, c net.Conn) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nm1 ann\n")
	}, func(t *testing.T, b *bubble) {
		front := frontendtest.NewPipes(0)
		stop, _ := proxy.Serve(frontend.Limit(front, frontend.ListenOptions{Connections: 512, ConnectionsPeer: 384}), proxy.ServerOptions{Handler: b.proxy})
		var all []net.Conn
		defer func() {
			for _, c := range all {
				c.Close()
			}
			must.Do(t, stop(t.Context()))
		}()
		from := func(address string) net.Conn {
			client, server := net.Pipe()
			all = append(all, client)
			must.Do(t, front.Offer(server, &net.TCPAddr{IP: net.ParseIP(address), Port: len(all)}))
			return client
		}
		ask := func(c net.Conn) error {
			_ = c.SetDeadline(time.Now().Add(time.Millisecond)) // of the bubble: none passes during an answer
			if _, err := io.WriteString(c, "GET /memory HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
				return err
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		}
		flood := func(address func(i int) string) { // heads that do not end, and are read when they get a place
			for i := range 600 {
				c := from(address(i))
				go io.WriteString(c, "GET /memory HTTP/1.1\r\nHost: ")
			}
		}
		one := func(int) string { return "127.0.0.1" }
		many := func(i int) string { return fmt.Sprintf("127.0.%d.%d", 1+i/200, i%200+1) }
		silent, ordinary := from("127.0.0.5"), from("127.0.0.3")
		must.Do(t, ask(ordinary))
		flood(one)
		time.Sleep(time.Second) // each that waited has got a place, in turn
		expect.OK(t, ask(silent), "a client lost its connection, on which it had sent nothing, to slow headers of one address")
		flood(many)
		time.Sleep(time.Second)
		expect.OK(t, ask(ordinary), "an ordinary client lost its connection to slow headers")
		flood(many)
		for _, newcomer := range []string{"127.0.0.4", "127.0.0.1"} { // the second at a flood's address
			c := from(newcomer)
			time.Sleep(100 * time.Millisecond) // meanwhile others get places, one each millisecond
			expect.OK(t, ask(c), "a newcomer at", newcomer, "is not served")
		}
	})
}

// Proves EDGE-14: the body of an unidentified caller is not read, and the answer does
// not wait for it; an ordinary client with a bad credential keeps its connection.
func TestBodiesOfUnidentifiedCallersAreNotRead(t *testing.T) {
	t.Parallel()
	held := frontend.NewInFlight(1<<20, 1<<20)
	r := newRig(t, func(r *rig) { r.opt.InFlight = held })
	addr := r.serve(t, frontend.ListenOptions{})
	for _, path := range []string{"/memory", "/keys"} {
		start := time.Now()
		c := dial(t, addr, "POST "+path+" HTTP/1.1\r\nHost: h\r\nX-Key: bad\r\nContent-Length: 1048576\r\n\r\nx")
		_ = c.SetReadDeadline(start.Add(ring.Limit))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		must.That(t, err == nil && resp.StatusCode == 401 && held.UsedBytes() == 0, "%v %v %v %v", path, resp, err, held.UsedBytes())
		c = dial(t, addr, "")
		in := bufio.NewReader(c)
		for range 2 {
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: h\r\nX-Key: bad\r\nContent-Length: 4\r\n\r\nbody", path)
			resp, err := http.ReadResponse(in, nil)
			must.Do(t, err, path, resp)
			must.Equal(t, resp.StatusCode, 401, path, resp)
			_, _ = io.Copy(io.Discard, resp.Body)
		}
	}
}

// Proves EDGE-14: bodies and answers in memory share one budget; over it requests are
// refused with 503 and a time to retry, and recorded, and when there is room again they
// are served.
func TestBytesInFlightAreBounded(t *testing.T) {
	ring.Slow(t, "fills sockets and waits")
	t.Parallel()
	const total = 12 << 20 // half of it for data
	held := frontend.NewInFlight(total, total)
	release := make(chan struct{})
	var once sync.Once
	free := func() { once.Do(func() { close(release) }) }
	defer free()
	r := newRig(t, func(r *rig) {
		r.opt.InFlight, r.opt.MaxBody = held, 1<<20
		r.answer = func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			<-release
			fmt.Fprint(w, "m1 ann\n")
		}
	})
	addr := r.serve(t, frontend.ListenOptions{})
	body := strings.Repeat("x", 900<<10)
	post := func() (*http.Response, error) {
		return http.Post("http://"+addr+"/memory", "text/plain", strings.NewReader(body))
	}
	codes := make(chan int, 12)
	for range cap(codes) {
		go func() {
			resp, err := post()
			if err != nil {
				codes <- 0
				return
			}
			resp.Body.Close()
			if resp.StatusCode == 503 && resp.Header.Get("Retry-After") == "" {
				codes <- -503
				return
			}
			codes <- resp.StatusCode
		}()
	}
	counts := map[int]int{}
	for range 4 { // requests without room do not wait for the others
		select {
		case c := <-codes:
			counts[c]++
		case <-time.After(ring.Limit):
			t.Fatal("nobody is refused, with", held.UsedBytes(), "bytes held")
		}
	}
	n := held.UsedBytes()
	expect.That(t, n <= total, "%d bytes are held", n)
	// Requests that hold little are served meanwhile.
	q, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/nowhere", nil)
	expect.Equal(t, must.Get(http.DefaultClient.Do(q))(t).StatusCode, 403)
	free()
	for range cap(codes) - 4 {
		counts[<-codes]++
	}
	expect.That(t, counts[503] >= 4 && counts[200] != 0 && counts[503]+counts[200] == cap(codes), "answers %v", counts)
	refused := 0
	for _, ev := range r.parts.Recorded() {
		if ev.Type == memproxy.EventDecision && len(ev.Reasons) > 0 && ev.Reasons[0].Code == memproxy.LimitInFlight {
			refused++
		}
	}
	expect.Equal(t, refused, counts[503])
	expect.Equal(t, must.Get(post())(t).StatusCode, 200, "not served once there is room")
	ring.Until(t, "nothing is held for nobody", func() bool { return held.UsedBytes() == 0 })
}

// Proves EDGE-14: requests that touch no memory, and memproxy's own, have separate
// connections: if a backend answers none of them, gated requests do not wait.
func TestPassedRequestsDoNotStarveGatedOnes(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	arrived := make(chan struct{}, 64)
	r := newRig(t, func(r *rig) {
		few := func() *http.Transport {
			two := proxy.NewTransport(nil, 0)
			two.MaxConnsPerHost = 2
			return two
		}
		r.opt.Transport, r.opt.PassTransport, r.opt.SideTransport = few(), few(), few()
		r.answer = func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/stream" {
				arrived <- struct{}{}
				<-release
			}
			fmt.Fprint(w, "m1 ann\n")
		}
	})
	t.Cleanup(func() { close(release) }) // before the servers are closed
	for range 10 {
		go func() {
			if resp, err := http.Get(r.URL + "/stream"); err == nil {
				resp.Body.Close()
			}
		}()
	}
	<-arrived
	<-arrived
	ctx, cancel := context.WithTimeout(t.Context(), ring.Limit)
	defer cancel()
	q, _ := http.NewRequestWithContext(ctx, "GET", r.URL+"/memory", nil)
	resp := must.Get(http.DefaultClient.Do(q))(t)
	must.Equal(t, resp.StatusCode, 200, resp)
}

// Proves EDGE-14: the admin listener refuses a name that a web page resolves to it.
// Probes are answered under any name.
func TestAdminIsAskedByItsName(t *testing.T) {
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	h := proxy.NewAdmin(proxy.AdminOptions{
		Ready: func() []proxy.Check { return []proxy.Check{{Name: "rules", OK: true, Detail: "in force"}} }, Metrics: ok, Spans: ok, Review: ok,
		Fleet: ok, Hosts: proxy.Hosts{"memproxy.internal"},
	})
	for host, named := range map[string]bool{
		"127.0.0.1:9901": true, "localhost:9901": true, "LOCALHOST": true, "[::1]:9901": true, "127.9.9.9": true,
		"memproxy.internal": true, "Memproxy.Internal.:9901": true, "10.1.2.3:9901": true,
		"evil.example": false, "evil.example:9901": false, "10.1.2.4": false, "127.0.0.1.evil.example": false,
		"localhost.evil.example": false, "": false, "memproxy.internal.evil.example": false, "0.0.0.0": false,
	} {
		for path, guarded := range map[string]bool{"/metrics": true, "/debug/spans": true, "/v1/holds": true, "/fleet": true, "/fleet/sidecars": true, "/healthz": false, "/readyz": false} {
			q := httptest.NewRequest("GET", path, nil)
			q.Host = host
			q = q.WithContext(context.WithValue(q.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP("10.1.2.3"), Port: 9901}))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, q)
			want := 200
			if guarded && !named {
				want = http.StatusMisdirectedRequest
			}
			expect.That(t, w.Code == want && (path != "/readyz" || strings.Contains(w.Body.String(), "in force") == named),
				"%s by the name %q: %d, want %d: %s", path, host, w.Code, want, w.Body)
		}
	}
}

// Proves EDGE-14: a panic in a handler is logged with its stack, and the caller gets no
// answer that looks complete; a deliberate abort is not logged.
func TestPanicsAreLogged(t *testing.T) {
	for value, logged := range map[any]bool{"oops": true, http.ErrAbortHandler: false} {
		var log bytes.Buffer
		ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		stop, _ := proxy.Serve(frontend.Limit(ln, frontend.ListenOptions{}), proxy.ServerOptions{Log: slog.New(slog.NewJSONHandler(&log, nil)), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			panic(value)
		})})
		if answer, err := http.Get("http://" + ln.Addr().String()); err == nil {
			t.Errorf("%v: answered %s", value, answer.Status)
			answer.Body.Close()
		}
		must.Do(t, stop(t.Context()))
		expect.Equal(t, strings.Contains(log.String(), `"level":"ERROR"`) && strings.Contains(log.String(), "TestPanicsAreLogged"), logged, value, log.String())
	}
}

// Proves EDGE-14: a caller with more slow requests than its share is refused, on
// gated and passed routes, in shadow mode as well; another tenant's write reaches
// the backend at once.
func TestOneCallerDoesNotStopOthers(t *testing.T) {
	const slow = 25 * time.Second
	for i, path := range []string{"/memory", "/keys", "/health"} {
		for j, enforce := range []bool{true, false} {
			if (i+j)%ring.Share(1, 2) != 0 {
				continue // under -short each path in one of the modes
			}
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
						expect.OK(t, err)
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
					must.That(t, a.resp.StatusCode != 503 || a.resp.Header.Get("Retry-After") != "" && a.body == `"`+string(memproxy.LimitInFlight)+`"`,
						"%s: refused with %q, %v", path, a.body, a.resp.Header)
				}
				expect.That(t, codes[200] <= frontend.MaxRequests/2 && codes[200]+1 == arrived.Load() && codes[200] != 0,
					"%s, enforced: %v: %v, and %d arrived", path, enforce, codes, arrived.Load())
				if resp, _, err := b.ask(t, "GET", path, nil, "X-Key", "mallory"); err != nil || resp.StatusCode != 200 {
					t.Error("not served afterwards:", path, resp, err)
				}
			})
		}
	}
}
