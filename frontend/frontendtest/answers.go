package frontendtest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
)

// Pruning is Toy with unclaimed members: those whose names contain "canary".
type Pruning struct{ Toy }

func (Pruning) Prune(_ memproxy.Route, r memproxy.Reply) (memproxy.Pruned, error) {
	if string(r.Body) == "unreadable" {
		return memproxy.Pruned{}, errors.New("unreadable")
	}
	kept := bytes.ReplaceAll(r.Body, []byte("canary"), nil)
	return memproxy.Pruned{Body: kept, Unclaimed: bytes.Count(r.Body, []byte("canary"))}, nil
}

func (Pruning) PruneEvent(_ memproxy.Route, e []byte) memproxy.Pruned {
	if bytes.Contains(e, []byte("canary")) {
		return memproxy.Pruned{Unclaimed: 1}
	}
	return memproxy.Pruned{Body: e}
}

func (p Pruning) Route(q memproxy.Request) (memproxy.Route, bool) {
	if q.EscapedPath == "/page" {
		return memproxy.Route{ID: "toy.page", Kind: memproxy.Other, Pass: true}, true
	}
	return p.Toy.Route(q)
}

func (Pruning) Structured(rt memproxy.Route) bool { return rt.ID != "toy.page" }

// Zipped returns a text compressed with gzip.
func Zipped(text string) string {
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	_, _ = zw.Write([]byte(text))
	_ = zw.Close()
	return b.String()
}

// Setup describes the listener that a test starts, in front of a backend with this
// answer. GET /custom/* is a passthrough entry.
type Setup struct {
	Name    string // name of the case
	Adapter backend.Adapter
	Rules   func(*gate.Rules) // may be nil
	Answer  http.HandlerFunc
}

// Start starts a listener and returns a function that sends requests to it.
type Start func(t *testing.T, s Setup) func(method, path, body string, header ...string) (*http.Response, string)

