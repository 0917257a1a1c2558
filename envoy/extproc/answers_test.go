package extproc_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-13, CARD-9: events of a stream are filtered through Envoy one by one,
// however they are cut, and no other form of an answer passes unread.
func TestNoFormOfAnAnswerPassesUnread(t *testing.T) {
	frontendtest.Forms(t, starts(func(r *rig, s frontendtest.Setup) { r.envoy.NoOverride = s.Name == "events, whole" }), 500, "")
}

// Proves EDGE-13, CARD-9: on every kind of route, only the answer's headers that
// clients need pass, and no trailers; one setting lets the others pass.
func TestHeadersOfAnswers(t *testing.T) {
	frontendtest.Headers(t, starts(nil))
	frontendtest.Headers(t, starts(func(r *rig, _ frontendtest.Setup) {
		r.envoy.NoOverride, r.envoy.Mode = true, extproctest.Mode()
		r.envoy.Mode.ResponseTrailerMode = modev3.ProcessingMode_SEND
	}))
}

// Proves EDGE-13: a HEAD whose answer would be filtered is refused if no GET can be
// sent, and reveals nothing.
func TestHeadIsAskedForOrRefused(t *testing.T) {
	for _, status := range []int{200, 404} {
		r := newRig(t, func(r *rig) {
			r.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "700")
				w.Header().Set("Etag", `"x"`)
				w.WriteHeader(status)
			}
		})
		resp, _ := r.do("HEAD", "/memory", "")
		if resp.StatusCode != http.StatusBadGateway || resp.Header.Get("Etag") != "" || resp.ContentLength == 700 {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
	}
}

// moved is a backend that redirects every request to another path of its own.
type moved struct{}

func (moved) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 307, Header: http.Header{"Location": {"http://backend/memories"}}, Body: http.NoBody}, nil
}

// A HEAD that the backend redirects to itself leads through Envoy, as the GET does.
func TestRedirectsOfHeads(t *testing.T) {
	upstream := &url.URL{Scheme: "http", Host: "backend"}
	side := frontend.NewSide(&frontend.Backend{Upstream: upstream}, moved{}, frontend.NewInFlight(0, 0).Side(), propagation.TraceContext{})
	p := processor(t, &frontendtest.Parts{}, frontend.Backend{Backend: gate.Backend{Name: "b", Adapter: frontendtest.Toy{}, Fetch: side}, Upstream: upstream})
	head := start("/memory", true)
	head.GetRequestHeaders().GetHeaders().Headers[0].RawValue = []byte("HEAD")
	s := &script{ctx: metadata.NewIncomingContext(t.Context(), metadata.MD{}), in: []*procv3.ProcessingRequest{head}}
	must.Do(t, p.Process(s))
	answer := s.out[0].GetImmediateResponse()
	expect.Equal(t, int(answer.GetStatus().GetCode()), 307)
	expect.Text(t, answer.GetHeaders().String()).Has("/memories").Lacks("backend")
}

// Envoy sends backends the client's Host. One that builds a redirect to itself with it leads
// back through Envoy.
func TestRedirectsToTheAuthority(t *testing.T) {
	for to, want := range map[string]int{"http://HOST/memories?a=b": 307, "https://HOST/memories": 502, "http://elsewhere.example/memories": 502} {
		r := newRig(t, func(r *rig) {
			r.opt.Backends[0].Upstream = must.Get(url.Parse(r.envoy.Upstream))(t)
			r.answer = func(w http.ResponseWriter, q *http.Request) {
				w.Header().Set("Location", strings.Replace(to, "HOST", q.Host, 1))
				w.WriteHeader(307)
			}
		})
		for _, path := range []string{"/memory", "/ping", "/health"} {
			resp := must.Get(http.DefaultTransport.RoundTrip(must.Get(http.NewRequest("GET", r.URL+path, nil))(t)))(t)
			_ = resp.Body.Close()
			expect.Equal(t, resp.StatusCode, want, to, path)
			expect.Equal(t, resp.Header.Get("Location"), map[int]string{307: "/memories?a=b"}[want], to, path)
		}
	}
}

