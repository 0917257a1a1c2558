package proxy_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/proxy"
)

// Proves CARD-1: traffic that is not memory passes byte for byte, both ways.
func TestPassIsByteForByte(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Vary"] = []string{"a", "b"}
			w.Header().Set("X-Request-Id", "x")
			w.Header().Set("Content-Encoding", "br")
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte{0, 255, '{'})
		}
	})
	resp, body := r.do(t, "PUT", "/keys?a=1&a=2&b=%2F;c", "{ \"not\":json \xff", "X-Multi", "1", "X-Multi", "2", "X-Forwarded-For", "1.2.3.4", "Accept-Encoding", "zstd")
	got := r.last(t)
	expect.Equal(t, got.target, "/keys?a=1&a=2&b=%2F;c", "arrived as")
	expect.Equal(t, got.body, "{ \"not\":json \xff", "arrived as")
	for name, want := range map[string][]string{"X-Multi": {"1", "2"}, "X-Forwarded-For": {"1.2.3.4"}, "Accept-Encoding": {"zstd"}} {
		expect.List(t, got.header[name], want, name, "arrived as")
	}
	expect.That(t, resp.StatusCode == http.StatusAccepted && body == "\x00\xff{" && resp.Header.Get("X-Request-Id") == "x" && slices.Equal(resp.Header["Vary"], []string{"a", "b"}),
		"came back as %d %q %v", resp.StatusCode, body, resp.Header)
	expect.Equal(t, resp.Header.Get(frontend.DecisionHeader), "allow; id=d1", "decided")
}

// Proves CARD-1, CARD-10: an unchanged read is the same both ways, except for the
// decision's header.
func TestGatedReadIsByteForByte(t *testing.T) {
	r := newRig(t, nil)
	resp, body := r.do(t, "GET", "/memory?x=%7e&x=2", "", "X-Multi", "1", "X-Multi", "2")
	got := r.last(t)
	expect.Equal(t, got.target, "/memory?x=%7e&x=2", "arrived as", got.header)
	expect.List(t, got.header["X-Multi"], []string{"1", "2"}, "arrived as", got.header)
	expect.That(t, body == "m1 ann\n" && strings.HasPrefix(resp.Header.Get(frontend.DecisionHeader), "allow; id=d1"), "came back as %q, %q", body, resp.Header.Get(frontend.DecisionHeader))
	if _, has := got.header["User-Agent"]; !has {
		t.Log("the test client sent no user agent")
	}
}

func TestAnswersAreFilteredAndResized(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", `"of the whole"`)
			fmt.Fprint(w, "m1 ann\nm2 bob\n")
		}
	})
	resp, body := r.do(t, "GET", "/memory", "")
	expect.That(t, body == "m1 ann\n" && resp.ContentLength == 7 && resp.Header.Get("Etag") == "", "%q, length %d, etag %q", body, resp.ContentLength, resp.Header.Get("Etag"))
	expect.Equal(t, r.last(t).header.Get("Accept-Encoding"), "identity", "asked upstream for")
}

func TestCompressedAnswersAreReadAllTheSame(t *testing.T) {
	for _, tc := range []struct {
		encoding string
		status   int
	}{{"gzip", 200}, {"br", 502}} {
		r := newRig(t, func(r *rig) {
			r.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", tc.encoding)
				zw := gzip.NewWriter(w)
				fmt.Fprint(zw, "m1 ann\nm2 bob\n")
				_ = zw.Close()
			}
		})
		resp, body := r.do(t, "GET", "/memory", "")
		expect.That(t, resp.StatusCode == tc.status && (tc.status != 200 || body == "m1 ann\n" && resp.Header.Get("Content-Encoding") == ""),
			"%s: %d %q %v", tc.encoding, resp.StatusCode, body, resp.Header)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		r := newRig(t, func(r *rig) {
			r.opt.MaxAnswer = 100
			r.answer = func(w http.ResponseWriter, _ *http.Request) {
				if chunked {
					w.(http.Flusher).Flush()
				}
				fmt.Fprint(w, strings.Repeat("m1 ann\n", 20))
			}
		})
		resp, said := r.do(t, "GET", "/memory", "")
		expect.That(t, resp.StatusCode == 502 && said == `"upstream.malformed"`, "chunked %v: %d %s, want 502", chunked, resp.StatusCode, said)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opt.MaxBody = 10 })
	if resp, body := r.do(t, "POST", "/memory", "0123456789"); resp.StatusCode != 200 {
		t.Errorf("at the limit: %d %s", resp.StatusCode, body)
	}
	n := r.count()
	for _, body := range []string{"0123456789X", strings.Repeat("x", 1<<20)} {
		resp, said := r.do(t, "POST", "/memory", body)
		expect.Equal(t, resp.StatusCode, 413, len(body))
		expect.Equal(t, said, `"payload.too_large"`, len(body))
	}
	expect.Equal(t, r.count(), n, "a body over the limit was forwarded")
	expect.Equal(t, len(r.parts.Recorded()) >= 3, true, "the refusals were not recorded")
}

