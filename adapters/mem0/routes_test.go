package mem0_test

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/adapters/routetable/routetabletest"
	"github.com/memproxy/memproxy/internal/must"
)

func adapter(t testing.TB) *mem0.Adapter {
	t.Helper()
	return must.Get(mem0.New(mem0.Options{}))(t)
}

// class returns the class of a route as in the formats' documentation.
func class(r memproxy.Route) string {
	name := map[memproxy.Kind]string{
		memproxy.Learn: "write", memproxy.Correct: "update", memproxy.Forget: "delete", memproxy.Recall: "read",
		memproxy.Admin: "admin", memproxy.Other: "other", memproxy.Run: "run",
	}[r.Kind]
	switch {
	case r.Kind == memproxy.Admin && r.Steering:
		name = "steering"
	case r.Kind == memproxy.Forget && r.Bulk:
		name = "bulk"
	case r.Derived:
		name = "derived"
	}
	if r.Pass {
		name += " pass"
	}
	return name
}

//go:embed testdata/routes.txt
var routes string

// documented are the routes of testdata/routes.txt.
var documented = func() (out []struct{ method, path, class string }) {
	for line := range strings.Lines(routes) {
		if f := strings.SplitN(strings.TrimSpace(line), " ", 3); len(f) == 3 && f[0] != "#" {
			out = append(out, struct{ method, path, class string }{f[0], f[1], f[2]})
		}
	}
	return out
}()

// Proves CARD-1, CARD-2, EDGE-3: every documented route has its class, and only routes
// without memory pass.
func TestEveryDocumentedRoute(t *testing.T) {
	a := adapter(t)
	must.Len(t, documented, 104)
	for _, d := range documented {
		r, ok := a.Route(memproxy.Request{Method: d.method, EscapedPath: d.path})
		if !ok || class(r) != d.class {
			t.Errorf("%s %s is %q (%s), want %q", d.method, d.path, class(r), r.ID, d.class)
		}
	}
}

// Proves EDGE-3: another spelling of a path is the same route or none, never one of
// another class.
func TestOtherSpellings(t *testing.T) {
	a := adapter(t)
	for _, d := range documented {
		if d.path == "/" {
			continue
		}
		for _, other := range routetabletest.Respelled(d.path, "/auth") {
			routetabletest.Unknown(t, a, d.method+" "+other)
		}
		toggled := d.path + "/"
		if strings.HasSuffix(d.path, "/") {
			toggled = d.path[:len(d.path)-1]
		}
		if r, ok := a.Route(memproxy.Request{Method: d.method, EscapedPath: toggled}); ok && class(r) != d.class {
			t.Errorf("%s %s is %q (%s), want %q or none", d.method, toggled, class(r), r.ID, d.class)
		}
	}
}

// Proves EDGE-3: characters that an id may contain, and those that would make it
// another route on a server that decodes paths before it routes.
func TestEncodedSegments(t *testing.T) {
	a := adapter(t)
	for _, tt := range []struct{ method, path, id, param, value string }{
		{"GET", "/v1/memories/%61bc/", "mem0.v1.get", "id", "abc"},
		{"GET", "/v1/memories/a%20b%C3%A9/", "mem0.v1.get", "id", "a bé"},
		{"GET", "/v1/memories/50%25/", "mem0.v1.get", "id", "50%"},
		{"DELETE", "/v2/entities/user/team%2Falice/", "mem0.v2.entity.delete", "entity_id", "team/alice"},
		{"GET", "/v2/entities/user/a%2Fb/profile/", "mem0.v2.profile", "entity_id", "a/b"},
		{"GET", "/v1/memories/user%2Fbob/", "", "", ""},                // the memories of bob
		{"GET", "/v1/memories/m%2Fhistory/", "", "", ""},               // a history
		{"GET", "/memories/m%2Fhistory", "", "", ""},                   // the same, self-hosted
		{"GET", "/v2/entities/user/alice%2Fprofile/", "", "", ""},      // a profile
		{"GET", "/v2/entities/user/..%2F..%2Fping/", "", "", ""},       // leaves the row
		{"GET", "/memories/m%2F", "", "", ""},                          // a server that drops a trailing slash finds m
		{"GET", "/v1/memories/search%00/", "", "", ""},                 // cut at the zero
		{"GET", "/v1/memories/%ff/", "", "", ""},                       // not UTF-8
		{"GET", "/v1/memories/%zz/", "", "", ""},                       // not an encoding
		{"GET", "/v1/memories/%2573earch/", "", "", ""},                // encoded twice
		{"GET", "/auth/a%2Fb", "", "", ""},                             // a passing route takes no ambiguous path
		{"GET", "/auth/" + strings.Repeat("a/", 20), "", "", ""},       // longer than any row
		{"GET", "/v1/memories//", "", "", ""},                          // an empty id
		{"DELETE", "/v2/entities/user//", "", "", ""},                  // an empty name
		{"GET", "/v1/memories/events/", "mem0.v1.history.all", "", ""}, // a literal wins over {id}
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
		"POST /v1/memories/m-1/", "PATCH /v1/memories/m-1/", "PUT /v1/memories/", "POST /v4/memories/add/", "PUT /v3/memories/add/",
		"POST /v1/memories/import/", "POST /v1/ingest/", "DELETE /v3/memories/", "DELETE /v1/ping/", "POST /v1/batch/",
		"PATCH /memories", "PUT /memories", "POST /memories/m-1", "DELETE /memories/m-1/history", "PUT /search", "DELETE /configure",
		"POST /v1/entities/", "DELETE /v2/entities/user/", "DELETE /v2/entities/", "POST /", "POST /docs", "POST /v2/memories/add/",
		"post /memories", "PROPFIND /memories", "DELETE /reset", "POST /v1/exports/other/", "PUT /v2/profiles/settings/")
	if r, ok := a.Route(memproxy.Request{Method: "HEAD", EscapedPath: "/memories"}); !ok || r.Kind != memproxy.Recall {
		t.Error("HEAD is not routed as GET")
	}
}
