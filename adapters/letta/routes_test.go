package letta_test

import (
	_ "embed"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/routetable/routetabletest"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

//go:embed testdata/routes.txt
var routes string

// documented are the routes of testdata/routes.txt: class, method, path.
var documented = func() (out [][3]string) {
	for line := range strings.Lines(routes) {
		if f := strings.Fields(line); !strings.HasPrefix(line, "#") && len(f) == 3 {
			out = append(out, [3]string(f))
		}
	}
	return out
}()

// ids replaces a path's parameters by ids of their kind.
func ids(path string) string {
	return hole.ReplaceAllStringFunc(path, func(p string) string {
		name := strings.Trim(p, "{}")
		if strings.HasSuffix(name, ":path") {
			return "a/b"
		}
		return kindFor(name) + "-1"
	})
}

// wants maps the documentation's classes of route to ours, except for exceptions.
var wants = map[string]string{"W": "learn", "U": "correct", "D": "forget", "R": "recall", "X": "run", "C": "admin", "-": "admin", "W/R": "learn"}

//go:embed testdata/exceptions.txt
var exceptionTable string

// exceptions are the classes of testdata/exceptions.txt by method and path.
var exceptions = func() map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(exceptionTable) {
		if f := strings.SplitN(strings.TrimSpace(line), " ", 3); len(f) == 3 && f[0] != "#" {
			out[f[0]+" "+f[1]] = f[2]
		}
	}
	return out
}()

// class returns the class of a route as in wants.
func class(r memproxy.Route) string {
	if r.Pass {
		return string(r.Kind) + " pass"
	}
	return string(r.Kind)
}

func want(d [3]string) string {
	key := d[1] + " " + d[2]
	switch {
	case exceptions[key] != "":
		return exceptions[key]
	case strings.Contains(d[2], "/sandbox-config/"):
		return "admin"
	case strings.Contains(d[2], "/attach/") && d[0] == "U", strings.Contains(d[2], "/detach/") && d[0] == "D":
		return "attach"
	}
	return wants[d[0]]
}

func methods(d [3]string) []string {
	if d[1] == "ANY" {
		return []string{"GET", "POST", "PUT", "DELETE"}
	}
	return []string{d[1]}
}

// Proves CARD-1, CARD-2, EDGE-3: every documented route has its class, and only routes
// without memory pass; under both mounts, with and without a trailing slash.
func TestEveryDocumentedRoute(t *testing.T) {
	a := adapter(t)
	must.Len(t, documented, 255)
	for _, d := range documented {
		path := ids(d[2])
		toggled := path + "/"
		if strings.HasSuffix(path, "/") {
			toggled = path[:len(path)-1]
		}
		for _, method := range methods(d) {
			for _, p := range []string{path, toggled, "/latest" + path[len("/v1"):], "/latest" + toggled[len("/v1"):]} {
				r, ok := a.Route(memproxy.Request{Method: method, EscapedPath: p})
				if !ok || class(r) != want(d) {
					t.Errorf("%s %s is %q (%s), want %q", method, p, class(r), r.ID, want(d))
				}
			}
		}
	}
	for key := range exceptions {
		if !slices.ContainsFunc(documented, func(d [3]string) bool { return d[1]+" "+d[2] == key }) {
			t.Errorf("the exception %s is no route", key)
		}
	}
}

//go:embed testdata/sdk.txt
var sdkRoutes string

// Proves CARD-1: every route that the SDK requests is known, also those of Letta Cloud,
// so that a caller with the right role can use all of its methods.
func TestEveryRouteOfTheSDK(t *testing.T) {
	a := adapter(t)
	n := 0
	for line := range strings.Lines(sdkRoutes) {
		method, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		if method == "#" {
			continue
		}
		n++
		if r, ok := a.Route(memproxy.Request{Method: method, EscapedPath: ids(path)}); !ok || a.Row(r.ID).ID == "" {
			t.Errorf("%s %s is unknown", method, path)
		}
	}
	expect.Equal(t, n, 129)
}

// Proves EDGE-3: another spelling of a path is the same route or none, never one of
// another class.
func TestOtherSpellings(t *testing.T) {
	for _, d := range documented {
		p := ids(d[2])
		for _, other := range append(routetabletest.Respelled(p, "/assets"), "/l%61test"+p[len("/v1"):], "/latest"+p) {
			routetabletest.Unknown(t, adapter(t), methods(d)[0]+" "+other)
		}
	}
}