// Proves EDGE-13, CARD-9: trailers of requests, and the headers Trailer and Expect, are
// removed through Envoy as well, also on routes whose bodies stream.
func TestTrailersOfRequestsEndHere(t *testing.T) {
	value := func(name, v string) *corev3.HeaderValue { return &corev3.HeaderValue{Key: name, RawValue: []byte(v)} }
	late := &procv3.HttpTrailers{Trailers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{value("x-api-key", "another")}}}
	p := processor(t, &frontendtest.Parts{}, frontend.Backend{Backend: gate.Backend{Name: "b", Adapter: frontendtest.Toy{}}})
	for path, more := range map[string][]*procv3.ProcessingRequest{"/memory": {body("tea")}, "/ping": nil, "/health": nil} {
		first := start(path, false)
		h := first.GetRequestHeaders().GetHeaders()
		h.Headers = append(h.Headers, value("content-type", "application/octet-stream"), value("trailer", "x-api-key"), value("expect", "x"))
		in := append(append([]*procv3.ProcessingRequest{first}, more...), &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestTrailers{RequestTrailers: late}})
		s := &script{ctx: metadata.NewIncomingContext(t.Context(), metadata.MD{}), in: in}
		must.Do(t, p.Process(s), path)
		must.Len(t, s.out, len(in), path)
		removed := append(s.out[0].GetRequestHeaders().GetResponse().GetHeaderMutation().GetRemoveHeaders(),
			s.out[len(more)].GetRequestBody().GetResponse().GetHeaderMutation().GetRemoveHeaders()...)
		expect.Equal(t, slices.Contains(removed, "trailer"), true, path, "removed are", removed)
		expect.Equal(t, slices.Contains(removed, "expect"), true, path, "removed are", removed)
		expect.Equal(t, s.out[0].GetModeOverride().GetRequestTrailerMode(), modev3.ProcessingMode_SEND, path, "trailers are not asked for")
		expect.List(t, s.out[len(in)-1].GetRequestTrailers().GetHeaderMutation().GetRemoveHeaders(), []string{"x-api-key"}, path, "of the trailers are removed")
	}
}

// Proves EDGE-13, CARD-1: an answer that was made for one caller is cached nowhere,
// whatever the backend says, on every route that is ruled on, including refusals and
// streams. Public answers, and all answers in shadow mode, keep the backend's headers.
func TestAnswersAreKeptByNoCache(t *testing.T) { frontendtest.NoCache(t, starts(nil)) }

// Proves EDGE-13: through Envoy, too, no route accepts a member of a document that
// overrides the method; streamed types have no members.
func TestMembersThatOverrideTheMethod(t *testing.T) {
	r := newRig(t, func(r *rig) { r.opt.Backends[0].Passthrough = []string{"POST /custom/*"} })
	for _, path := range []string{"/memory", "/ping", "/health", "/custom/x"} {
		expect.Equal(t, r.status("POST", path, `{"a":1,"\u005fmethod":"DELETE"}`, "Content-Type", "application/json"), 400, path)
	}
	for _, media := range []string{"application/json", "application/octet-stream"} {
		for _, path := range []string{"/ping", "/custom/x"} {
			expect.Equal(t, r.status("POST", path, `{"a":{"_method":"DELETE"}}`, "Content-Type", media), 200, path, "as", media)
		}
	}
	expect.Equal(t, r.status("POST", "/custom/x", "{}", "Content-Type", "application/json", "Content-Encoding", "gzip"), 415, "compressed")
}

// Proves EDGE-14: a stream that ends early is reset for Envoy's client, too, and the
// outcome records the known reason.
func TestHowStreamsEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		encoding string
		rest     func(http.ResponseWriter)
		hangUp   bool
		want     memproxy.StreamEnd
	}{
		"whole": {rest: func(http.ResponseWriter) {}},
		"torn": {want: memproxy.StreamReset, rest: func(w http.ResponseWriter) {
			fmt.Fprint(w, "data: ha")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}},
		"the client hangs up": {want: memproxy.StreamReset, hangUp: true, rest: func(w http.ResponseWriter) {
			for err := error(nil); err == nil; err = http.NewResponseController(w).Flush() {
				if _, err := fmt.Fprint(w, "data: more\n\n"); err != nil {
					return
				}
			}
		}},
		"too large":  {want: memproxy.StreamTooLarge, rest: func(w http.ResponseWriter) { fmt.Fprint(w, "data: ", strings.Repeat("x", 64<<10), "\n\n") }},
		"unreadable": {encoding: "br", want: memproxy.StreamTorn, rest: func(http.ResponseWriter) {}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.opt.Backends[0].MaxAnswer, r.parts.Wrote = 16<<10, make(chan memproxy.Event, 4)
				r.answer = func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					if tc.encoding != "" {
						w.Header().Set("Content-Encoding", tc.encoding)
					}
					fmt.Fprint(w, "data: first\n\n")
					_ = http.NewResponseController(w).Flush()
					tc.rest(w)
				}
			})
			resp := must.Get((&http.Client{Transport: &http.Transport{DisableCompression: true}}).Post(r.URL+"/run", "text/plain", strings.NewReader("x")))(t)
			if tc.hangUp {
				resp.Body.Close()
			}
			said, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			expect.Equal(t, err == nil && resp.StatusCode == 200, tc.want == memproxy.StreamWhole, resp.StatusCode, said)
			if ev := <-r.parts.Wrote; ev.Ended != tc.want || ev.Cancelled != tc.want.Cancelled() {
				t.Errorf("the outcome says %q, cancelled: %v; want %q", ev.Ended, ev.Cancelled, tc.want)
			}
		})
	}
}