// Forms checks that each event of a stream is filtered, however the stream is cut into
// pieces, and that no other form of an answer passes unread. For an unreadable stream the
// status is broken, and the body is said.
func Forms(t *testing.T, start Start, broken int, said string) {
	long := ": " + strings.Repeat("x", 9000) + "\n\n" // longer than one piece
	for name, c := range map[string]struct {
		method, path, media, encoding, answer string
		status                                int
		want                                  string
	}{
		"events":                      {"POST", "/run", "text/event-stream", "", "data: a\n\ndata: canary\n\ndata: b\n\n", 200, "data: a\n\ndata: b\n\n"},
		"events, whole":               {"POST", "/run", "text/event-stream; charset=utf-8", "", "data: a\n\ndata: canary\n\ndata: b\n\n", 200, "data: a\n\ndata: b\n\n"},
		"events over pieces":          {"POST", "/run", "Text/Event-Stream", "", "data: a\n\n" + long + "data: canary\n\n" + "data: b\n\n", 200, "data: a\n\n" + long + "data: b\n\n"},
		"an event that nothing ends":  {"POST", "/run", "text/event-stream", "", "data: a\n\ndata: canary", 200, "data: a\n\n"},
		"events, compressed":          {"POST", "/run", "text/event-stream", "gzip", Zipped("data: a\n\ndata: canary\n\n"), 200, "data: a\n\n"},
		"events, encoded":             {"POST", "/run", "text/event-stream", "br", "data: canary\n\n", broken, said},
		"a run's answer in one piece": {"POST", "/run", "application/json", "", "m1 ann\ncanary", 200, "m1 ann\n"},
		"almost events":               {"POST", "/run", "text/event-streams", "", "m1 ann\ncanary", 200, "m1 ann\n"},
		"events where none are":       {"GET", "/memory", "text/event-stream", "", "m1 ann\nm2 bob\ncanary", 200, "m1 ann\n"},
		"no media type":               {"GET", "/memory", "", "", "m1 ann\nm2 bob\n", 200, "m1 ann\n"},
		"lines":                       {"GET", "/memory", "application/x-ndjson", "", "m1 ann\nm2 bob\n", 200, "m1 ann\n"},
		"parts":                       {"GET", "/memory", "multipart/mixed; boundary=x", "", "m1 ann\nm2 bob\n", 200, "m1 ann\n"},
		"compressed":                  {"GET", "/memory", "application/json", "gzip", Zipped("m1 ann\nm2 bob\n"), 200, "m1 ann\n"},
		"encoded":                     {"GET", "/memory", "application/json", "br", "m1 ann\nm2 bob\n", 502, `"upstream.malformed"`},
		"encoded twice":               {"GET", "/memory", "application/json", "gzip, gzip", Zipped(Zipped("m2 bob\n")), 502, `"upstream.malformed"`},
		"encoded, in a second header": {"GET", "/memory", "application/json", "identity\ngzip", Zipped("m2 bob\n"), 502, `"upstream.malformed"`},
		"a redirect":                  {"GET", "/memory", "text/plain", "", "canary", 307, ""},
		"a redirect elsewhere":        {"GET", "/memory", "text/plain", "", "canary", 502, `"upstream.unavailable"`},
		"a page's elsewhere":          {"GET", "/page", "text/plain", "", "canary", 502, `"upstream.unavailable"`},
		"public, elsewhere":           {"GET", "/health", "text/plain", "", "canary", 502, `{"detail":"` + backend.RedirectsAway + `","code":"memproxy_upstream"}`},
		"an error":                    {"GET", "/memory", "text/plain", "", "canary", 503, ""},
		"a part":                      {"GET", "/memory", "application/json", "", "m1 ann\nm2 bob\n", 206, "m1 ann\n"},
		"of no memory":                {"GET", "/ping", "application/json", "", "m1 anncanary\n", 200, "m1 ann\n"},
		"of no memory, posted":        {"POST", "/ping", "application/json", "", "m1 anncanary\n", 200, "m1 ann\n"},
		"of no memory, compressed":    {"GET", "/ping", "application/json", "gzip", Zipped("m1 anncanary\n"), 200, "m1 ann\n"},
		"of no memory, encoded":       {"GET", "/ping", "application/json", "br", "m1 anncanary\n", 502, `"upstream.malformed"`},
		"of no memory, as events":     {"GET", "/ping", "text/event-stream", "", "data: canary\n\n", 200, "data: \n\n"},
		"an error of no memory":       {"GET", "/ping", "application/json", "", "canary", 503, ""},
		"a page":                      {"GET", "/page", "text/html", "", "canary", 200, "canary"},
		"public":                      {"GET", "/health", "application/json", "", "fine canary", 200, "fine "},
		"public, compressed":          {"GET", "/health", "application/json", "gzip", Zipped("fine canary"), 200, "fine "},
		"public, encoded":             {"GET", "/health", "application/json", "br", "canary", 502, `{"detail":"the backend's response could not be read","code":"memproxy_upstream"}`},
		"public, unread":              {"GET", "/health", "application/json", "", "unreadable", 502, `{"detail":"the backend's response could not be read","code":"memproxy_upstream"}`},
		"public, an error":            {"GET", "/health", "text/plain", "", "canary", 503, ""},
	} {
		t.Run(name, func(t *testing.T) {
			do := start(t, Setup{Adapter: Pruning{}, Name: name, Answer: func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				if c.media != "" {
					w.Header().Set("Content-Type", c.media)
				}
				if c.encoding != "" {
					w.Header()["Content-Encoding"] = strings.Split(c.encoding, "\n")
				}
				if away := strings.HasSuffix(name, "elsewhere"); away {
					w.Header().Set("Location", "https://elsewhere.example/memory")
					w.WriteHeader(307)
				} else if c.status == 206 || c.status == 307 || c.status == 503 {
					w.WriteHeader(c.status)
				}
				fmt.Fprint(w, c.answer)
			}})
			resp, body := do(c.method, c.path, strings.Repeat("x", len(c.method)-3))
			expect.Equal(t, resp.StatusCode, c.status)
			expect.Equal(t, body, c.want)
			expect.That(t, resp.Header.Get("Content-Encoding") == "" || c.want == "", "said to be encoded as %q", resp.Header.Get("Content-Encoding"))
		})
	}
}

