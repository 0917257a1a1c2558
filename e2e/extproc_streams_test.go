//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// pingEvent is an event that agents' streams have.
const pingEvent = `{"message_type":"ping","id":"ping-%d","date":"2026-01-01T00:00:00Z"}`

// events is a backend that streams: it sends the next event when it is told to.
func events(next <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: "+pingEvent+"\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	}
}

// readEvents reads events one by one, and has each sent only when the one
// before it was read: a filter that gathered them would never end.
func readEvents(t *testing.T, method, url string, next chan<- struct{}) {
	t.Helper()
	body := "{}"
	if method == http.MethodGet {
		body = ""
	}
	req := must.Get(http.NewRequest(method, url, strings.NewReader(body)))(t)
	req.Header.Set("Authorization", "Bearer m0sk_eve")
	req.Header.Set("Content-Type", "application/json")
	resp := must.Get((&http.Client{Timeout: soon}).Do(req))(t)
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	in := bufio.NewReader(resp.Body)
	for i := range 3 {
		must.Equal(t, must.Get(in.ReadString('\n'))(t), fmt.Sprintf("data: "+pingEvent+"\n", i), "event", i)
		must.Get(in.ReadString('\n'))(t)
		next <- struct{}{}
	}
}

// Proves CARD-9: streams pass as they come, where nothing is memory and where
// an agent runs that is only watched.
func TestEnvoyStreams(t *testing.T) {
	t.Parallel()
	b := startEnvoy(t, runsByProcessor...)
	for name, c := range map[string]struct{ kind, enforce, addr, method, path string }{
		"not memory":               {"letta", "true", b.letta, "GET", "/custom/stream"},
		"a run, in shadow":         {"letta", "false", b.letta, "POST", "/v1/agents/agent-00000000-0000-4000-8000-000000000001/messages/stream"},
		"a run that is only heard": {"letta", "true", b.letta, "POST", "/v1/runs/run-00000000-0000-4000-8000-000000000001/stream"},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			next := make(chan struct{}, 3)
			stream := events(next)
			b.answers(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost || strings.HasPrefix(r.URL.Path, "/custom/") {
					stream(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				if strings.HasPrefix(r.URL.Path, "/v1/runs/run-") {
					fmt.Fprint(w, `{"id":"run-00000000-0000-4000-8000-000000000001","agent_id":"agent-00000000-0000-4000-8000-000000000001","status":"running"}`)
					return
				}
				fmt.Fprint(w, `[]`)
			}))
			b.start(settings(t, "kind", c.kind, "enforce", c.enforce))
			defer func() { b.memproxy.stop() }()
			readEvents(t, c.method, "http://"+c.addr+c.path, next)
		})
	}
}

// runsByProcessor are the edits of the example that send runs the processor's way.
var runsByProcessor = []string{"&by_http {cluster: memproxy_letta,", "&by_http {cluster: letta,", "disabled: true", "overrides: {}"}

// Proves CARD-9: behind the shipped configuration a run's stream lasts as long as
// it is never silent for too long, by either listener; what its silence ends is
// recorded as what it is. Half an hour is two seconds here.
func TestEnvoyStreamsLastWhileTheySend(t *testing.T) {
	t.Parallel()
	const run = "/v1/runs/run-00000000-0000-4000-8000-000000000001"
	for name, c := range map[string]struct {
		edits []string
		ended string
	}{
		"HTTP listener": {nil, "client_gone"},
		"processor":     {runsByProcessor, "reset"},
	} {
		t.Run(name, func(t *testing.T) {
			b := startEnvoy(t, append(slices.Clone(c.edits), "idle_timeout: 1860s", "idle_timeout: 2s")...)
			const sent = 20
			over := make(chan struct{}) // the HTTP listener learns by the next event that its client is gone
			b.answers(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					w.Header().Set("Content-Type", "application/json")
					if r.URL.Path == run {
						fmt.Fprintf(w, `{"id":%q,"agent_id":%q,"status":"running"}`, strings.TrimPrefix(run, "/v1/runs/"), runner)
						return
					}
					fmt.Fprint(w, `[]`)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				for i := 0; r.Context().Err() == nil; i++ {
					if i == sent {
						<-over
					}
					fmt.Fprintf(w, "data: "+pingEvent+"\n\n", i)
					_ = http.NewResponseController(w).Flush()
					time.Sleep(200 * time.Millisecond)
				}
			}))
			b.start(settings(t, "kind", "letta"))
			a, err := tryCall(http.MethodPost, "http://"+b.letta+run+"/stream", "", "{}", "Authorization", "Bearer m0sk_eve")
			close(over)
			n := strings.Count(a.body, "data: ")
			expect.That(t, a.status == 200 && n == sent && err != nil, "%d, %d events, and then %v", a.status, n, err)
			waitFor(t, "the outcome", func() bool { return strings.Contains(b.audit(), `"ended":"`+c.ended+`"`) })
		})
	}
}

// h2c speaks HTTP/2 in clear text and nothing else.
func h2c() *http.Client {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return &http.Client{Timeout: soon, Transport: &http.Transport{Protocols: p}}
}

