package extproc_test

import (
	"net/http"
	"testing"

	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"

	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/face/facetest"
)

// Proves EDGE-13, CARD-9: events of a stream are filtered through Envoy one by one,
// however they are cut, and no other form of an answer passes unread.
func TestNoFormOfAnAnswerPassesUnread(t *testing.T) {
	facetest.Forms(t, starts(func(r *rig, s facetest.Setup) { r.envoy.NoOverride = s.Name == "events, whole" }), 500, "")
}

// Proves EDGE-13, CARD-9: on every kind of route, only the answer's headers that
// clients need pass, and no trailers; one setting lets the others pass.
func TestHeadersOfAnswers(t *testing.T) {
	facetest.Headers(t, starts(nil))
	facetest.Headers(t, starts(func(r *rig, _ facetest.Setup) {
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

// Proves EDGE-13, CARD-1: an answer that was made for one caller is cached nowhere,
// whatever the backend says, on every route that is ruled on, including refusals and
// streams. Public answers, and all answers in shadow mode, keep the backend's headers.
func TestAnswersAreKeptByNoCache(t *testing.T) { facetest.NoCache(t, starts(nil)) }

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