func check(method, path, body string, headers ...string) *authv3.CheckRequest {
	m := &corev3.HeaderMap{}
	for i := 0; i+1 < len(headers); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: headers[i], RawValue: []byte(headers[i+1])})
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: method, Path: path, Host: "mem.example", Scheme: "http", RawBody: []byte(body), HeaderMap: m,
		}},
		ContextExtensions: map[string]string{"memproxy_backend": "toy"},
	}}
}

// Proves CARD-9: the authorization service and its limits.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		in     *authv3.CheckRequest
		change func(*rig)
		status int // 0: admitted
	}{
		"an add":               {check("POST", "/memory", "tea"), nil, 0},
		"one that is refused":  {check("POST", "/memory", "malformed"), nil, 400},
		"a bad credential":     {check("POST", "/memory", "tea", "x-key", "bad"), nil, 401},
		"a read":               {check("GET", "/memory", ""), nil, 403},
		"a read, unfiltered":   {check("GET", "/memory", ""), func(r *rig) { r.opt.UnfilteredReads = true }, 0},
		"a pass":               {check("POST", "/ping", "x"), nil, 0},
		"unknown":              {check("POST", "/pang", "x"), nil, 403},
		"half a body":          {check("POST", "/memory", "te", "x-envoy-auth-partial-body", "true"), nil, 413},
		"a whole one, as told": {check("POST", "/memory", "te", "x-envoy-auth-partial-body", "false"), nil, 0},
		"a body not sent":      {check("POST", "/memory", "", "content-length", "3"), nil, 503},
		"no body at all":       {check("POST", "/memory", "", "content-length", "0"), nil, 0},
		"a body too large":     {check("POST", "/memory", "milk"), func(r *rig) { r.opt.Backends[0].MaxBody = 3 }, 413},
		"shadow":               {check("POST", "/memory", "malformed"), func(r *rig) { r.rules.Enforce = false }, 0},
		"a read, in shadow":    {check("GET", "/memory", ""), func(r *rig) { r.rules.Enforce = false }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.change)
			got := must.Get(authv3.NewAuthorizationClient(r.conn).Check(t.Context(), c.in))(t)
			expect.Equal(t, got.GetStatus().GetCode() == int32(codes.OK), c.status == 0, got)
			expect.Equal(t, int(got.GetDeniedResponse().GetStatus().GetCode()), c.status, got)
		})
	}
}

// rulings is a policy that rules in turn, the last one for good.
type rulings []memproxy.Verdict

func (r *rulings) Rule(context.Context, memproxy.Question) (memproxy.Ruling, error) {
	v := (*r)[0]
	if len(*r) > 1 {
		*r = (*r)[1:]
	}
	return memproxy.Ruling{Verdict: v, Reasons: []memproxy.Reason{{Code: memproxy.PolicyForbid}}}, nil
}

// Proves CARD-9: what the authorization service cannot do to a request is refused also if
// the request was to be refused when it looked ahead, and is not any more.
func TestCheckDoesNotRelyOnLookingAhead(t *testing.T) {
	for name, c := range map[string]struct {
		method, body string
		then         memproxy.Verdict
		status       int
	}{
		"a read":             {"GET", "", memproxy.Allow, 403},
		"a write to change":  {"POST", "tea", memproxy.Amend, 502},
		"a write as it came": {"POST", "tea", memproxy.Allow, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.rules.Policy = &rulings{memproxy.Deny, c.then} })
			got := must.Get(authv3.NewAuthorizationClient(r.conn).Check(t.Context(), check(c.method, "/memory", c.body)))(t)
			expect.Equal(t, int(got.GetDeniedResponse().GetStatus().GetCode()), c.status, got)
		})
	}
}

