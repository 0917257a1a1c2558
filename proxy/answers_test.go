package proxy_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
)

// pruning is toy with members that nobody claims: what says "canary".
type pruning struct{ toy }

func (pruning) Prune(_ memproxy.Route, r memproxy.Reply) (memproxy.Pruned, error) {
	if string(r.Body) == "unreadable" {
		return memproxy.Pruned{}, errors.New("unreadable")
	}
	kept := bytes.ReplaceAll(r.Body, []byte("canary"), nil)
	return memproxy.Pruned{Body: kept, Unclaimed: bytes.Count(r.Body, []byte("canary"))}, nil
}

func (pruning) PruneEvent(_ memproxy.Route, e []byte) memproxy.Pruned {
	if bytes.Contains(e, []byte("canary")) {
		return memproxy.Pruned{Unclaimed: 1}
	}
	return memproxy.Pruned{Body: e}
}

func (p pruning) Route(q memproxy.Request) (memproxy.Route, bool) {
	if q.EscapedPath == "/page" {
		return memproxy.Route{ID: "toy.page", Kind: memproxy.Other, Pass: true}, true
	}
	return p.toy.Route(q)
}

func (pruning) Structured(rt memproxy.Route) bool { return rt.ID != "toy.page" }

func zipped(text string) string {
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	_, _ = zw.Write([]byte(text))
	_ = zw.Close()
	return b.String()
}

// Proves EDGE-13, CARD-1: the events of a stream are filtered one by one,
// however they are cut into pieces, and nothing else of an answer passes because
// it comes in another form.
func TestNoFormOfAnAnswerPassesUnread(t *testing.T) {
	long := ": " + strings.Repeat("x", 9000) + "\n\n" // over several pieces
	for name, c := range map[string]struct {
		method, path, media, encoding, answer string
		status                                int
		want                                  string
	}{
		"events":                      {"POST", "/run", "text/event-stream", "", "data: a\n\ndata: canary\n\ndata: b\n\n", 200, "data: a\n\ndata: b\n\n"},
		"events, whole":               {"POST", "/run", "text/event-stream; charset=utf-8", "", "data: a\n\ndata: canary\n\ndata: b\n\n", 200, "data: a\n\ndata: b\n\n"},
		"events over pieces":          {"POST", "/run", "Text/Event-Stream", "", "data: a\n\n" + long + "data: canary\n\n" + "data: b\n\n", 200, "data: a\n\n" + long + "data: b\n\n"},
		"an event that nothing ends":  {"POST", "/run", "text/event-stream", "", "data: a\n\ndata: canary", 200, "data: a\n\n"},
		"events, compressed":          {"POST", "/run", "text/event-stream", "gzip", zipped("data: a\n\ndata: canary\n\n"), 200, "data: a\n\n"},
		"events, encoded":             {"POST", "/run", "text/event-stream", "br", "data: canary\n\n", 502, `"upstream.unavailable"`},
		"a run's answer in one piece": {"POST", "/run", "application/json", "", "m1 ann\ncanary", 200, "m1 ann\n"},
		"almost events":               {"POST", "/run", "text/event-streams", "", "m1 ann\ncanary", 200, "m1 ann\n"},
		"events where none are":       {"GET", "/memory", "text/event-stream", "", "m1 ann\nm2 bob\ncanary", 200, "m1 ann\n"},
		"no media type":               {"GET", "/memory", "", "", "m1 ann\nm2 bob\n", 200, "m1 ann\n"},
		"lines":                       {"GET", "/memory", "application/x-ndjson", "", "m1 ann\nm2 bob\n", 200, "m1 ann\n"},
		"parts":                       {"GET", "/memory", "multipart/mixed; boundary=x", "", "m1 ann\nm2 bob\n", 200, "m1 ann\n"},
		"compressed":                  {"GET", "/memory", "application/json", "gzip", zipped("m1 ann\nm2 bob\n"), 200, "m1 ann\n"},
		"encoded":                     {"GET", "/memory", "application/json", "br", "m1 ann\nm2 bob\n", 502, `"upstream.unavailable"`},
		"encoded twice":               {"GET", "/memory", "application/json", "gzip, gzip", zipped(zipped("m2 bob\n")), 502, `"upstream.unavailable"`},
		"a redirect":                  {"GET", "/memory", "text/plain", "", "canary", 307, ""},
		"an error":                    {"GET", "/memory", "text/plain", "", "canary", 503, ""},
		"a part":                      {"GET", "/memory", "application/json", "", "m1 ann\nm2 bob\n", 206, "m1 ann\n"},
		"of no memory":                {"GET", "/ping", "application/json", "", "m1 anncanary\n", 200, "m1 ann\n"},
		"of no memory, posted":        {"POST", "/ping", "application/json", "", "m1 anncanary\n", 200, "m1 ann\n"},
		"of no memory, compressed":    {"GET", "/ping", "application/json", "gzip", zipped("m1 anncanary\n"), 200, "m1 ann\n"},
		"of no memory, encoded":       {"GET", "/ping", "application/json", "br", "m1 anncanary\n", 502, `"upstream.unavailable"`},
		"of no memory, as events":     {"GET", "/ping", "text/event-stream", "", "data: canary\n\n", 200, "data: \n\n"},
		"an error of no memory":       {"GET", "/ping", "application/json", "", "canary", 503, ""},
		"a page":                      {"GET", "/page", "text/html", "", "canary", 200, "canary"},
		"public":                      {"GET", "/health", "application/json", "", "fine canary", 200, "fine "},
		"public, compressed":          {"GET", "/health", "application/json", "gzip", zipped("fine canary"), 200, "fine "},
		"public, encoded":             {"GET", "/health", "application/json", "br", "canary", 502, string(face.Gone().Body)},
		"public, unread":              {"GET", "/health", "application/json", "", "unreadable", 502, string(face.Gone().Body)},
		"public, an error":            {"GET", "/health", "text/plain", "", "canary", 503, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.opt.Adapter = pruning{}
				r.answer = func(w http.ResponseWriter, _ *http.Request) {
					w.Header()["Content-Type"] = nil
					if c.media != "" {
						w.Header().Set("Content-Type", c.media)
					}
					if c.encoding != "" {
						w.Header().Set("Content-Encoding", c.encoding)
					}
					if c.status == 206 || c.status == 307 || c.status == 503 {
						w.WriteHeader(c.status)
					}
					fmt.Fprint(w, c.answer)
				}
			})
			resp, body := r.do(t, c.method, c.path, strings.Repeat("x", len(c.method)-3))
			if resp.StatusCode != c.status || body != c.want {
				t.Errorf("%d %q, want %d %q", resp.StatusCode, body, c.status, c.want)
			}
			if resp.Header.Get("Content-Encoding") != "" {
				t.Errorf("said to be encoded as %q", resp.Header.Get("Content-Encoding"))
			}
		})
	}
}