func TestShadowForwardsEvenWhatIsTooLarge(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opt.MaxBody = 10; r.rules.Enforce = false })
	resp, _ := r.do(t, "POST", "/memory", strings.Repeat("x", 5000))
	expect.Equal(t, resp.StatusCode, 200, "bytes arrived")
	expect.Len(t, r.last(t).body, 5000, "bytes arrived")
	ev := r.parts.Recorded()[0]
	expect.That(t, ev.ShadowVerdict == memproxy.Deny && ev.Verdict == memproxy.Allow, "recorded %v, would %v", ev.Verdict, ev.ShadowVerdict)
}

// A client that waits for 100 Continue is refused at once, without its body.
func TestUnknownCallersAreNotAskedToContinue(t *testing.T) {
	r := newRig(t, nil)
	for key, want := range map[string]int{"bad": http.StatusUnauthorized, "good": http.StatusContinue} {
		conn := must.Get(net.Dial("tcp", r.Listener.Addr().String()))(t)
		defer conn.Close()
		fmt.Fprintf(conn, "POST /memory HTTP/1.1\r\nHost: x\r\nX-Key: %s\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", key)
		expect.Equal(t, must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t).StatusCode, want, key)
	}
}

// Shadow mode cannot forward a body that is not complete. The refusal is in the audit log.
func TestShadowRefusesWhatIsIncomplete(t *testing.T) {
	r := newRig(t, func(r *rig) { r.rules.Enforce = false })
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(r.URL, "http://")))(t)
	defer conn.Close()
	fmt.Fprint(conn, "POST /memory HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n")
	resp := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	expect.Equal(t, resp.StatusCode, http.StatusBadRequest)
	expect.Equal(t, string(must.Get(io.ReadAll(resp.Body))(t)), `"payload.malformed"`)
	expect.Equal(t, resp.Header.Get(frontend.DecisionHeader), "allow; id=d1; would=deny")
	got := r.parts.Recorded()
	expect.Len(t, got, 2, "records")
	expect.Equal(t, got[1].Type, memproxy.EventOutcome)
	expect.Equal(t, got[1].Reasons[0].Code, memproxy.PayloadMalformed)
	expect.Equal(t, r.count(), 0)
}

func TestWritesAreStampedAndRefusalsStayHere(t *testing.T) {
	r := newRig(t, nil)
	if resp, _ := r.do(t, "POST", "/memory", "likes tea", "Content-Md5", "old"); resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	got := r.last(t)
	expect.That(t, got.body == "agent:dev says: likes tea" && got.header.Get("Content-Md5") == "", "arrived as %q %v", got.body, got.header)
	n := r.count()
	resp, said := r.do(t, "POST", "/memory", "malformed")
	if resp.StatusCode != 400 || said != `"payload.malformed"` || !strings.HasPrefix(resp.Header.Get(frontend.DecisionHeader), "deny; id=") || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %s %v", resp.StatusCode, said, resp.Header)
	}
	resp, said = r.do(t, "POST", "/memory", "x", "X-Key", "bad")
	expect.That(t, resp.StatusCode == 401, "bad credential: %d %s", resp.StatusCode, said)
	expect.Equal(t, r.count(), n, "a refused request was forwarded")
}

