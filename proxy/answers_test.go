package proxy_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/memproxy/memproxy/face/facetest"
)

// Proves EDGE-13, CARD-1: the events of a stream are filtered one by one,
// however they are cut into pieces, and nothing else of an answer passes because
// it comes in another form.
func TestNoFormOfAnAnswerPassesUnread(t *testing.T) {
	facetest.Forms(t, start, 502, `"upstream.malformed"`)
}

// Proves EDGE-13, CARD-1: of an answer's headers those pass that clients need,
// on every kind of route, and no trailers; one setting passes the others.
func TestHeadersOfAnswers(t *testing.T) { facetest.Headers(t, start) }

// Proves EDGE-13: a HEAD of a stream has the headers of the filtered one, and
// those by which a request asks for a part of an answer, or for one only if it
// changed, do not reach the backend: what it would say is of what nobody
// filtered.
func TestHeadOfAStreamAndPartsOfAnswers(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.opt.Adapter = facetest.Pruning{}
		r.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Length", "14")
			fmt.Fprint(w, "data: canary\n\n")
		}
	})
	for _, path := range []string{"/run", "/memory", "/ping"} {
		resp, _ := r.do(t, "HEAD", path, "", "Range", "bytes=0-3", "If-None-Match", `"x"`, "If-Modified-Since", "now", "If-Range", "x")
		for _, name := range []string{"Range", "If-None-Match", "If-Modified-Since", "If-Range"} {
			if got := r.last(t).header.Get(name); got != "" {
				t.Errorf("%s: %s arrived: %q", path, name, got)
			}
		}
		if path != "/ping" && resp.ContentLength == 14 {
			t.Errorf("%s: the length of what was not filtered came back", path)
		}
	}
}

// Proves EDGE-13: a redirect that leads past memproxy leads nowhere.
func TestRedirectsElsewhereAreLeftOut(t *testing.T) {
	for _, to := range []string{"https://elsewhere.example/memory", "//elsewhere.example/", "http:/memory", `/\\elsewhere.example`, "javascript:alert(1)"} {
		r := newRig(t, func(r *rig) {
			r.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Location"] = []string{to}
				w.WriteHeader(307)
			}
		})
		for _, path := range []string{"/memory", "/ping", "/health"} {
			if resp, _ := r.do(t, "GET", path, ""); resp.Header.Get("Location") != "" {
				t.Errorf("%s: %q", path, resp.Header.Get("Location"))
			}
		}
	}
}

// Proves EDGE-13, CARD-1: what was made for one caller is kept by no cache,
// whatever the backend says of it, on every route that is ruled on, refusals and
// streams too. Public answers are as the backend has them, and so is everything
// in shadow mode.
func TestAnswersAreKeptByNoCache(t *testing.T) { facetest.NoCache(t, start) }