// Proves EDGE-3: characters that an id may contain, and those that would make it
// another route on a server that decodes paths before it routes.
func TestEncodedSegments(t *testing.T) {
	a := adapter(t)
	for _, tt := range []struct{ method, path, id, param, value string }{
		{"GET", "/v1/blocks/block%2D1", "letta.retrieve_block", "block_id", "block-1"},
		{"PATCH", "/v1/agents/agent-1/core-memory/blocks/a%20b", "letta.modify_core_memory_block", "label", "a b"},
		{"PATCH", "/v1/agents/agent-1/core-memory/blocks/skills%2Fx", "letta.modify_core_memory_block", "label", "skills/x"},
		{"PATCH", "/v1/agents/agent-1/core-memory/blocks/attach%2Fblock-1", "", "", ""},
		{"GET", "/v1/blocks/block-1%2Fagents", "", "", ""},
		{"GET", "/v1/agents/agent-1%2Fcontext", "", "", ""},
		{"GET", "/v1/%62locks/", "", "", ""},
		{"GET", "/v1/blocks/co%75nt", "", "", ""},
		{"GET", "/v1/blocks/block-1%00", "", "", ""},
		{"GET", "/v1/blocks/%ff", "", "", ""},
		{"GET", "/v1/blocks/%zz", "", "", ""},
		{"GET", "/v1/blocks/%2563ount", "", "", ""},
		{"POST", "/v1/anthropic/v1/a%2Fb", "", "", ""}, // a passing route takes no ambiguous path
		{"POST", "/v1/anthropic/v1/" + strings.Repeat("a/", 20), "", "", ""},
		{"GET", "/v1/agents/count", "letta.count_agents", "", ""}, // a literal wins over {agent_id}
	} {
		r, ok := a.Route(memproxy.Request{Method: tt.method, EscapedPath: tt.path})
		if ok != (tt.id != "") || r.ID != tt.id || r.Params[tt.param] != tt.value {
			t.Errorf("%s %s = %s %q", tt.method, tt.path, r.ID, r.Params)
		}
	}
}

// Proves EDGE-3: a request outside of the table that may write is unknown.
func TestUnknownRoutes(t *testing.T) {
	a := adapter(t)
	routetabletest.Unknown(t, a,
		"POST /v1/blocks/block-1", "PUT /v1/blocks/block-1", "PUT /v1/agents/agent-1", "POST /v2/blocks/", "POST /v1/agents/agent-1/core-memory",
		"PATCH /v1/agents/agent-1/archival-memory", "DELETE /v1/agents/", "POST /v1/health/", "POST /", "POST /docs", "PATCH /v1/_internal_blocks/block-1",
		"post /v1/blocks/", "PROPFIND /v1/blocks/", "POST /latest", "POST /v1/messages/", "DELETE /v1/passages/passage-1", "POST /V1/blocks/")
	if r, ok := a.Route(memproxy.Request{Method: "HEAD", EscapedPath: "/v1/blocks/"}); !ok || r.Kind != memproxy.Recall {
		t.Error("HEAD is not routed as GET")
	}
}

// Proves CARD-9, EDGE-1: the example for Envoy sends each run of an agent to the HTTP
// listener, under both prefixes of the server.
func TestEnvoySendsRunsToTheHTTPListener(t *testing.T) {
	example := string(must.Get(os.ReadFile("../../examples/envoy/envoy.yaml"))(t))
	var byHTTP []*regexp.Regexp
	for _, m := range regexp.MustCompile(`safe_regex: \{regex: "([^"]+)"`).FindAllStringSubmatch(example, -1) {
		byHTTP = append(byHTTP, regexp.MustCompile("^(?:"+m[1]+")$"))
	}
	sent := func(path string) bool {
		return slices.ContainsFunc(byHTTP, func(re *regexp.Regexp) bool { return re.MatchString(path) })
	}
	for at, rt := range adapter(t).Routes() {
		_, path, _ := strings.Cut(at, " ")
		rest, known := strings.CutPrefix(ids(path), "/v1/")
		if !known {
			continue
		}
		if sent("/v1/"+rest) != sent("/latest/"+rest) {
			t.Errorf("%s differs under /latest", at)
		}
		pauses := rt.ID == "letta.send_message" || rt.ID == "letta.create_agent_message_stream" || rt.ID == "letta.send_conversation_message"
		if !sent("/v1/"+rest) && (pauses || rt.ID == "letta.modify_agent" || rt.ID == "letta.retrieve_stream_for_run") {
			t.Errorf("%s goes to the processor", at)
		}
	}
}
