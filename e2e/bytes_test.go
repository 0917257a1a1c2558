//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// raw sends a request as written and reads the answer whole.
func raw(t *testing.T, base, request string) answer {
	t.Helper()
	c := must.Get(net.Dial("tcp", strings.TrimPrefix(base, "http://")))(t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	must.Get(io.WriteString(c, request))(t)
	method, _, _ := strings.Cut(request, " ")
	resp := must.Get(http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method}))(t)
	defer resp.Body.Close()
	body := must.Get(io.ReadAll(resp.Body))(t)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(body)}
}

func post(path, headers, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: mem.example\r\nConnection: close\r\nX-API-Key: m0sk_e2e\r\n%sContent-Length: %d\r\n\r\n%s", path, headers, len(body), body)
}

func get(path, headers string) string {
	auth := "X-API-Key: m0sk_e2e\r\n"
	if strings.HasPrefix(path, "/v1/") { // the hosted dialect
		auth = "Authorization: Token m0-e2e\r\n"
	}
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: mem.example\r\nConnection: close\r\n%s%s\r\n", path, auth, headers)
}

// Proves CARD-1: requests that are not memory, and memory requests that
// nothing changes, arrive as they were sent, and so do the answers.
func TestByteForByte(t *testing.T) {
	t.Parallel()
	eng := startEngine(t)
	car := serve(t, t.TempDir(), dropin(eng, "", ""))
	const json = "Content-Type: application/json\r\n"
	for name, request := range map[string]string{
		"not memory":              get("/v1/ping/", "X-Twice: one\r\nX-Twice: two\r\nAccept: */*\r\n"),
		"not memory, odd query":   get("/v1/ping/?b=%7e&a=1&a=+2&&c", ""),
		"a search, oddly spaced":  post("/search", json+"X-Twice: one\r\nX-Twice: two\r\n", "{ \"query\" : \"caf\\u00e9 \\/ tea\",\r\n\t\"user_id\":\"ann\", \"top_k\": 1.0e1 }\n"),
		"a search, unknown field": post("/search", json, `{"query":"x","user_id":"ann","limit":12345678901234567890,"zz":{"a":[1,2.50,null]}}`),
		"a list":                  get("/memories?user_id=ann&limit=5", "Accept: application/json\r\n"),
		"a list, escaped":         get("/memories?user_id=an%6e&top_k=5", ""),
		"one that is missing":     get("/memories/00000000-0000-4000-8000-000000000000", ""),
		"trailing slash":          get("/v1/memories/?user_id=ann&page=1&page_size=2", ""),
	} {
		t.Run(name, func(t *testing.T) {
			eng.forget(t)
			direct := raw(t, eng.base, request)
			proxied := raw(t, car.base, request)
			log := eng.requests(t)
			must.Len(t, log, 2)
			want, got := log[0], log[1]
			expect.That(t, got.Method == want.Method && got.Path == want.Path && got.Query == want.Query && bytes.Equal(got.Body, want.Body),
				"arrived %s %s?%s %q\nsent    %s %s?%s %q", got.Method, got.Path, got.Query, got.Body, want.Method, want.Path, want.Query, want.Body)
			if w, g := own(want.Headers), own(got.Headers); !slices.Equal(g, w) {
				t.Errorf("headers arrived\n %q\nsent\n %q", g, w)
			}
			proxied.want(t, direct.status)
			expect.Equal(t, proxied.body, direct.body)
			if direct.header.Get("Cache-Control") == "" && proxied.header.Get("Cache-Control") == "no-store" {
				proxied.header.Del("Cache-Control") // what was filtered for one caller is nobody else's
			}
			if w, g := shown(direct.header), shown(proxied.header); !slices.Equal(g, w) {
				t.Errorf("answer headers\n %q\ndirect\n %q", g, w)
			}
		})
	}
}

// own are the headers that the client sent, sorted as pairs: order between
// names means nothing, order within a name is kept by the sort being stable.
// What a hop sets for itself is left out: connection handling, the trace, and
// the encoding that an inspected answer is asked for in.
func own(headers [][2]string) []string {
	var out []string
	for _, h := range headers {
		switch strings.ToLower(h[0]) {
		case "host", "connection", "traceparent", "accept-encoding":
		default:
			out = append(out, strings.ToLower(h[0])+": "+h[1])
		}
	}
	slices.SortStableFunc(out, func(a, b string) int {
		x, _, _ := strings.Cut(a, ":")
		y, _, _ := strings.Cut(b, ":")
		return strings.Compare(x, y)
	})
	return out
}

func shown(h http.Header) []string {
	var out []string
	for name, values := range h {
		switch name {
		case "Date", "Connection", "X-Memproxy-Decision", "Server", "X-Request-Id": // each answer its own
			continue
		}
		for _, v := range values {
			out = append(out, name+": "+v)
		}
	}
	slices.Sort(out)
	return out
}