// Proves CARD-9, EDGE-13: HTTP/2 on both sides, and lists with it; trailers, which
// nobody rules on and nobody claims, are taken off.
func TestEnvoyHTTP2(t *testing.T) {
	t.Parallel()
	b := startEnvoy(t, "  - name: mem0\n    connect_timeout: 1s\n", `  - name: mem0
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
`)
	var saw *http.Request
	var body []byte
	b.answers(callers(func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		saw = r
		w.Header().Set("Content-Type", "application/json")
		w.Header().Add("Vary", "one")
		w.Header().Add("Vary", "two")
		w.Header().Set("Trailer", "X-After")
		fmt.Fprint(w, `{"results":[]}`)
		w.Header().Set("X-After", "all")
	}))
	b.start(settings(t))
	req := must.Get(http.NewRequest("POST", "http://"+b.mem0+"/memories", chunked{strings.NewReader(addBody)}))(t)
	req.Header["X-Twice"] = []string{"one", "two"}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", "m0sk_dev")
	req.Trailer = http.Header{"X-Trailer": {"late"}}
	resp := must.Get(h2c().Do(req))(t)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	must.That(t, err == nil && resp.StatusCode == 200 && string(got) == `{"results":[]}`, "%d %s %v", resp.StatusCode, got, err)
	expect.Equal(t, resp.ProtoMajor, 2, "HTTP/")
	expect.Equal(t, saw.ProtoMajor, 2, "HTTP/")
	if !slices.Equal(saw.Header["X-Twice"], []string{"one", "two"}) || strings.Join(resp.Header["Vary"], ",") != "one,two" { // Envoy has one line of it
		t.Errorf("lists: up %q, down %q", saw.Header["X-Twice"], resp.Header["Vary"])
	}
	expect.Equal(t, saw.Trailer.Get("X-Trailer"), "", "trailers: up", saw.Trailer, "down", resp.Trailer)
	expect.Equal(t, resp.Trailer.Get("X-After"), "", "trailers: up", saw.Trailer, "down", resp.Trailer)
	expect.That(t, bytes.Contains(body, []byte(`"memproxy_sig"`)) && saw.ContentLength == int64(len(body)), "arrived with length %d: %s", saw.ContentLength, body)
}

// Proves CARD-9: a request that ends in trailers instead of a body cannot slip
// by: Envoy has no body to ask about.
func TestEnvoyTrailersWithoutBody(t *testing.T) {
	t.Parallel()
	b, rec := recording(t)
	for _, path := range []string{"/memories?user_id=ann", "/memories/00000000-0000-4000-8000-00000000bbbb"} {
		status := trailersOnly(t, b.mem0, "DELETE", path)
		if status < 400 {
			t.Errorf("%s: %s", path, fmt.Sprint(status))
		}
		for _, a := range rec.arrived() {
			expect.That(t, !strings.HasPrefix(a, "DELETE"), "arrived %q", a)
		}
	}
	expect.Equal(t, strings.Count(b.audit(), "has trailers but no body"), 2)
}

// trailersOnly sends headers and trailers and no data, which no ordinary
// client does, and returns the status.
func trailersOnly(t *testing.T, addr, method, path string) int {
	t.Helper()
	conn := must.Get(net.Dial("tcp", addr))(t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(soon))
	must.Get(io.WriteString(conn, http2.ClientPreface))(t)
	fr := http2.NewFramer(conn, conn)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	must.Do(t, fr.WriteSettings())
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	write := func(end bool, fields ...string) {
		block.Reset()
		for i := 0; i+1 < len(fields); i += 2 {
			must.Do(t, enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
		}
		must.Do(t, fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end}))
	}
	write(false, ":method", method, ":scheme", "http", ":authority", "mem.example", ":path", path, "x-api-key", "m0sk_dev")
	write(true, "x-trailer", "late")
	for {
		f := must.Get(fr.ReadFrame())(t)
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = fr.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				if h.Name == ":status" {
					var n int
					_, _ = fmt.Sscan(h.Value, &n)
					return n
				}
			}
		case *http2.RSTStreamFrame:
			t.Fatalf("reset: %v", f.ErrCode)
		}
	}
}

// odd is a request as bytes.
type odd struct {
	method, target string
	head           []string // further header lines
	body           string   // of JSON, framed by its length unless head says otherwise
}

func (o odd) String() string {
	lines := []string{o.method + " " + o.target + " HTTP/1.1", "Host: mem.example", "X-Api-Key: m0sk_dev", "Connection: close"}
	if o.body != "" && !slices.ContainsFunc(o.head, framed) {
		lines = append(lines, fmt.Sprintf("Content-Length: %d", len(o.body)))
	}
	return strings.Join(append(lines, o.head...), "\r\n") + "\r\n\r\n" + o.body
}

func framed(head string) bool {
	return strings.HasPrefix(head, "Content-Length") || strings.HasPrefix(head, "Transfer-Encoding")
}

