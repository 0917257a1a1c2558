package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/proxy"
)

// Limits of the bubbles below.
const (
	quietFor = 5 * time.Minute // requests to the backend, and streams
	quietRun = 30 * time.Minute
	eventMax = 4 << 10
)

// streamer is a kind of route with streamed answers.
type streamer struct {
	name, method, path string
	adapter            backend.Adapter
	shadow             bool
	filters            bool          // event by event
	silence            time.Duration // how long the backend may send nothing
	says               bool          // an incomplete answer ends in an error event instead of an abort
}

var streamers = []streamer{
	{name: "public", method: "GET", path: "/health", adapter: frontendtest.Toy{}, silence: quietFor},
	{name: "passed", method: "POST", path: "/stream", adapter: frontendtest.Toy{}, silence: quietFor},
	{name: "unfiltered", method: "POST", path: "/run", adapter: frontendtest.Pruning{}, shadow: true, silence: quietFor},
	{name: "filtered", method: "POST", path: "/run", adapter: frontendtest.Pruning{}, filters: true, silence: quietFor},
	{name: "agent's run", method: "POST", path: "/run", adapter: running{}, filters: true, silence: quietRun, says: true},
	{name: "compensated run", method: "POST", path: "/run", adapter: compensating{}, filters: true, silence: quietRun},
}

// chunk sends a piece of an answer.
func chunk(c net.Conn, s string) { fmt.Fprintf(c, "%x\r\n%s\r\n", len(s), s) }

const (
	streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	lastChunk  = "0\r\n\r\n"
	firstEvent = "data: first\n\n"
	anEvent    = "data: more\n\n"
)

// Proves EDGE-14: on every kind of route a stream lasts for as long as the backend
// sends, and ends if it is silent for too long. If a stream ends early, the client sees
// that it is incomplete, and the outcome in the audit log has the reason.
func TestHowStreamsEnd(t *testing.T) {
	for _, way := range []struct {
		name    string
		backend func(c net.Conn) // after the first event
		client  func(b *bubble, body io.ReadCloser)
		large   bool // only where events are buffered
		want    memproxy.StreamEnd
	}{
		{name: "whole", backend: func(c net.Conn) { io.WriteString(c, lastChunk) }},
		{name: "sends now and then for hours", backend: func(c net.Conn) {
			for range 80 {
				time.Sleep(quietFor - time.Second)
				chunk(c, anEvent)
			}
			io.WriteString(c, lastChunk)
		}},
		{name: "one event for hours, bit by bit", backend: func(c net.Conn) {
			for range 80 {
				time.Sleep(quietFor - time.Second)
				chunk(c, "data: x\n")
			}
			chunk(c, "\n")
			io.WriteString(c, lastChunk)
		}},
		{name: "torn between events", backend: func(c net.Conn) { c.Close() }, want: memproxy.StreamTorn},
		{name: "torn in an event", backend: func(c net.Conn) { chunk(c, "data: ha"); c.Close() }, want: memproxy.StreamTorn},
		{name: "silent", backend: func(net.Conn) { time.Sleep(2 * quietRun) }, want: memproxy.StreamSilent},
		{name: "silent later", backend: func(c net.Conn) {
			time.Sleep(quietFor - time.Second)
			chunk(c, anEvent)
			time.Sleep(2 * quietRun)
		}, want: memproxy.StreamSilent},
		{name: "too large", large: true, want: memproxy.StreamTooLarge, backend: func(c net.Conn) {
			chunk(c, "data: "+strings.Repeat("x", eventMax)+"\n\n")
			io.WriteString(c, lastChunk)
		}},
		{name: "the client hangs up", want: memproxy.StreamGone, client: func(_ *bubble, body io.ReadCloser) { body.Close() }, backend: func(c net.Conn) {
			time.Sleep(time.Minute)
			chunk(c, anEvent)
			time.Sleep(time.Minute)
			chunk(c, anEvent)
			io.WriteString(c, lastChunk)
		}},
		{name: "memproxy stops", want: memproxy.StreamStopped, client: func(b *bubble, _ io.ReadCloser) { b.proxy.AbortAll() }, backend: func(net.Conn) { time.Sleep(time.Minute) }},
	} {
		for _, route := range streamers {
			if way.large && !route.filters {
				continue
			}
			t.Run(way.name+", "+route.name, func(t *testing.T) {
				inBubble(t, func(o *proxy.Options, rules *gate.Rules) {
					o.Adapter, rules.Enforce = route.adapter, !route.shadow
					o.Ungated, o.Journal = gate.UngatedCompensate, t.TempDir()
					o.UpstreamTimeout, o.RunTimeout, o.MaxAnswer = quietFor, quietRun, eventMax
				}, func(q *http.Request, c net.Conn) {
					_, _ = io.Copy(io.Discard, q.Body)
					io.WriteString(c, streamHead)
					chunk(c, firstEvent)
					way.backend(c)
				}, func(t *testing.T, b *bubble) {
					b.streams(t, route.method, route.path, func(body io.ReadCloser) {
						if way.client != nil {
							way.client(b, body)
						}
					}, func(said string, err error) {
						event := strings.Contains(said, "event: error")
						switch {
						case way.want == memproxy.StreamGone:
						case way.want == memproxy.StreamWhole && (err != nil || event):
							t.Errorf("a whole stream ends in %v: %.80q", err, said)
						case way.want != memproxy.StreamWhole && route.says && (err != nil || !event || strings.Contains(said, "data: end")):
							t.Errorf("no event says that it broke off: %.80q, %v", said, err)
						case way.want != memproxy.StreamWhole && !route.says && err == nil:
							t.Errorf("it looks whole: %.80q", said)
						}
					})
					if route.name != "public" { // which is not recorded
						b.outcome(t, way.want, 200)
					}
				})
			})
		}
	}
}