// If the caller hangs up, the write is completed and its outcome recorded.
func TestWriteOutlivesItsCaller(t *testing.T) {
	begun, release := make(chan bool), make(chan bool)
	r := newRig(t, func(r *rig) {
		r.parts.Wrote = make(chan memproxy.Event, 1)
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			close(begun)
			<-release
			fmt.Fprint(w, "m1 ann\n")
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	q, _ := http.NewRequestWithContext(ctx, "POST", r.URL+"/memory", strings.NewReader("x"))
	go func() { <-begun; cancel(); close(release) }()
	if resp, err := http.DefaultClient.Do(q); err == nil {
		resp.Body.Close()
	}
	ev := <-r.parts.Wrote
	expect.That(t, ev.Status == 200 && slices.Equal(ev.Memories, []string{"m1"}), "outcome %+v", ev)
}

func TestBackendGone(t *testing.T) {
	r := newRig(t, nil)
	r.upstream.Close()
	resp, said := r.do(t, "POST", "/memory", "x")
	expect.Equal(t, resp.StatusCode, 502)
	expect.Equal(t, said, `"upstream.unavailable"`)
	resp, said = r.do(t, "GET", "/ping", "")
	expect.That(t, resp.StatusCode == 502 && said == `"upstream.unavailable"`, "on a pass route: %d %s", resp.StatusCode, said)
}

func TestStreamsFlow(t *testing.T) {
	next := make(chan bool)
	r := newRig(t, func(r *rig) {
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
				<-next // the next event is sent after this one was read
			}
		}
	})
	resp := must.Get(http.Get(r.URL + "/stream"))(t)
	defer resp.Body.Close()
	br := bufio.NewReader(resp.Body)
	for i := range 3 {
		must.Equal(t, must.Get(br.ReadString('\n'))(t), fmt.Sprintf("data: %d\n", i))
		_, _ = br.ReadString('\n')
		next <- true
	}
}

func TestRedirectsStayOnTheProxy(t *testing.T) {
	r := newRig(t, nil)
	r.answer = func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Location", r.upstream.URL+"/memory/?a=%2F")
		w.WriteHeader(307)
	}
	for _, path := range []string{"/moved", "/memory"} {
		resp, _ := r.do(t, "GET", path, "")
		expect.Equal(t, resp.Header.Get("Location"), "/memory/?a=%2F", path, "Location")
	}
}

func TestUpstreamPrefix(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opt.Upstream, _ = url.Parse(r.upstream.URL + "/base/") })
	r.do(t, "GET", "/memory?q=1", "")
	expect.Equal(t, r.last(t).target, "/base/memory?q=1", "arrived as")
}

// Even over a raw connection, no second request is smuggled behind the first.
func TestNoSmugglingByLength(t *testing.T) {
	r := newRig(t, nil)
	conn := must.Get(net.Dial("tcp", r.Listener.Addr().String()))(t)
	defer conn.Close()
	fmt.Fprint(conn, "POST /memory HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /evil HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	_ = conn.(*net.TCPConn).CloseWrite()
	var out bytes.Buffer
	_, _ = io.Copy(&out, conn)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, got := range r.got {
		expect.Equal(t, got.target != "/evil", true, "a smuggled request arrived; answers", out.String())
	}
}

// Proves EDGE-13, TRL-10: a body with invalid chunks is the caller's error, in the
// backend's form; one that does not arrive is a timeout.
func TestChunksThatCannotBeRead(t *testing.T) {
	for chunks, want := range map[string]string{
		"zz\r\nabc\r\n0\r\n\r\n": "400", "5\r\nabcdefgh\r\n0\r\n\r\n": "400", "-1\r\n\r\n": "400", "ffffffffffffffffff\r\nabc": "400",
		"3\r\nabc\r\n0\r\n\r\n": "200", "3\r\nab": "408",
	} {
		arrived := 0
		inBubble(t, nil, func(q *http.Request, c net.Conn) {
			arrived++
			_, _ = io.Copy(io.Discard, q.Body)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}, func(t *testing.T, b *bubble) {
			conn, begun := b.dial(t, "POST /memory HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks), time.Now()
			got, _ := io.ReadAll(conn)
			_ = conn.Close()
			expect.That(t, strings.HasPrefix(string(got), "HTTP/1.1 "+want) && (want == "200" || strings.Contains(string(got), `"payload.`)), "%q: %s", chunks, got)
			expect.Equal(t, time.Since(begun), map[string]time.Duration{"408": proxy.DefaultBodyTimeout}[want], chunks)
		})
		expect.Equal(t, arrived > 0, want == "200", chunks, arrived, "arrived")
	}
}
