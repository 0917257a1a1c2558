package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/proxy"
)

// shortly is the time for stalled clients in these tests.
const shortly = 700 * time.Millisecond

// serve starts the product's own listener for the rig.
func (r *rig) serve(t *testing.T, o frontend.ListenOptions) string {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := must.Get(proxy.New(r.opt))(t)
	stop, _ := proxy.Serve(frontend.Limit(ln, o), proxy.ServerOptions{Handler: p})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = stop(ctx)
	})
	return ln.Addr().String()
}

func dial(t *testing.T, addr, request string) net.Conn {
	t.Helper()
	c := must.Get(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { c.Close() })
	must.Get(io.WriteString(c, request))(t)
	return c
}

// Proves EDGE-14: a body that does not arrive ends its request on every route, also on
// passed ones; one that arrives slowly and steadily is accepted.
func TestSlowBodiesAreCutOff(t *testing.T) {
	for _, kind := range []string{"POST /memory", "POST /keys", "POST /stream", "POST /nowhere"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, nil, func(q *http.Request, c net.Conn) {
				if _, err := io.Copy(io.Discard, q.Body); err == nil {
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nm1 ann\n")
				}
			}, func(t *testing.T, b *bubble) {
				head := kind + " HTTP/1.1\r\nHost: h\r\nContent-Type: application/octet-stream\r\n"
				c, begun := b.dial(t, head+"Content-Length: 1000000\r\n\r\nx"), time.Now()
				_, err := io.Copy(io.Discard, c)
				took := time.Since(begun)
				expect.That(t, err == nil && took >= proxy.DefaultBodyTimeout && took <= proxy.DefaultBodyTimeout+2*time.Second, "the connection is closed after %v: %v", took, err)
				const body = "slow and steady"
				c = b.dial(t, fmt.Sprintf("%sContent-Length: %d\r\n\r\n", head, len(body)))
				go func() {
					for i := range len(body) {
						time.Sleep(time.Second)
						io.WriteString(c, body[i:i+1])
					}
				}()
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				expect.That(t, err == nil && (resp.StatusCode == http.StatusOK || kind == "POST /nowhere"), "a steady body is not taken: %v %v", resp, err)
				c.Close()
			})
		})
	}
}

// dial sends a request as raw bytes.
func (b *bubble) dial(t *testing.T, request string) net.Conn {
	t.Helper()
	c := must.Get(b.front.Dial(t.Context(), "", ""))(t)
	io.WriteString(c, request)
	return c
}

// Proves EDGE-14: the end of a body remains its end for a transport that reads on after
// the server has closed it; an incomplete body is not read after the handler has
// returned, and the connection is not reused.
func TestTheEndOfABodyIsForwarded(t *testing.T) {
	for _, whole := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var body io.Reader
			front := frontendtest.NewPipes(0)
			stop, _ := proxy.Serve(frontend.Limit(front, frontend.ListenOptions{}), proxy.ServerOptions{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if body = r.Body; whole {
					_, _ = io.ReadAll(body)
				} else {
					_, _ = io.ReadFull(body, make([]byte, 2))
				}
			})})
			c := must.Get(front.Dial(t.Context(), "", ""))(t)
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody")
			want := http.ErrBodyReadAfterClose
			if whole {
				want = io.EOF
			}
			more := func(when string) {
				synctest.Wait()
				n, err := body.Read(make([]byte, 1))
				expect.That(t, n == 0 && err == want, "%s: %d bytes are read, %v, want %v", when, n, err, want)
			}
			more("the handler is done")
			if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.Close == whole {
				t.Errorf("%+v, %v", resp, err)
			}
			more("the server has closed the body")
			c.Close()
			_ = stop(t.Context())
		})
	}
}

// Proves EDGE-14: the answer to a request with an unwanted body does not wait for the
// body.
func TestAnswersDoNotWaitForUnwantedBodies(t *testing.T) {
	ring.Slow(t, "waits for a real deadline")
	t.Parallel()
	srv := proxy.ServerOptions{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})}
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	stop, _ := proxy.Serve(frontend.Limit(ln, frontend.ListenOptions{}), srv)
	defer stop(t.Context())
	c := dial(t, ln.Addr().String(), "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nx")
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second)) // the body may take 30 s
	must.Equal(t, must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t).StatusCode, http.StatusUnauthorized)
}

// Proves EDGE-14: a body that is announced with more than the limit is refused before it
// arrives, and the connection is closed; one of the limit is awaited.
func TestBodiesAnnouncedOverTheLimit(t *testing.T) {
	for length, wait := range map[int]time.Duration{frontend.DefaultMaxBody: proxy.DefaultBodyTimeout, frontend.DefaultMaxBody + 1: 0, 100 * frontend.DefaultMaxBody: 0} {
		inBubble(t, nil, func(*http.Request, net.Conn) { t.Errorf("%d bytes: sent to the backend", length) }, func(t *testing.T, b *bubble) {
			c, begun := b.dial(t, fmt.Sprintf("POST /memory HTTP/1.1\r\nHost: h\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", length)), time.Now()
			defer c.Close()
			resp := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
			took := time.Since(begun)
			expect.That(t, (resp.StatusCode == http.StatusRequestEntityTooLarge) == (wait == 0) && took >= wait && (wait != 0 || took == 0) && resp.Close,
				"%d bytes: %d after %v, closed: %v", length, resp.StatusCode, took, resp.Close)
		})
	}
}

