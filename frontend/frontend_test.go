package frontend_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	slashpath "path"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves CARD-1: passthrough opens the named paths and none that is ambiguous.
func TestPatterns(t *testing.T) {
	ps := must.Get(frontend.ParsePatterns([]string{"get /custom/*", "* /open/*/end", "POST /one"}))(t)
	for _, c := range []struct {
		method, path string
		want         bool
	}{
		{"GET", "/custom/a", true},
		{"GET", "/custom/a/b", true},
		{"GET", "/custom/", true},
		{"POST", "/custom/a", false},
		{"GET", "/customs/a", false},
		{"DELETE", "/open/x/end", true},
		{"DELETE", "/open/x/y/end", false},
		{"DELETE", "/open/x/end/more", false},
		{"POST", "/one", true},
		{"POST", "/one/", false},
		{"GET", "/custom/../v1", false},
		{"GET", "/custom/..%2fv1", false},
		{"GET", "/custom/./a", false},
		{"GET", "/custom//a", false},
		{"GET", "/custom/a;v=1", false},
		{"GET", `/custom/..\v1`, false},
		{"GET", "custom/a", false},
		{"GET", "", false},
	} {
		expect.Equal(t, ps.Match(c.method, c.path), c.want, c.method, c.path)
	}
	for _, bad := range []string{"", "GET", "GET custom", "/custom"} {
		expect.ErrorHas(t, expect.Err(frontend.ParsePatterns([]string{bad})), "passthrough", bad)
	}
}

func FuzzPatterns(f *testing.F) {
	f.Add("GET /custom/*", "GET", "/custom/a")
	f.Add("* /*", "POST", "/..%2f")
	f.Fuzz(func(t *testing.T, entry, method, path string) {
		ps, err := frontend.ParsePatterns([]string{entry})
		if err != nil || !ps.Match(method, path) {
			return
		}
		// All servers read an opened path in the same way.
		clean := slashpath.Clean(path)
		expect.That(t, (clean == path || clean+"/" == path) && !strings.Contains(path, "%"), "%q opens %q", entry, path)
	})
}

func TestRelocated(t *testing.T) {
	up, _ := url.Parse("http://up:8000/base/")
	for location, want := range map[string]string{
		"http://up:8000/base/v1/":    "/v1/",
		"//up:8000/base/v1/":         "/v1/",
		"https://up:8000/base/v1":    "",
		"http://UP:8000/base/v1?a=b": "/v1?a=b",
		"http://u:p@up:8000/base/v1": "/v1",
		"http://elsewhere/base/v1":   "",
		"http://up:8000/base":        "/",
		"http://up:8000/base?a=b":    "/?a=b",
		"http://up:8000/base/v%2F1":  "/v%2F1",
		"http://up:8000/base//evil":  "/evil",
		"http://up:8000/baseline":    "/baseline",
		"http://up:8000/v1/":         "/v1/", // a backend that does not know its prefix
		"/base/v1/?a=b":              "/v1/?a=b",
		"/base":                      "/",
		"/baseline":                  "",
		"/relative":                  "",
		"/rel\\ative":                "",
		"relative":                   "",
		"base/v1":                    "",
		"mailto:a":                   "",
		"":                           "",
		"http://up:8000\x7f/":        "",
	} {
		h := http.Header{"Location": {location}}
		frontend.RewriteLocation(h, up, nil)
		expect.Equal(t, h.Get("Location"), cmp.Or(want, location), location)
	}
	h := http.Header{"Location": {"https://up:8000/base/v1/"}}
	frontend.RewriteLocation(h, up, http.Header{"X-Forwarded-Proto": {"https"}}) // the backend built it with the client's scheme
	expect.Equal(t, h.Get("Location"), "/v1/")
}