// clearing is a backend whose only request deletes everything of an owner.
type clearing struct{ frontendtest.Toy }

func (clearing) Route(memproxy.Request) (memproxy.Route, bool) {
	return memproxy.Route{ID: "toy.clear", Kind: memproxy.Forget}, true
}

func (clearing) Decode(memproxy.Route, memproxy.Request, []byte) (*memproxy.Operation, error) {
	return &memproxy.Operation{Kind: memproxy.Forget, DeletesScope: true}, nil
}

// Proves EDGE-15: also in shadow mode, where it is passed on unread, the answer to a
// deletion of everything is complete only when the deletion is recorded.
func TestDeletionsAreAnsweredWhenRecorded(t *testing.T) {
	for _, answer := range []string{"Content-Length: 4\r\n\r\ndone", "Content-Length: 0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n2\r\ndo\r\n2\r\nne\r\n0\r\n\r\n"} {
		inBubble(t, func(o *proxy.Options, rules *gate.Rules) { o.Adapter, rules.Enforce = clearing{}, false }, func(_ *http.Request, c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n"+answer)
		}, func(t *testing.T, b *bubble) {
			b.parts.Wrote = make(chan memproxy.Event)
			answered := make(chan string, 1)
			go func() {
				_, said, err := b.ask(t, "DELETE", "/memory", nil)
				answered <- fmt.Sprint(said, err)
			}()
			synctest.Wait()
			expect.Len(t, answered, 0, answer, "is complete before the record")
			<-b.parts.Wrote
			if said := <-answered; said != "done<nil>" && said != "<nil>" {
				t.Errorf("%q: %s", answer, said)
			}
		})
	}
}

