package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// raw sends bytes to the proxy, then tunnel, and returns the first answer and the rest.
func (r *rig) raw(t *testing.T, request, tunnel string) (status int, head http.Header, rest string) {
	t.Helper()
	conn := must.Get(net.Dial("tcp", r.Listener.Addr().String()))(t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(ring.Limit))
	must.Get(io.WriteString(conn, request))(t)
	in := bufio.NewReader(conn)
	method, _, _ := strings.Cut(request, " ")
	resp := must.Get(http.ReadResponse(in, &http.Request{Method: method}))(t)
	_, _ = io.ReadAll(resp.Body)
	_, _ = io.WriteString(conn, tunnel)
	_ = conn.(*net.TCPConn).CloseWrite()
	b, _ := io.ReadAll(in)
	return resp.StatusCode, resp.Header, string(b)
}

// switching is a backend that changes the protocol for every request, whether it asks
// for that or not, and then executes what it receives.
func switching(t *testing.T, orders chan<- string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			defer conn.Close()
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nwelcome")
			_ = rw.Flush()
			b, _ := io.ReadAll(rw)
			orders <- string(b)
		}()
	}
}

// Proves EDGE-13: no route becomes a tunnel, even with a backend that would turn every
// request into one.
func TestProtocolsAreNotSwitched(t *testing.T) {
	orders := make(chan string, 64)
	for _, target := range []struct{ method, path, more string }{
		{"GET", "/memory", ""}, {"POST", "/memory", "Content-Length: 1\r\n"}, {"GET", "/ping", ""}, {"POST", "/keys", "Content-Length: 1\r\n"},
		{"GET", "/health", ""}, {"GET", "/unknown", ""}, {"GET", "/custom/x", ""}, {"HEAD", "/ping", ""}, {"HEAD", "/memory", ""},
		{"OPTIONS", "/memory", "Origin: http://a\r\nAccess-Control-Request-Method: POST\r\n"},
		{"OPTIONS", "/anything", "Origin: http://a\r\nAccess-Control-Request-Method: POST\r\n"},
	} {
		for _, offer := range []string{
			"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
			"Connection: keep-alive\r\nConnection: upgrade\r\nUpgrade: h2c\r\n",
			"Upgrade: h2c\r\n",
			"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n",
			"connection: upgrade\r\nupgrade: h2c, anything/1\r\n",
			"",
		} {
			for _, profile := range []gate.Profile{gate.Production, gate.Development} {
				r := newRig(t, func(r *rig) {
					r.opt.Passthrough = []string{"* /custom/*"}
					r.answer = switching(t, orders)
					r.rules.Profile = profile
				})
				body := ""
				if strings.Contains(target.more, "Length") {
					body = "x"
				}
				request := target.method + " " + target.path + " HTTP/1.1\r\nHost: p\r\n" + target.more + offer + "\r\n" + body
				status, head, rest := r.raw(t, request, "DELETE /memory HTTP/1.1\r\nHost: p\r\nX-Key: bad\r\n\r\n")
				refused := status == 400 || status == 405
				if status == 101 || head.Get("Upgrade") != "" || strings.Contains(rest, "welcome") || !refused && (strings.Contains(offer, "websocket") || strings.Contains(offer, "anything")) {
					t.Errorf("%s %s %q: %d %v %q", target.method, target.path, offer, status, head, rest)
				}
				r.mu.Lock()
				for _, got := range r.got {
					for _, name := range []string{"Upgrade", "Http2-Settings"} {
						expect.Equal(t, got.header.Get(name), "", target.method, target.path, name, "arrived")
					}
				}
				r.mu.Unlock()
				r.upstream.CloseClientConnections()
			}
		}
	}
	for len(orders) > 0 {
		expect.Equal(t, <-orders, "", "the backend was given")
	}
}