func TestReadAnswer(t *testing.T) {
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	_, _ = zw.Write([]byte(strings.Repeat("a", 100)))
	_ = zw.Close()
	answer := func(encoding string, body []byte, length int64) *http.Response {
		return &http.Response{Header: http.Header{"Content-Encoding": {encoding}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: length}
	}
	for name, c := range map[string]struct {
		resp    *http.Response
		limit   int64
		want    int
		decoded bool
		err     error
	}{
		"of known length":     {answer("", []byte("abc"), 3), 3, 3, false, nil},
		"of unknown length":   {answer("Identity", []byte("abc"), -1), 3, 3, false, nil},
		"announced too large": {answer("", []byte("abcd"), 4), 3, 0, false, frontend.ErrTooLarge},
		"is too large":        {answer("", []byte("abcd"), -1), 3, 0, false, frontend.ErrTooLarge},
		"cut short":           {answer("", []byte("ab"), 3), 3, 0, false, io.ErrUnexpectedEOF},
		"compressed":          {answer("gzip", zipped.Bytes(), int64(zipped.Len())), 100, 100, true, nil},
		"grows too large":     {answer("gzip", zipped.Bytes(), int64(zipped.Len())), 99, 0, true, frontend.ErrTooLarge},
	} {
		body, decoded, err := frontend.ReadAnswer(c.resp, c.limit, nil)
		expect.That(t, len(body) == c.want && decoded == c.decoded && errors.Is(err, c.err), "%s: %d bytes, decoded %v, %v", name, len(body), decoded, err)
		why := frontend.AnswerFlaw(err, c.limit)
		expect.That(t, (why != nil) == (c.err == frontend.ErrTooLarge) && (why == nil || strings.Contains(why.Detail, fmt.Sprintf("%d bytes (the backend's limits.answer)", c.limit))),
			"%s: reported as %+v", name, why)
	}
	var reserved []int64
	if _, _, err := frontend.ReadAnswer(answer("", make([]byte, 3<<20), 3<<20), 4<<20, func(n int64) error { reserved = append(reserved, n); return nil }); err != nil || len(reserved) != 1 {
		t.Errorf("an announced answer is reserved in steps of %d: %v", reserved, err)
	}
	if _, _, err := frontend.ReadAnswer(answer("br", nil, 0), 10, nil); frontend.AnswerFlaw(err, 10) == nil {
		t.Errorf("an encoding that was not asked for: %v", err)
	}
	if why := frontend.AnswerFlaw(fmt.Errorf("read: %w", frontend.ErrBusy), 10); why == nil || why.Code != memproxy.LimitInFlight || why.Status != 503 {
		t.Errorf("without room it is reported as %+v", why)
	}
	plain := []byte("abc")
	if got, _, err := frontend.Decompress(plain, nil, 3, nil); err != nil || &got[0] != &plain[0] {
		t.Error("a plain answer is copied")
	}
}

// A side request has the caller's identity and nothing of its request; the backend's
// own credential replaces the client's.
func TestSideRequests(t *testing.T) {
	var got *http.Request
	var sent string
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, sent = r, string(b)
		_, _ = w.Write([]byte("answer"))
	}))
	defer up.Close()
	base, _ := url.Parse(up.URL + "/base")
	side := frontend.NewSide(&frontend.Backend{
		Upstream: base, Credential: &frontend.Credential{Header: "X-Api-Key", Value: "own"},
	}, http.DefaultTransport, nil, propagation.TraceContext{})
	q := memproxy.Request{Method: "PUT", EscapedPath: "/v1/a%20b", Query: "x=1", Header: memproxy.Header{
		"Authorization": {"Token theirs"}, "X-Project": {"p"}, "Content-Md5": {"x"}, "X-Memproxy-Session": {"s"},
	}}
	reply, err := side.Send(t.Context(), q, []byte("{}"))
	must.Do(t, err, reply)
	must.Equal(t, string(reply.Body), "answer", reply)
	expect.That(t, got.Method == "PUT" && got.RequestURI == "/base/v1/a%20b?x=1" && sent == "{}", "sent %s %s %q", got.Method, got.RequestURI, sent)
	for name, want := range map[string]string{"X-Api-Key": "own", "Authorization": "", "X-Project": "p", "Content-Md5": "", "X-Memproxy-Session": "", "Accept-Encoding": "identity"} {
		expect.Equal(t, got.Header.Get(name), want, name)
	}
	up.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Etag", `"x"`)
		_, _ = io.WriteString(w, frontendtest.Zipped("answer"))
	})
	reply, err = side.FetchAnswer(t.Context(), memproxy.Request{Method: "GET", EscapedPath: "/v1"}, 100)
	expect.That(t, err == nil && string(reply.Body) == "answer" && reply.Header.Get("Content-Encoding") == "" && reply.Header.Get("Etag") == "",
		"one that was compressed: %v, %v", reply, err)
}

