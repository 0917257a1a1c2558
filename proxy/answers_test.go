package proxy_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/memproxy/memproxy/frontend/frontendtest"
)

// Proves EDGE-13, CARD-1: events of a stream are filtered one by one, however they are
// cut, and no other form of an answer passes unread.
func TestNoFormOfAnAnswerPassesUnread(t *testing.T) {
	frontendtest.Forms(t, start, 502, `"upstream.malformed"`)
}

// Proves EDGE-13, CARD-1: on every kind of route, only the answer's headers that
// clients need pass, and no trailers; one setting lets the others pass.
func TestHeadersOfAnswers(t *testing.T) { frontendtest.Headers(t, start) }

// Proves EDGE-13: a HEAD of a stream has the headers of the filtered one, and headers
// of range and conditional requests do not reach the backend, because its answer would
// be about unfiltered content.
func TestHeadOfAStreamAndPartsOfAnswers(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.opt.Adapter = frontendtest.Pruning{}
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

// Proves EDGE-13: a redirect that bypasses memproxy is removed.
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

// Proves EDGE-13, CARD-1: an answer that was made for one caller is cached nowhere,
// whatever the backend says, on every route that is ruled on, including refusals and
// streams. Public answers, and all answers in shadow mode, keep the backend's headers.
func TestAnswersAreKeptByNoCache(t *testing.T) { frontendtest.NoCache(t, start) }
