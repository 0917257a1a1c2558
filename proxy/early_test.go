package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// Proves EDGE-14: an answer that begins before the end of the request's body is passed
// on at once and completely, on a connection that is closed afterwards; the body is
// still forwarded. After a later answer the connection stays open.
func TestAnswersMayBeginBeforeTheBodyEnds(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	var got string
	inBubble(t, nil, func(q *http.Request, c net.Conn) {
		early := q.URL.RawQuery == "early"
		if early {
			io.WriteString(c, head+"4\r\none \r\n")
		}
		b, _ := io.ReadAll(q.Body)
		if got = string(b); !early {
			io.WriteString(c, head+"4\r\none \r\n")
		}
		io.WriteString(c, "3\r\ntwo\r\n0\r\n\r\n")
	}, func(t *testing.T, b *bubble) {
		for query, closes := range map[string]bool{"": false, "early": true} {
			body, sends := io.Pipe()
			go func() {
				io.WriteString(sends, strings.Repeat("x", 5000))
				time.Sleep(10 * time.Second)
				io.WriteString(sends, "end")
				sends.Close()
			}()
			resp, said, err := b.ask(t, "POST", "/stream?"+query, body)
			must.That(t, err == nil && said == "one two" && strings.HasSuffix(got, "xend") && len(got) == 5003, "%q: %q, %v, %d bytes arrived", query, said, err, len(got))
			expect.Equal(t, resp.Close, closes, query, "the connection is closed")
		}
	})
}

// early is a backend that answers after the head of a request, and reads the body
// meanwhile.
func early(t *testing.T, answer string) *url.URL {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { ln.Close() })
	go respond(ln, func(q *http.Request, c net.Conn) {
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(answer), answer)
		if _, err := io.Copy(io.Discard, q.Body); err == nil {
			fmt.Fprintf(c, "%x\r\n%s\r\n0\r\n\r\n", len(answer), answer)
		}
	})
	return &url.URL{Scheme: "http", Host: ln.Addr().String()}
}

// Proves EDGE-14: no answer to a request with a streamed body is cut, whether the
// backend answers before or after it has read the body.
func TestNoAnswerIsCut(t *testing.T) {
	ring.Slow(t, "sends 20,000 requests over sockets")
	const requests, clients, event = 10_000, 24, "data: an event\n\n"
	for _, kind := range []struct {
		name           string
		early, halting bool
		size           int
	}{
		{"the body is read first", false, false, 100},
		{"the answer begins before a small body is read", true, false, 100},
		{"the answer begins before a large body is read", true, false, 64 << 10},
		{"the answer begins before the body is there", true, true, 64 << 10},
	} {
		t.Run(kind.name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.answer = func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					for range 2 {
						io.WriteString(w, event)
						w.(http.Flusher).Flush()
					}
				}
				if kind.early {
					r.opt.Upstream = early(t, event)
				}
			})
			addr := r.serve(t, frontend.ListenOptions{})
			transport := &http.Transport{MaxIdleConnsPerHost: clients}
			defer transport.CloseIdleConnections()
			var left, cut atomic.Int64
			left.Store(requests)
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						if err := post(t.Context(), transport, "http://"+addr+"/stream", kind.size, kind.halting, event+event); err != nil && cut.Add(1) < 4 {
							t.Log(err)
						}
					}
				})
			}
			all.Wait()
			n := cut.Load()
			expect.That(t, n == 0, "%d of %d answers were cut", n, requests)
		})
	}
}

// post sends a body and reads the answer. If halting, it sends the second half of the
// body only when the answer has begun.
func post(ctx context.Context, transport http.RoundTripper, to string, size int, halting bool, want string) error {
	half := strings.Repeat("x", size/2)
	begun := make(chan struct{})
	var body io.Reader = io.MultiReader(strings.NewReader(half), &waiting{on: begun, Reader: strings.NewReader(half)})
	if !halting {
		body = strings.NewReader(half + half)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, to, body)
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/octet-stream") // otherwise the body is read for fields
	q.ContentLength = int64(len(half) * 2)
	resp, err := transport.RoundTrip(q)
	close(begun)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != want {
		return fmt.Errorf("%q, %w", b, err)
	}
	return nil
}

// waiting is a reader that starts when a channel is closed.
type waiting struct {
	on <-chan struct{}
	io.Reader
}

func (w *waiting) Read(p []byte) (int, error) {
	<-w.on
	return w.Reader.Read(p)
}