// hurried is parts whose client leaves when its request is charged.
type hurried struct {
	*frontendtest.Parts
	leave    func()
	released []error
}

func (h *hurried) Charge(context.Context, memproxy.Charge) (memproxy.Allowance, error) {
	h.leave()
	return memproxy.Allowance{Granted: true, Refused: -1}, nil
}

func (h *hurried) Release(ctx context.Context, _ memproxy.Charge) error {
	h.released = append(h.released, ctx.Err())
	return nil
}

// Proves CARD-9: a request that Check refuses after it was charged is not charged, although
// Envoy waits no longer.
func TestCheckRefundsWhenEnvoyDoesNotWait(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	parts := &hurried{Parts: &frontendtest.Parts{}, leave: leave}
	rules := frontendtest.Rules(&rulings{memproxy.Deny, memproxy.Amend})
	rules.Lines = func(memproxy.Principal, memproxy.Kind, string, []string) []memproxy.Line {
		return []memproxy.Line{{Key: "writes", Limit: 9}}
	}
	p := must.Get(extproc.New(extproc.Options{
		Gate: frontendtest.NewGate(t, parts, &rules), Backends: []frontend.Backend{{Backend: gate.Backend{Name: "toy", Adapter: frontendtest.Toy{}}}},
	}))(t)
	got := must.Get(p.Check(ctx, check("POST", "/memory", "tea")))(t)
	expect.Equal(t, int(got.GetDeniedResponse().GetStatus().GetCode()), 502, got)
	expect.List(t, parts.released, []error{nil})
}

// Proves CARD-9: only headers are changed, and memproxy's own stay.
func TestCheckChangesHeadersOnly(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.opt.Backends[0].Credential = &frontend.Credential{Header: "Authorization", Value: "Token own"}
	})
	in := check("POST", "/memory", "tea", "authorization", "Token theirs", "x-api-key", "k", "cookie", "session=theirs", "x-memproxy-token", "t", "content-md5", "x", "content-length", "3")
	got := must.Get(authv3.NewAuthorizationClient(r.conn).Check(t.Context(), in))(t)
	ok := got.GetOkResponse()
	removed := slices.Clone(ok.GetHeadersToRemove())
	slices.Sort(removed)
	expect.List(t, removed, []string{"cookie", "x-api-key", "x-memproxy-token"}, "removed")
	set := map[string]string{}
	for _, h := range ok.GetHeaders() {
		set[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
	}
	if set["authorization"] != "Token own" || set["content-length"] != "" || set[":path"] != "" {
		t.Errorf("set %q", set)
	}
	if h := ok.GetResponseHeadersToAdd(); len(h) != 2 || h[1].GetHeader().GetValue() != "no-store" || h[0].GetHeader().GetValue() != "allow; id=d2" && h[0].GetHeader().GetValue() != "allow; id=d1" {
		t.Errorf("answer gets %v", h)
	}
}

// Proves CARD-9: two different names of a backend are refused.
func TestCheckNeedsOneBackend(t *testing.T) {
	r := newRig(t, nil)
	in := check("POST", "/memory", "tea")
	in.Attributes.ContextExtensions["memproxy_backend"] = "other"
	expect.Equal(t, status.Code(expect.Err(authv3.NewAuthorizationClient(r.conn).Check(t.Context(), in))), codes.FailedPrecondition)
}

// Two runs of a case on both sides of a full minute compare as equal: times are
// replaced in members, in sentences and in names.
func TestSettledHidesEveryTime(t *testing.T) {
	for _, pair := range [][2]string{
		{`{"detail":"there is room at 2026-11-25T02:07:00Z; more"}`, `{"detail":"there is room at 2026-11-25T02:08:00Z; more"}`},
		{`{"new_member":"2026-11-25T02:07:59.999999999Z"}`, `{"new_member":"2026-11-25T02:08:00Z"}`},
		{`until 2026-11-25T02:07:00+02:00.`, `until 2026-11-26T00:00:00-07:00.`},
		{`{"reset":"2026-11-25T02:07:00Z"}`, `{"reset":""}`},
		{"retry-after: 59\n", "retry-after: 1\n"},
	} {
		if a, b := extproctest.Normalize(pair[0]), extproctest.Normalize(pair[1]); a != b {
			t.Errorf("%s and %s differ: %s and %s", pair[0], pair[1], a, b)
		}
	}
	if a, b := extproctest.Normalize(`used 1 of 2`), extproctest.Normalize(`used 2 of 2`); a == b {
		t.Error("numbers that are not times are hidden")
	}
}