// Proves EDGE-13: methods of other protocols, and those without routes, are refused and
// recorded on every kind of route; similar methods of routes pass.
func TestMethodsThatNoRouteHas(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opt.Passthrough = []string{"* /custom/*"} })
	for _, path := range []string{"/memory", "/ping", "/health", "/custom/x", "/unknown"} {
		for _, method := range []string{"TRACE", "PRI", "SEARCH", "PROPFIND", "get", "X"} {
			n := len(r.parts.Recorded())
			status, _, _ := r.raw(t, method+" "+path+" HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n", "")
			expect.That(t, status == 405 && r.count() == 0 && len(r.parts.Recorded()) == n+1,
				"%s %s: %d, %d arrived, %d recorded", method, path, status, r.count(), len(r.parts.Recorded())-n)
		}
	}
	for _, request := range []string{
		"CONNECT p:80 HTTP/1.1\r\nHost: p:80\r\nConnection: close\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET memory HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n",
		"GET urn:memory HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n",
	} {
		status, _, _ := r.raw(t, request, "")
		expect.That(t, (status >= 400 || strings.HasPrefix(request, "OPTIONS *")) && r.count() == 0, "%q: %d, %d arrived", request, status, r.count())
	}
	// The absolute form is for the proxy, whatever host it has.
	if status, _, _ := r.raw(t, "GET http://elsewhere.example/ping HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n", ""); status != 200 || r.last(t).target != "/ping" {
		t.Errorf("in absolute form: %d", status)
	}
	resp, _ := r.do(t, "PATCH", "/custom/x", "y")
	expect.That(t, resp.StatusCode == 200 && r.last(t).body == "y", "PATCH: %d", resp.StatusCode)
}

// Proves EDGE-13: a second method besides the one in the request line is refused and
// recorded on every route, in a header, a parameter or a field (spellings: frontend), in
// shadow mode too. Similar names pass.
func TestMethodOverridesAreRefused(t *testing.T) {
	form, part, named := "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n<input name=\"_method\">\r\n--b--\r\n"
	for _, enforce := range []bool{true, false} {
		r := newRig(t, func(r *rig) {
			r.opt.Passthrough = []string{"* /custom/*"}
			r.rules.Enforce = enforce
		})
		for _, path := range []string{"/memory", "/ping", "/health", "/custom/x", "/unknown"} {
			for name, q := range map[string][]string{
				"a header":         {"GET", "", "", "X_HTTP_Method_Override", "DELETE"},
				"a parameter":      {"GET", "?a=1&%255Fmethod=DELETE", ""},
				"a form":           {"POST", "", "a=1&_method=DELETE", "Content-Type", form},
				"a document":       {"POST", "", `{"a":[{"b":"}"}],"\u005fmethod":"DELETE"}`, "Content-Type", "application/json"},
				"a part of a form": {"POST", "", "--b\r\ncontent-disposition: form-data; name*=utf-8''%5Fmethod\r\n\r\nDELETE\r\n--b--\r\n", "Content-Type", part},
			} {
				n, before := len(r.parts.Recorded()), r.count()
				resp, said := r.do(t, q[0], path+q[1], q[2], q[3:]...)
				expect.That(t, resp.StatusCode == 400 && r.count() == before && len(r.parts.Recorded()) == n+1,
					"%s on %s: %d %s, %d arrived, %d recorded", name, path, resp.StatusCode, said, r.count()-before, len(r.parts.Recorded())-n)
			}
		}
		for _, path := range []string{"/ping?method=fast", "/custom/x?payment_method=card&methods=a", "/health"} {
			before := r.count()
			resp, said := r.do(t, "GET", path, "", "X-Methodical", "")
			expect.That(t, resp.StatusCode != 200, "%s: a header with the word: %d %s", path, resp.StatusCode, said)
			resp, said = r.do(t, "GET", path, "")
			expect.That(t, resp.StatusCode == 200 && r.count() == before+1, "%s: %d %s", path, resp.StatusCode, said)
		}
		for media, sent := range map[string]string{
			"application/json": `{"method":"tools/call","a":{"_method":"x"},"text":"_method=DELETE"}`, "application/octet-stream": `{"_method":"DELETE"}`, part: named,
		} {
			resp, _ := r.do(t, "POST", "/custom/x", sent, "Content-Type", media)
			expect.That(t, resp.StatusCode == 200 && r.last(t).body == sent, "what is merely named alike: %d %q", resp.StatusCode, r.last(t).body)
		}
	}
}