// Proves EDGE-14: a client that does not read is cut off, on passed and gated routes;
// one that reads slowly gets the whole answer.
func TestStalledReadersAreCutOff(t *testing.T) {
	const size, piece = 4 << 20, 64 << 10
	answer := strings.Repeat(strings.Repeat("m", 1019)+" ann\n", size>>10)
	for _, path := range []string{"/keys", "/memory"} {
		t.Run(path, func(t *testing.T) {
			held := frontend.NewInFlight(1<<30, 1<<30)
			var ended time.Time
			inBubble(t, func(o *proxy.Options, _ *gate.Rules) { o.InFlight = held }, func(_ *http.Request, c net.Conn) {
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", size, answer)
				ended = time.Now()
			}, func(t *testing.T, b *bubble) {
				request, begun := "GET "+path+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", time.Now()
				c := b.dial(t, request)
				time.Sleep(2 * frontend.DefaultWriteTimeout)
				synctest.Wait()
				if took := ended.Sub(begun); ended.IsZero() || took > frontend.DefaultWriteTimeout+time.Second || held.UsedBytes() > 0 {
					t.Errorf("after %v the backend is let go; %d bytes are held for a reader that takes nothing", took, held.UsedBytes())
				}
				if n, _ := io.Copy(io.Discard, c); n > size/2 {
					t.Errorf("a stalled reader still gets %d bytes", n)
				}
				c, begun = b.dial(t, request), time.Now()
				got, err := int64(0), error(nil)
				for err == nil {
					var n int64
					n, err = io.CopyN(io.Discard, c, piece)
					got += n
					time.Sleep(time.Second)
				}
				if took := time.Since(begun); got < size || took < 2*frontend.DefaultWriteTimeout {
					t.Errorf("a slow reader gets %d bytes of %d in %v", got, size, took)
				}
			})
		})
	}
}

// Proves EDGE-14: the same over sockets, with the kernel's buffers.
func TestStalledReadersOfSocketsAreCutOff(t *testing.T) {
	ring.Slow(t, "waits for real deadlines on sockets")
	t.Parallel()
	const size = 24 << 20 // more than the kernel's buffers hold
	line := strings.Repeat("m", 64<<10-len(" ann\n")) + " ann\n"
	ended := make(chan error, 1)
	big := func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for n := 0; n < size && err == nil; n += len(line) {
			_, err = io.WriteString(w, line)
		}
		ended <- err
	}
	held := frontend.NewInFlight(1<<30, 1<<30)
	r := newRig(t, func(r *rig) { r.answer = big; r.opt.MaxAnswer, r.opt.InFlight = 2*size, held })
	// Reading slowly takes longer in total than the write timeout, and each piece far
	// less, even on a busy machine.
	const patience = 3 * time.Second
	addr, patient := r.serve(t, frontend.ListenOptions{WriteTimeout: shortly}), r.serve(t, frontend.ListenOptions{WriteTimeout: patience})
	for _, path := range []string{"/keys", "/memory"} {
		request := "GET " + path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
		c := dial(t, addr, request)
		select {
		case <-ended: // passed: the backend's answer is cut; gated: it was read whole
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: the answer is still kept for a reader that takes nothing", path)
		}
		ring.Until(t, path+": nothing is held for a reader that takes nothing", func() bool { return held.UsedBytes() == 0 })
		if n, err := io.Copy(io.Discard, c); err == nil && n > size*3/4 {
			t.Errorf("%s: a stalled reader still gets %d bytes", path, n)
		}

		c = dial(t, patient, request)
		begun, got := time.Now(), 0
		for {
			n, err := io.CopyN(io.Discard, c, 1<<20)
			if got += int(n); err != nil {
				break
			}
			time.Sleep(patience / 20)
		}
		took := time.Since(begun)
		expect.That(t, took >= patience, "%s: that was not slow: %v", path, took)
		<-ended
		expect.Equal(t, got >= size*99/100, true, path, "a slow reader gets", got, "bytes of", size)
	}
}

// Proves EDGE-14: a long silence of the backend does not end a stream, with or without
// a request body.
func TestSilentStreamsSurvive(t *testing.T) {
	for method, body := range map[string]string{"GET": "", "POST": "a body"} {
		inBubble(t, nil, func(q *http.Request, c net.Conn) {
			_, _ = io.Copy(io.Discard, q.Body)
			io.WriteString(c, streamHead)
			for range 3 {
				chunk(c, anEvent)
				time.Sleep(8 * frontend.DefaultWriteTimeout)
			}
			io.WriteString(c, lastChunk)
		}, func(t *testing.T, b *bubble) {
			_, said, err := b.ask(t, method, "/stream", strings.NewReader(body))
			expect.That(t, err == nil && said == anEvent+anEvent+anEvent, "%s: %q, %v", method, said, err)
		})
	}
}
