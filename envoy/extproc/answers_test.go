package extproc_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
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

// Proves EDGE-13, CARD-9: the events of a stream are filtered through Envoy one
// by one, however they are cut into pieces, and nothing else of an answer
// passes because it comes in another form.
func TestNoFormOfAnAnswerPassesUnread(t *testing.T) {
	long := ": " + strings.Repeat("x", 9000) + "\n\n" // over several pieces
	for name, c := range map[string]struct {
		method, path, media, encoding, answer string
		status                                int
		want                                  string
		override                              bool
	}{
		"events":                      {"POST", "/run", "text/event-stream", "", "data: a\n\ndata: canary\n\ndata: b\n\n", 200, "data: a\n\ndata: b\n\n", true},
		"events, whole":               {"POST", "/run", "text/event-stream; charset=utf-8", "", "data: a\n\ndata: canary\n\ndata: b\n\n", 200, "data: a\n\ndata: b\n\n", false},
		"events over pieces":          {"POST", "/run", "Text/Event-Stream", "", "data: a\n\n" + long + "data: canary\n\n" + "data: b\n\n", 200, "data: a\n\n" + long + "data: b\n\n", true},
		"an event that nothing ends":  {"POST", "/run", "text/event-stream", "", "data: a\n\ndata: canary", 200, "data: a\n\n", true},
		"events, compressed":          {"POST", "/run", "text/event-stream", "gzip", zipped("data: a\n\ndata: canary\n\n"), 200, "data: a\n\n", true},
		"events, encoded":             {"POST", "/run", "text/event-stream", "br", "data: canary\n\n", 500, "", true},
		"a run's answer in one piece": {"POST", "/run", "application/json", "", "m1 ann\ncanary", 200, "m1 ann\n", true},
		"almost events":               {"POST", "/run", "text/event-streams", "", "m1 ann\ncanary", 200, "m1 ann\n", true},
		"events where none are":       {"GET", "/memory", "text/event-stream", "", "m1 ann\nm2 bob\ncanary", 200, "m1 ann\n", true},
		"no media type":               {"GET", "/memory", "", "", "m1 ann\nm2 bob\n", 200, "m1 ann\n", true},
		"lines":                       {"GET", "/memory", "application/x-ndjson", "", "m1 ann\nm2 bob\n", 200, "m1 ann\n", true},
		"parts":                       {"GET", "/memory", "multipart/mixed; boundary=x", "", "m1 ann\nm2 bob\n", 200, "m1 ann\n", true},
		"compressed":                  {"GET", "/memory", "application/json", "gzip", zipped("m1 ann\nm2 bob\n"), 200, "m1 ann\n", true},
		"encoded":                     {"GET", "/memory", "application/json", "br", "m1 ann\nm2 bob\n", 502, `"upstream.unavailable"`, true},
		"encoded twice":               {"GET", "/memory", "application/json", "gzip, gzip", zipped(zipped("m2 bob\n")), 502, `"upstream.unavailable"`, true},
		"a redirect":                  {"GET", "/memory", "text/plain", "", "canary", 307, "", true},
		"an error":                    {"GET", "/memory", "text/plain", "", "canary", 503, "", true},
		"a part":                      {"GET", "/memory", "application/json", "", "m1 ann\nm2 bob\n", 206, "m1 ann\n", true},
		"of no memory":                {"GET", "/ping", "application/json", "", "m1 anncanary\n", 200, "m1 ann\n", true},
		"of no memory, posted":        {"POST", "/ping", "application/json", "", "m1 anncanary\n", 200, "m1 ann\n", true},
		"of no memory, compressed":    {"GET", "/ping", "application/json", "gzip", zipped("m1 anncanary\n"), 200, "m1 ann\n", true},
		"of no memory, encoded":       {"GET", "/ping", "application/json", "br", "m1 anncanary\n", 502, `"upstream.unavailable"`, true},
		"of no memory, as events":     {"GET", "/ping", "text/event-stream", "", "data: canary\n\n", 200, "data: \n\n", true},
		"an error of no memory":       {"GET", "/ping", "application/json", "", "canary", 503, "", true},
		"a page":                      {"GET", "/page", "text/html", "", "canary", 200, "canary", true},
		"public":                      {"GET", "/health", "application/json", "", "fine canary", 200, "fine ", true},
		"public, compressed":          {"GET", "/health", "application/json", "gzip", zipped("fine canary"), 200, "fine ", true},
		"public, encoded":             {"GET", "/health", "application/json", "br", "canary", 502, string(face.Gone().Body), true},
		"public, unread":              {"GET", "/health", "application/json", "", "unreadable", 502, string(face.Gone().Body), true},
		"public, an error":            {"GET", "/health", "text/plain", "", "canary", 503, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(r *rig) {
				r.opt.Backends[0].Adapter = pruning{}
				r.envoy.NoOverride = !c.override
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
			resp, body := r.do(c.method, c.path, strings.Repeat("x", len(c.method)-3))
			if resp.StatusCode != c.status || body != c.want {
				t.Errorf("%d %q, want %d %q", resp.StatusCode, body, c.status, c.want)
			}
			if resp.Header.Get("Content-Encoding") != "" && c.want != "" {
				t.Errorf("said to be encoded as %q", resp.Header.Get("Content-Encoding"))
			}
		})
	}
}

// Proves EDGE-13, CARD-9: of an answer's headers those pass that clients need,
// on every kind of route, and no trailers; one setting passes the others.
func TestHeadersOfAnswers(t *testing.T) {
	needed := map[string]string{"Retry-After": "3", "X-Request-Id": "r", "X-Ratelimit-Remaining": "7", "X-Should-Retry": "false"}
	others := map[string]string{"Set-Cookie": "session=canary", "Link": "<https://backend/next>; rel=next", "Server-Timing": "db;dur=5", "Etag": `"canary"`,
		"Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT", "Content-Location": "/canary", "Refresh": "0; url=/canary", "X-Memory": "canary", "X-Total-Count": "9"}
	for i, setting := range []gate.Unclaimed{gate.UnclaimedDrop, gate.UnclaimedPass, gate.UnclaimedDrop} {
		for _, path := range []string{"/memory", "/run", "/ping", "/health", "/custom/x"} {
			r := newRig(t, func(r *rig) {
				if r.envoy.NoOverride = i == 2; r.envoy.NoOverride {
					r.envoy.Mode = extproctest.Mode()
					r.envoy.Mode.ResponseTrailerMode = modev3.ProcessingMode_SEND
				}
				r.rules.Headers = setting
				r.opt.Backends[0].Passthrough = []string{"GET /custom/*"}
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
			resp, body := r.do("GET", path, "")
			if resp.StatusCode != 200 || body != "m1 ann\n" {
				t.Errorf("%s: %d %q", path, resp.StatusCode, body)
			}
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

// Proves EDGE-13: a HEAD of what is filtered, for which nobody can ask, is
// refused; it says nothing of what is there.
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
			r.opt.Backends[0].Passthrough = []string{"GET /custom/*"}
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
			resp, _ := r.do("GET", path, "")
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

// Proves EDGE-13: through Envoy, too, a member of a document that overrides the
// method crosses on no route, and what streams has none.
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