// streams requests a stream, calls then after the first event, and passes the received
// text and the error to check.
func (b *bubble) streams(t *testing.T, method, path string, then func(io.ReadCloser), check func(string, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q := must.Get(http.NewRequestWithContext(ctx, method, "http://memproxy"+path, http.NoBody))(t)
	resp := must.Get(b.client.Do(q))(t)
	defer resp.Body.Close()
	first := make([]byte, len(firstEvent))
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != firstEvent {
		t.Fatalf("%q, %v", first, err)
	}
	then(resp.Body)
	said, err := io.ReadAll(resp.Body)
	check(string(said), err)
	time.Sleep(time.Hour) // requests that outlive the client end
	synctest.Wait()
}

// outcome checks the one recorded outcome against how the stream ended.
func (b *bubble) outcome(t *testing.T, want memproxy.StreamEnd, status int) {
	t.Helper()
	n := 0
	for _, ev := range b.parts.Recorded() {
		if ev.Type != memproxy.EventOutcome || len(ev.Reasons) > 0 && ev.Reasons[0].Code == memproxy.RunUngated {
			continue // it records that a run was admitted
		}
		n++
		expect.That(t, ev.Ended == want && ev.Cancelled == want.Cancelled() && (ev.Status == status || len(ev.Reasons) > 0),
			"the outcome says %q, cancelled: %v, status %d; want %q", ev.Ended, ev.Cancelled, ev.Status, want)
	}
	expect.Equal(t, n, 1)
}

// Proves EDGE-14: the time until the backend's answer begins is bounded on every kind
// of route. Time in which it reads a body does not count.
func TestTheAnswerMustBegin(t *testing.T) {
	for _, route := range streamers {
		t.Run(route.name, func(t *testing.T) {
			inBubble(t, func(o *proxy.Options, rules *gate.Rules) {
				o.Adapter, rules.Enforce = route.adapter, !route.shadow
				o.Ungated, o.Journal = gate.UngatedCompensate, t.TempDir()
				o.UpstreamTimeout, o.RunTimeout = quietFor, quietRun
			}, func(q *http.Request, _ net.Conn) {
				_, _ = io.Copy(io.Discard, q.Body)
				time.Sleep(2 * quietRun)
			}, func(t *testing.T, b *bubble) {
				begun, upload := time.Now(), time.Duration(0)
				var body io.Reader = http.NoBody
				if route.name == "passed" {
					const pieces = 40
					upload = pieces * 20 * time.Second
					in, out := io.Pipe()
					body = in
					go func() {
						for range pieces {
							time.Sleep(20 * time.Second)
							io.WriteString(out, strings.Repeat("x", 1<<20)) // which extends its time
						}
						out.Close()
					}()
				}
				resp, _, err := b.ask(t, route.method, route.path, body)
				took := time.Since(begun)
				expect.That(t, err == nil && resp.StatusCode/100 == 5 && took == upload+route.silence, "%v, %v after %v", resp, err, took)
				time.Sleep(2 * quietRun)
			})
		})
	}
}

// Proves EDGE-14: a client that reads slowly does not count as silence of the backend.
func TestSlowReadersAreNotIdleStreams(t *testing.T) {
	for _, route := range streamers {
		t.Run(route.name, func(t *testing.T) {
			const events, size = 40, 4 << 10
			inBubble(t, func(o *proxy.Options, rules *gate.Rules) {
				o.Adapter, rules.Enforce = route.adapter, !route.shadow
				o.Ungated, o.Journal = gate.UngatedCompensate, t.TempDir()
				o.UpstreamTimeout, o.RunTimeout = time.Second, time.Second
			}, func(q *http.Request, c net.Conn) {
				_, _ = io.Copy(io.Discard, q.Body)
				io.WriteString(c, streamHead)
				chunk(c, firstEvent)
				for range events {
					chunk(c, "data: "+strings.Repeat("x", size)+"\n\n")
				}
				io.WriteString(c, lastChunk)
			}, func(t *testing.T, b *bubble) {
				b.streams(t, route.method, route.path, func(body io.ReadCloser) {
					for range events {
						time.Sleep(10 * time.Second)
						_, _ = io.CopyN(io.Discard, body, size)
					}
				}, func(said string, err error) { expect.OK(t, err, "the answer is cut") })
			})
		})
	}
}

// Proves EDGE-14: over HTTP/2 an incomplete stream is reset.
func TestBrokenStreamsAreReset(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.opt.Adapter, r.opt.Passthrough = frontendtest.Pruning{}, []string{"POST /custom/*"}
		r.answer = func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, firstEvent)
			_ = http.NewResponseController(w).Flush()
			if q.URL.RawQuery == "" {
				panic(http.ErrAbortHandler)
			}
		}
	})
	p := must.Get(proxy.New(r.opt))(t)
	front := httptest.NewUnstartedServer(p)
	front.EnableHTTP2 = true
	front.StartTLS()
	t.Cleanup(front.Close)
	for _, path := range []string{"/custom/stream", "/run"} {
		for query, whole := range map[string]bool{"": false, "?whole": true} {
			resp := must.Get(front.Client().Post(front.URL+path+query, "application/octet-stream", strings.NewReader("x")))(t)
			said, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			expect.That(t, resp.ProtoMajor == 2 && string(said) == firstEvent && (err == nil) == whole, "%s%s: %s %q, %v", path, query, resp.Proto, said, err)
		}
	}
}