// Proves EDGE-3: the header names a stricter verdict of shadow mode, and not that the
// request of a refused answer was allowed: that would tell a missing object from
// another tenant's.
func TestDecisionWords(t *testing.T) {
	for want, d := range map[string]memproxy.Decision{
		"allow; id=d1; would=deny": {ID: "d1", Verdict: memproxy.Allow, ShadowVerdict: memproxy.Deny},
		"deny; id=d1":              {ID: "d1", Verdict: memproxy.Deny, ShadowVerdict: memproxy.Allow},
	} {
		expect.Equal(t, frontend.FormatDecision(&d), want)
	}
	told := map[string]string{}
	frontend.SetListHeaders(&gate.Admission{Contested: strings.Split(strings.Repeat("a,", 100), ","), Rewritten: []string{"/a", "/n\u00e4me\n/0"}}, func(name, value string) { told[name] = value })
	n := strings.Count(told[frontend.ContestedHeader], "a")
	expect.That(t, n == 64 && told[frontend.RewrittenHeader] == "/a, /n%C3%A4me%0A/0" && len(told) == 2, "what an answer names: %q", told)
	got := frontend.Session(memproxy.Header{frontend.SessionHeader: {strings.Repeat("s", 200)}}).String()
	expect.That(t, len(got) <= 64 && !strings.Contains(got, "ss"), "a session's name gets in: %s", got)
}

// Proves EDGE-13: a change of protocol is refused by the head of a request, and so are
// a method without routes, a second method besides the one in the request line, and a
// fragment, without which some servers read the query; an offer that a server may ignore
// is ignored, as its clients expect.
func TestChart(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		header memproxy.Header
		query  string
		status int
	}{
		"plain":                 {"GET", nil, "a=1", 0},
		"websocket":             {"GET", memproxy.Header{"Upgrade": {"websocket"}}, "", 400},
		"one of several":        {"POST", memproxy.Header{"Upgrade": {"h2c", "tls/1.0, h2c"}}, "", 400},
		"h2c, which is ignored": {"POST", memproxy.Header{"Upgrade": {"h2c"}, "Http2-Settings": {"x"}}, "", 0},
		"trace":                 {"TRACE", nil, "", 405},
		"connect":               {"CONNECT", nil, "", 405},
		"nothing":               {"", nil, "", 405},
		"header":                {"GET", memproxy.Header{"X_Http_Method_Override": {"PUT"}}, "", 400},
		"parameter":             {"GET", nil, "x=1;%5Fmethod=PUT", 400},
		"named alike":           {"GET", nil, "method=a&payment_method=b&http_methods=c", 0},
		"header with a dot":     {"GET", memproxy.Header{"X.http.method": {"PUT"}}, "", 400},
		"header with a verb":    {"GET", memproxy.Header{"X-Verb": {"PUT"}}, "", 400},
		"header named alike":    {"GET", memproxy.Header{"X-Verbose": {"1"}}, "", 0},
		"how often, for Envoy":  {"POST", memproxy.Header{"X-Envoy-Retry-On": {"5xx"}}, "", 400},
		"so often, for Envoy":   {"POST", memproxy.Header{"X_Envoy_Max_Retries": {"9"}}, "", 400},
		"twice at once":         {"POST", memproxy.Header{"X-Envoy-Hedge-On-Per-Try-Timeout": {"true"}}, "", 400},
		"where, for Envoy":      {"GET", memproxy.Header{"X-Envoy-Original-Dst-Host": {"192.0.2.1:80"}}, "", 400},
		"how long, for Envoy":   {"POST", memproxy.Header{"X-Envoy-Upstream-Rq-Timeout-Ms": {"1"}}, "", 400},
		"what Envoy says":       {"POST", memproxy.Header{"X-Envoy-Expected-Rq-Timeout-Ms": {"15000"}, "X-Envoy-Attempt-Count": {"1"}, "X-Envoy-External-Address": {"192.0.2.1"}}, "", 0},
		"a fragment":            {"DELETE", nil, "user_id=bob#x", 400},
		"a number sign":         {"GET", nil, "user_id=bob%23x", 0},
		"asked of a browser":    {"GET", memproxy.Header{"Access-Control-Request-Method": {"PUT"}}, "", 0},
	} {
		got := frontend.Classify(nowhere{}, nil, frontend.Head{Request: memproxy.Request{Method: c.method, EscapedPath: "/x", Query: c.query, Header: c.header}, Sent: c.header})
		if status := 0; got.Flaw != nil {
			status = got.Flaw.Status
			expect.Equal(t, status, c.status, name)
			expect.Equal(t, got.Handling, frontend.Gated, name)
		} else if c.status != 0 {
			t.Errorf("%s: crosses", name)
		}
	}
}