// Headers checks, on every kind of route, that only the answer's headers that clients
// need pass, and no trailers, and that one setting lets the others pass.
func Headers(t *testing.T, start Start) {
	needed := map[string]string{"Retry-After": "3", "X-Request-Id": "r", "X-Ratelimit-Remaining": "7", "X-Should-Retry": "false"}
	others := map[string]string{"Set-Cookie": "session=canary", "Link": "<https://backend/next>; rel=next", "Server-Timing": "db;dur=5", "Etag": `"canary"`,
		"Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT", "Content-Location": "/canary", "Refresh": "0; url=/canary", "X-Memory": "canary", "X-Total-Count": "9"}
	for _, setting := range []gate.Unclaimed{gate.UnclaimedDrop, gate.UnclaimedPass} {
		for _, path := range []string{"/memory", "/run", "/ping", "/health", "/custom/x"} {
			do := start(t, Setup{Adapter: Toy{}, Rules: func(r *gate.Rules) { r.Headers = setting }, Answer: func(w http.ResponseWriter, _ *http.Request) {
				for _, list := range []map[string]string{needed, others} {
					for name, value := range list {
						w.Header().Set(name, value)
					}
				}
				w.Header()["Content-Type"] = nil // otherwise the test's server would guess a type
				fmt.Fprint(w, "m1 ann\n")
				w.Header().Set(http.TrailerPrefix+"X-After", "canary")
			}})
			resp, body := do("GET", path, "")
			expect.Equal(t, resp.StatusCode, 200, path)
			expect.Equal(t, body, "m1 ann\n", path)
			got, typed := resp.Header["Content-Type"]
			expect.That(t, !typed, "%s: the type %q was added", path, got)
			for name, value := range needed {
				expect.Equal(t, resp.Header.Get(name), value, path, name, "was lost")
			}
			for name := range others {
				expect.Equal(t, resp.Header.Get(name) != "", setting == gate.UnclaimedPass, path, setting, name, "came back as")
			}
			expect.Len(t, resp.Trailer, 0, path, "trailers")
		}
	}
}

// NoCache checks that an answer for one caller is not cacheable, whatever the backend
// says, on every route that is ruled on, including refusals and streams. Public answers,
// and all answers in shadow mode, keep the backend's headers.
func NoCache(t *testing.T, start Start) {
	said := map[string]string{"Cache-Control": "public, max-age=3600", "Expires": "Sun, 06 Nov 2094 08:49:37 GMT", "Age": "1", "Pragma": "public",
		"Cdn-Cache-Control": "max-age=3600", "Surrogate-Control": "max-age=3600", "X-Accel-Expires": "60"}
	for _, enforce := range []bool{true, false} {
		rules := func(r *gate.Rules) { r.Enforce, r.Headers = enforce, gate.UnclaimedPass }
		do := start(t, Setup{Adapter: Toy{}, Rules: rules, Answer: func(w http.ResponseWriter, q *http.Request) {
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
		}})
		for _, path := range []string{"/memory", "/memory?none", "/run", "/ping", "/custom/x", "/unknown", "/health"} {
			resp, _ := do("GET", path, "")
			want := enforce && path != "/health"
			if path == "/unknown" && !enforce {
				continue
			}
			if got := resp.Header.Values("Cache-Control"); len(got) != 1 || (got[0] == "no-store") != want {
				t.Errorf("enforced %v, %s: Cache-Control is %q", enforce, path, got)
			}
			for name, value := range said {
				got := resp.Header.Get(name)
				expect.That(t, name == "Cache-Control" || path == "/unknown" || (got == value) != want, "enforced %v, %s: %s is %q", enforce, path, name, got)
			}
		}
	}
}