// oddities are requests that two parsers could read in two ways: every spelling of a
// path, header and framing, with and without a body.
func oddities() (out []odd) {
	const json = "Content-Type: application/json"
	chunked := fmt.Sprintf("%x;a=b\r\n%s\r\n0\r\nX-Trailer: late\r\n\r\n", len(addBody), addBody)
	for _, path := range []string{
		"/memories", "/memories/", "//memories", "/./memories", "/x/../memories", "/%2e%2e/memories", "/x/..%2fmemories", "/%6demories", "/MEMORIES", "\\memories", "/memories%2F",
		"/memories;a=b", "/memories%3Bx", "/memories#x", "/memories%00", "/memories%0a", "/memories?_method=DELETE", "/memories/..;/reset", "/reset/../memories", "/memories/../reset", "/%72eset",
		"http://evil.example/memories", "https://evil.example/memories", "*",
	} {
		out = append(out, odd{"POST", path, []string{json}, addBody}, odd{"GET", path + "?user_id=ann", nil, ""})
	}
	for _, head := range []string{
		"X-HTTP-Method-Override: DELETE", "X-Original-URL: /reset", "X-Envoy-Original-Path: /reset", "X-Forwarded-Prefix: /x", "Forwarded: host=evil.example", "Connection: x-api-key",
		"Upgrade: websocket\r\nConnection: Upgrade", "Expect: 100-continue", "TE: trailers", "Range: bytes=0-5", "X-Memproxy-Backend: letta", "X_Api_Key: other", "Content_Length: 5",
		"Content-Encoding: gzip", "Content-Type: text/plain", "Content-Length: 5", "Content-Length: +5", "Transfer-Encoding: identity", "Transfer-Encoding: chunked, chunked", "Cookie: a=b",
	} {
		out = append(out, odd{"POST", "/memories", []string{json, head}, addBody})
		if !framed(head) {
			out = append(out, odd{"GET", "/memories?user_id=ann", []string{head}, ""})
		}
	}
	out = append(out, odd{"POST", "/memories", []string{json, "Transfer-Encoding: chunked"}, chunked}, odd{"POST", "/memories", []string{json, "Transfer-Encoding: chunked", "Content-Length: 5"}, chunked})
	for _, body := range []string{"\ufeff" + addBody, addBody + "{}", `{"user_id":"eve",` + addBody[1:], strings.Replace(addBody, "tea", `\ud800`, 1), addBody[:len(addBody)-1] + `,"_method":"DELETE"}`, addBody[:len(addBody)-1] + `/**/}`} {
		out = append(out, odd{"POST", "/memories", []string{json}, body})
	}
	for _, method := range []string{"HEAD", "TRACE", "PUT", "post", "PROPFIND", "OPTIONS"} {
		out = append(out, odd{method, "/memories?user_id=ann", nil, ""}, odd{method, "/memories", []string{json}, addBody})
	}
	return out
}

// stamped is what differs from one write to another.
var stamped = regexp.MustCompile(`"memproxy_\w+":("[^"]*"|[0-9.]+),?`)

// Proves CARD-9, EDGE-13: whatever of an odd request arrives through the real Envoy, the
// HTTP listener forwards as well, in the same way, if it is asked for what arrived: the
// two rule on what the backend gets.
func TestEnvoyForwardsWhatTheHTTPListenerWould(t *testing.T) {
	t.Parallel()
	b := startEnvoy(t)
	arrived := make(chan string, 16)
	b.answers(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.UserAgent() != memproxy.UserAgent { // a first start seals the backend
			var named []string
			for name, values := range r.Header {
				switch {
				case strings.HasPrefix(name, "X-Forwarded-"), strings.HasPrefix(name, "X-Envoy-"), name == "X-Request-Id", name == "Traceparent", name == "Content-Length", name == "Accept-Encoding", name == "Te":
				default:
					named = append(named, fmt.Sprintf("%s=%q", name, values))
				}
			}
			slices.Sort(named)
			arrived <- fmt.Sprintf("%s %s %s %s", r.Method, r.RequestURI, named, stamped.ReplaceAllString(string(body), ""))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"results":[]}`)
	}))
	b.start(settings(t, "writes_per_hour", "100000"))
	send := func(addr string, o odd) (got []string) {
		conn := must.Get(net.Dial("tcp", addr))(t)
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(soon))
		_, _ = io.WriteString(conn, o.String())
		if resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: o.method}); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		for {
			select {
			case a := <-arrived:
				got = append(got, a)
			default:
				return got
			}
		}
	}
	through := 0
	for _, o := range oddities() {
		got := send(b.mem0, o)
		if len(got) == 0 {
			continue // Envoy or the processor refused it
		}
		through++
		plain := o
		plain.method, plain.target, _ = strings.Cut(got[0], " ")
		plain.target, _, _ = strings.Cut(plain.target, " ")
		if o.method == "HEAD" {
			plain.method = "HEAD" // both ask for the whole answer
		}
		want := send(b.httpMem0, plain)
		expect.That(t, len(got) <= 1 && slices.Equal(got, want), "%q arrives as\n%q, and as what arrived through the HTTP listener as\n%q", o, got, want)
	}
	expect.That(t, through >= 20, "%d requests came through", through)
}