// Proves EDGE-13: hop-by-hop headers, headers with another path, and second spellings
// are not forwarded on any kind of route; nor are an upstream's hop-by-hop headers.
func TestHopByHopHeadersEndHere(t *testing.T) {
	for _, path := range []string{"/memory", "/ping", "/custom/x", "/health"} {
		r := newRig(t, func(r *rig) {
			r.opt.Passthrough = []string{"GET /custom/*"}
			r.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Connection", "X-Back")
				w.Header().Set("X-Back", "1")
				w.Header().Set("Alt-Svc", `h2="backend:443"`)
				w.Header().Set("Proxy-Authenticate", "Basic")
				w.Header().Set("X-Request-Id", "2")
				fmt.Fprint(w, "m1 ann\n")
			}
		})
		gone := []string{"X-Hop", "Proxy-Authorization", "Proxy-Connection", "Te", "Upgrade", "Http2-Settings", "Keep-Alive", "Trailer", "Expect",
			"Transfer_encoding", "Content_type", "Content_length", "X_memproxy_token", "Proxy_authorization", "Cookie_", "X-Original-Url", "X_rewrite_url", "Script_name", "Path-Info",
			"X-Request-Uri", "X-Envoy-Original-Path", "X-Forwarded-Prefix", "X.original.url", "X-Accel-Redirect", "X-Sendfile", "Destination", "X.api.key",
			"Range", "If-Range", "If-None-Match", "If-Modified-Since"}
		header := []string{"Connection", "X-Hop, Keep-Alive", "Expect", "100-continue", "User_id", "user-1", "X-End", "1", "X-Curled", "1", "X-Pathology", "2"}
		for _, name := range gone {
			if name != "Expect" && name != "Cookie_" && name != "Trailer" {
				header = append(header, name, "h2c")
			}
		}
		resp, _ := r.do(t, "GET", path, "", header...)
		got := r.last(t).header
		for _, name := range gone {
			_, there := got[name]
			expect.That(t, !there, "%s: %s arrived: %q", path, name, got[name])
		}
		expect.That(t, slices.Equal(got["User_id"], []string{"user-1"}) && got.Get("X-End") == "1" && got.Get("X-Curled") == "1" && got.Get("X-Pathology") == "2",
			"%s: headers for the backend were lost: %v", path, got)
		for _, name := range []string{"X-Back", "Alt-Svc", "Proxy-Authenticate"} {
			expect.Equal(t, resp.Header.Get(name), "", path, name, "came back")
		}
		expect.Equal(t, resp.Header.Get("X-Request-Id"), "2", path, "a header of the answer was lost")
	}
}

// Proves EDGE-13: headers that Connection names are removed before the request is ruled
// on: an identity in them would be dropped afterwards.
func TestDroppedHeadersAreNotRuledOn(t *testing.T) {
	var seen memproxy.Header
	r := newRig(t, func(r *rig) { r.opt.Adapter = peeking{frontendtest.Toy{}, &seen} })
	r.do(t, "GET", "/memory", "", "Connection", "User_id", "User_id", "user-1")
	_, there := seen["User_id"]
	expect.That(t, !there && r.last(t).header["User_id"] == nil, "ruled on with %v", seen)
}

// peeking is the toy that exposes the headers of its requests.
type peeking struct {
	frontendtest.Toy
	seen *memproxy.Header
}

func (p peeking) Route(q memproxy.Request) (memproxy.Route, bool) {
	*p.seen = q.Header
	return p.Toy.Route(q)
}

