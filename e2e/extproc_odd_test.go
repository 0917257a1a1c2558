//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

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
