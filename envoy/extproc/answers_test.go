package extproc_test

import (
	"net/http"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/metadata"

	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/frontend/frontendtest"
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

// Proves EDGE-13, CARD-9: trailers of requests, and the headers Trailer and Expect, are
// removed through Envoy as well, also on routes whose bodies stream.
func TestTrailersOfRequestsEndHere(t *testing.T) {
	value := func(name, v string) *corev3.HeaderValue { return &corev3.HeaderValue{Key: name, RawValue: []byte(v)} }
	late := &procv3.HttpTrailers{Trailers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{value("x-api-key", "another")}}}
	p := processor(t, &frontendtest.Parts{}, extproc.Backend{Backend: frontend.Backend{Name: "b", Adapter: frontendtest.Toy{}}})
	for path, more := range map[string][]*procv3.ProcessingRequest{"/memory": {body("tea")}, "/ping": nil, "/health": nil} {
		first := start(path, false)
		h := first.GetRequestHeaders().GetHeaders()
		h.Headers = append(h.Headers, value("content-type", "application/octet-stream"), value("trailer", "x-api-key"), value("expect", "x"))
		in := append(append([]*procv3.ProcessingRequest{first}, more...), &procv3.ProcessingRequest{Request: &procv3.ProcessingRequest_RequestTrailers{RequestTrailers: late}})
		s := &script{ctx: metadata.NewIncomingContext(t.Context(), metadata.MD{}), in: in}
		if err := p.Process(s); err != nil || len(s.out) != len(in) {
			t.Fatalf("%s: %d answers, %v", path, len(s.out), err)
		}
		removed := append(s.out[0].GetRequestHeaders().GetResponse().GetHeaderMutation().GetRemoveHeaders(),
			s.out[len(more)].GetRequestBody().GetResponse().GetHeaderMutation().GetRemoveHeaders()...)
		if !slices.Contains(removed, "trailer") || !slices.Contains(removed, "expect") {
			t.Errorf("%s: removed are %q", path, removed)
		}
		if s.out[0].GetModeOverride().GetRequestTrailerMode() != modev3.ProcessingMode_SEND {
			t.Errorf("%s: trailers are not asked for", path)
		}
		if got := s.out[len(in)-1].GetRequestTrailers().GetHeaderMutation().GetRemoveHeaders(); !slices.Equal(got, []string{"x-api-key"}) {
			t.Errorf("%s: of the trailers are removed %q", path, got)
		}
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
		resp, _ := r.do("POST", path, `{"a":1,"\u005fmethod":"DELETE"}`, "Content-Type", "application/json")
		if resp.StatusCode != 400 {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	for _, media := range []string{"application/json", "application/octet-stream"} {
		for _, path := range []string{"/ping", "/custom/x"} {
			if resp, body := r.do("POST", path, `{"a":{"_method":"DELETE"}}`, "Content-Type", media); resp.StatusCode != 200 {
				t.Errorf("%s as %s: %d %s", path, media, resp.StatusCode, body)
			}
		}
	}
	if resp, _ := r.do("POST", "/custom/x", "{}", "Content-Type", "application/json", "Content-Encoding", "gzip"); resp.StatusCode != 415 {
		t.Errorf("compressed: %d", resp.StatusCode)
	}
}