// Proves EDGE-13: a CORS preflight is forwarded for existing routes only, without a
// body and with its own headers, and only CORS headers are returned. Any other OPTIONS
// request is ruled on as usual.
func TestPreflights(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.opt.Passthrough = []string{"POST /custom/*"}
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Access-Control-Allow-Origin", "https://app.example")
			w.Header().Set("Vary", "Origin")
			w.Header().Set("Set-Cookie", "a=b")
			w.Header().Set("X-Secret", "c")
			fmt.Fprint(w, "canary")
		}
	})
	ask := []string{"Origin", "https://app.example", "Access-Control-Request-Headers", "authorization", "Authorization", "Token mine", "Cookie", "s=1", "X-Any", "1"}
	for _, path := range []string{"/memory?x=1", "/ping", "/custom/x"} {
		resp, said := r.do(t, "OPTIONS", path, "", append(ask, "Access-Control-Request-Method", "POST")...)
		expect.That(t, resp.StatusCode == 200 && said == "" && resp.Header.Get("Access-Control-Allow-Origin") != "" && resp.Header.Get("Set-Cookie")+resp.Header.Get("X-Secret") == "",
			"%s: %d %q %v", path, resp.StatusCode, said, resp.Header)
		got := r.last(t)
		for name := range got.header {
			expect.That(t, strings.HasPrefix(name, "Access-Control-Request-") || name == "Origin", "%s: %s arrived", path, name)
		}
		expect.Equal(t, got.target, path)
		expect.Equal(t, got.body, "")
	}
	before := r.count()
	for name, q := range map[string][]string{
		"of no route":            {"/unknown", "", "Access-Control-Request-Method", "POST"},
		"of another method":      {"/custom/x", "", "Access-Control-Request-Method", "DELETE"},
		"of no method":           {"/ping/more", "", "Access-Control-Request-Method", "TRACE"},
		"with a body":            {"/unknown", "x", "Access-Control-Request-Method", "POST"},
		"without a method":       {"/unknown", ""},
		"that overrides":         {"/memory?_method=POST", "", "Access-Control-Request-Method", "POST"},
		"for another protocol":   {"/memory", "", "Access-Control-Request-Method", "POST", "Upgrade", "websocket"},
		"with a method's header": {"/memory", "", "Access-Control-Request-Method", "POST", "X-Method", "POST"},
	} {
		resp, said := r.do(t, "OPTIONS", q[0], q[1], append([]string{"Origin", "https://app.example"}, q[2:]...)...)
		expect.That(t, resp.StatusCode >= 400 && r.count() == before && !strings.Contains(said, "canary"), "a preflight %s: %d %s, %d arrived", name, resp.StatusCode, said, r.count()-before)
	}
}

// Proves EDGE-13: routes that touch no memory are for identified callers, and recorded,
// and so are passthrough patterns; in development they are open, and public routes are
// always open.
func TestPassedRoutesNeedACaller(t *testing.T) {
	for _, profile := range []gate.Profile{gate.Production, gate.Development} {
		r := newRig(t, func(r *rig) {
			r.opt.Passthrough = []string{"GET /custom/*"}
			r.rules.Profile = profile
		})
		for _, path := range []string{"/ping", "/custom/x", "/custom/known"} {
			n, before := r.decided(), r.count()
			resp, said := r.do(t, "GET", path, "", "X-Key", "bad")
			closed := resp.StatusCode == 401 && said == `"identity.invalid"` && r.count() == before
			expect.That(t, closed == (profile == gate.Production) && r.decided() != n, "%s: %s: %d %s, %d recorded", profile, path, resp.StatusCode, said, r.decided()-n)
			resp, _ = r.do(t, "GET", path, "")
			expect.That(t, resp.StatusCode == 200 && resp.Header.Get("X-Memproxy-Decision") != "", "%s: %s: %d for a known caller", profile, path, resp.StatusCode)
		}
		n := r.decided()
		if resp, _ := r.do(t, "GET", "/health", "", "X-Key", "bad"); resp.StatusCode != 200 || r.decided() != n {
			t.Errorf("%s: public: %d", profile, resp.StatusCode)
		}
	}
}

// decided returns the number of recorded decisions. Outcomes are recorded after the
// caller has the answer.
func (r *rig) decided() (n int) {
	for _, ev := range r.parts.Recorded() {
		if ev.Type == memproxy.EventDecision {
			n++
		}
	}
	return n
}