// Proves EDGE-13: each spelling of a second method's header or parameter is refused.
func TestSpellingsOfTheMethodAreRefused(t *testing.T) {
	headers := []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X_METHOD", "HTTP-Method", "_method", "X-Http-Verb", "X-Methodical"}
	queries := []string{"_method=DELETE", "a=1&_Method=PUT", "%5fmethod=DELETE", "%255Fmethod=DELETE", "X-HTTP-Method-Override=PUT", "x_http_method=PUT", "a;_method=PUT", "_method"}
	for _, spelled := range append(headers, queries...) {
		q := memproxy.Request{Method: "GET", EscapedPath: "/x", Header: memproxy.Header{}}
		if slices.Contains(headers, spelled) {
			q.Header[spelled] = []string{"DELETE"}
		} else {
			q.Query = spelled
		}
		flaw := frontend.Classify(nowhere{}, nil, frontend.Head{Request: q, Sent: q.Header}).Flaw
		expect.That(t, flaw != nil && flaw.Status == 400, "%q: %+v", spelled, flaw)
	}
}

// Proves EDGE-13: a passed read has no body, because it would not be checked; a passed
// POST may have one.
func TestPassedReadsHaveNoBody(t *testing.T) {
	for method, want := range map[string]frontend.Handling{"GET": frontend.Gated, "HEAD": frontend.Gated, "POST": frontend.Passed} {
		got := frontend.Classify(passes{}, nil, frontend.Head{Request: memproxy.Request{Method: method}, Body: true})
		expect.Equal(t, got.Handling, want, method, got)
		expect.Equal(t, got.Flaw == nil, want == frontend.Passed, method, got)
		expect.Equal(t, frontend.Classify(passes{}, nil, frontend.Head{Request: memproxy.Request{Method: method}}).Handling, frontend.Passed, method, "without a body")
	}
}

// passes is an adapter whose routes all pass.
type passes struct{ backend.Adapter }

func (passes) Route(memproxy.Request) (memproxy.Route, bool) { return memproxy.Route{Pass: true}, true }

// nowhere is an adapter without a route.
type nowhere struct{ backend.Adapter }

func (nowhere) Route(memproxy.Request) (memproxy.Route, bool) { return memproxy.Route{}, false }

// FuzzForwardable checks that, for any names of headers, hop-by-hop headers, memproxy's
// own, and second spellings of a credential are not forwarded, and only headers that
// were ruled on are.
func FuzzForwardable(f *testing.F) {
	for _, s := range []string{"Connection", "X-Hop", "x_memproxy_token", "Proxy_Authorization", "TE", "X_API_KEY", "user_id"} {
		f.Add(s, "a")
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		h := http.Header{}
		h.Add(name, value)
		h.Add("Connection", value)
		ruled, sent := frontend.Forwardable(h), http.Header{}
		frontend.CopyRequestHeaders(sent, h)
		for n := range sent {
			low := strings.ReplaceAll(strings.ToLower(n), "_", "-")
			_, ok := ruled[n]
			expect.That(t, ok && !strings.HasPrefix(low, "x-memproxy-") && !strings.HasPrefix(low, "proxy-") && low != "connection" && low != "te" && low != "upgrade", "%q goes on", n)
			if n != "X-Api-Key" && n != "Authorization" && (low == "x-api-key" && n != "X-Api-Key" && strings.Contains(n, "_") || low == "authorization" && strings.Contains(n, "_")) {
				t.Errorf("%q goes on", n)
			}
		}
		again := frontend.Forwardable(ruled)
		expect.That(t, len(again) <= len(ruled), "more than before")
	})
}