// Proves EDGE-13, CARD-1: events of a stream are filtered one by one, however they are
// cut, and no other form of an answer passes unread.
func TestNoFormOfAnAnswerPassesUnread(t *testing.T) {
	frontendtest.Forms(t, start, 502, `"upstream.malformed"`)
}

// Proves EDGE-13, CARD-1: on every kind of route, only the answer's headers that
// clients need pass, and no trailers; one setting lets the others pass.
func TestHeadersOfAnswers(t *testing.T) { frontendtest.Headers(t, start) }

// Proves EDGE-13: a HEAD of a stream has the headers of the filtered one, and headers
// of range and conditional requests do not reach the backend, because its answer would
// be about unfiltered content.
func TestHeadOfAStreamAndPartsOfAnswers(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.opt.Adapter = frontendtest.Pruning{}
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Length", "14")
			fmt.Fprint(w, "data: canary\n\n")
		}
	})
	for _, path := range []string{"/run", "/memory", "/ping"} {
		resp, _ := r.do(t, "HEAD", path, "", "Range", "bytes=0-3", "If-None-Match", `"x"`, "If-Modified-Since", "now", "If-Range", "x")
		for _, name := range []string{"Range", "If-None-Match", "If-Modified-Since", "If-Range"} {
			expect.Equal(t, r.last(t).header.Get(name), "", path, name, "arrived")
		}
		expect.That(t, path == "/ping" || resp.ContentLength != 14, "%s: the length of what was not filtered came back", path)
	}
}

// Proves EDGE-13: a redirect that bypasses memproxy is an error that says so, on every kind
// of route; one to another scheme of the same host would otherwise lead in a circle.
func TestRedirectsElsewhereAreLeftOut(t *testing.T) {
	for _, to := range []string{"scheme", "https://elsewhere.example/memory", "//elsewhere.example/", "http:/memory", `/\\elsewhere.example`, "javascript:alert(1)"} {
		r := newRig(t, func(r *rig) {
			r.answer = func(w http.ResponseWriter, q *http.Request) {
				w.Header()["Location"] = []string{to}
				if to == "scheme" {
					w.Header()["Location"] = []string{"https://" + q.Host + q.URL.Path}
				}
				w.WriteHeader(307)
			}
		})
		for path, want := range map[string]string{
			"/memory": `"upstream.unavailable"`, "/ping": `"upstream.unavailable"`, "/health": "backends[].upstream must be an address",
		} {
			resp, body := r.do(t, "GET", path, "")
			expect.Equal(t, resp.Header.Get("Location"), "", path, to)
			expect.Equal(t, resp.StatusCode, 502, path, to)
			expect.Text(t, body, path, to).Has(want)
		}
	}
}

// Proves EDGE-13, CARD-1: an answer that was made for one caller is cached nowhere,
// whatever the backend says, on every route that is ruled on, including refusals and
// streams. Public answers, and all answers in shadow mode, keep the backend's headers.
func TestAnswersAreKeptByNoCache(t *testing.T) { frontendtest.NoCache(t, start) }