// Proves EDGE-13, CARD-1: of an answer's headers those pass that clients need,
// on every kind of route, and no trailers; one setting passes the others.
func TestHeadersOfAnswers(t *testing.T) {
	needed := map[string]string{"Retry-After": "3", "X-Request-Id": "r", "X-Ratelimit-Remaining": "7", "X-Should-Retry": "false"}
	others := map[string]string{"Set-Cookie": "session=canary", "Link": "<https://backend/next>; rel=next", "Server-Timing": "db;dur=5", "Etag": `"canary"`,
		"Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT", "Content-Location": "/canary", "Refresh": "0; url=/canary", "X-Memory": "canary", "X-Total-Count": "9"}
	for _, setting := range []gate.Unclaimed{gate.UnclaimedDrop, gate.UnclaimedPass} {
		for _, path := range []string{"/memory", "/run", "/ping", "/health", "/custom/x"} {
			r := newRig(t, func(r *rig) {
				r.rules.Headers = setting
				r.opt.Passthrough = []string{"GET /custom/*"}
				r.answer = func(w http.ResponseWriter, _ *http.Request) {
					for _, list := range []map[string]string{needed, others} {
						for name, value := range list {
							w.Header().Set(name, value)
						}
					}
					fmt.Fprint(w, "m1 ann\n")
					w.Header().Set(http.TrailerPrefix+"X-After", "canary")
				}
			})
			resp, _ := r.do(t, "GET", path, "")
			for name, value := range needed {
				if resp.Header.Get(name) != value {
					t.Errorf("%s: %s was lost", path, name)
				}
			}
			for name := range others {
				if got := resp.Header.Get(name); (got != "") != (setting == gate.UnclaimedPass) {
					t.Errorf("%s, %s: %s came back as %q", path, setting, name, got)
				}
			}
			if len(resp.Trailer) > 0 {
				t.Errorf("%s: trailers %v", path, resp.Trailer)
			}
		}
	}
}

// Proves EDGE-13: a HEAD of a stream has the headers of the filtered one, and
// those by which a request asks for a part of an answer, or for one only if it
// changed, do not reach the backend: what it would say is of what nobody
// filtered.
func TestHeadOfAStreamAndPartsOfAnswers(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.opt.Adapter = pruning{}
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
func TestAnswersAreKeptByNoCache(t *testing.T) {
	said := map[string]string{"Cache-Control": "public, max-age=3600", "Expires": "Sun, 06 Nov 2094 08:49:37 GMT", "Age": "1", "Pragma": "public",
		"Cdn-Cache-Control": "max-age=3600", "Surrogate-Control": "max-age=3600", "X-Accel-Expires": "60"}
	for _, enforce := range []bool{true, false} {
		r := newRig(t, func(r *rig) {
			r.rules.Enforce, r.rules.Headers = enforce, gate.UnclaimedPass
			r.opt.Passthrough = []string{"GET /custom/*"}
			r.answer = func(w http.ResponseWriter, q *http.Request) {
				for name, value := range said {
					w.Header().Set(name, value)
				}
				if q.URL.Path == "/run" {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				if q.URL.RawQuery == "none" {
					w.WriteHeader(404)
				}
				fmt.Fprint(w, "m1 ann\n\n")
			}
		})
		for _, path := range []string{"/memory", "/memory?none", "/run", "/ping", "/custom/x", "/unknown", "/health"} {
			resp, _ := r.do(t, "GET", path, "")
			want := enforce && path != "/health"
			if path == "/unknown" && !enforce {
				continue
			}
			if got := resp.Header.Values("Cache-Control"); len(got) != 1 || (got[0] == "no-store") != want {
				t.Errorf("enforced %v, %s: Cache-Control is %q", enforce, path, got)
			}
			for name, value := range said {
				if got := resp.Header.Get(name); name != "Cache-Control" && path != "/unknown" && (got == value) == want {
					t.Errorf("enforced %v, %s: %s is %q", enforce, path, name, got)
				}
			}
		}
	}
}
