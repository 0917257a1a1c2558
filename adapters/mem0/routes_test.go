package mem0_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/mem0"
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

// documented lists every route of the hosted platform, of the self-hosted
// server, and of OpenMemory and MCP.
var documented = []struct{ method, path, class string }{
	{"GET", "/v1/ping/", "other pass"},
	{"POST", "/v3/memories/add/", "write"},
	{"POST", "/v1/memories/", "write"},
	{"POST", "/v3/memories/search/", "read"},
	{"POST", "/v2/memories/search/", "read"},
	{"POST", "/v1/memories/search/", "read"},
	{"POST", "/v3/memories/", "read"},
	{"POST", "/v2/memories/", "read"},
	{"GET", "/v1/memories/", "read"},
	{"GET", "/v1/memories/m-1/", "read"},
	{"PUT", "/v1/memories/m-1/", "update"},
	{"DELETE", "/v1/memories/m-1/", "delete"},
	{"DELETE", "/v1/memories/", "bulk"},
	{"GET", "/v1/memories/m-1/history/", "read"},
	{"GET", "/v1/memories/events/", "read"},
	{"GET", "/v1/memories/user/alice/", "read"},
	{"PUT", "/v1/batch/", "update"},
	{"DELETE", "/v1/batch/", "delete"},
	{"GET", "/v1/event/e-1/", "read"},
	{"GET", "/v1/events/", "read"},
	{"POST", "/v1/exports/", "derived"},
	{"POST", "/v1/exports/get/", "derived"},
	{"POST", "/v1/summary/", "derived"},
	{"POST", "/v1/feedback/", "update"}, // it changes a memory's rank
	{"GET", "/v1/entities/", "read"},
	{"GET", "/v1/entities/filters/", "derived"},
	{"GET", "/v2/entities/agent/dev/", "read"},
	{"DELETE", "/v2/entities/user/alice/", "bulk"},
	{"DELETE", "/v1/entities/user/42/", "bulk"},
	{"GET", "/v2/entities/user/alice/profile/", "derived"},
	{"POST", "/v2/profiles/jobs/", "steering"},
	{"GET", "/v2/profiles/jobs/j-1/", "derived"},
	{"GET", "/v2/profiles/settings/", "admin"},
	{"POST", "/v2/profiles/settings/", "steering"},
	{"GET", "/api/v1/orgs/organizations/o/projects/p/", "steering"},
	{"POST", "/api/v1/orgs/organizations/o/projects/", "steering"},
	{"PATCH", "/api/v1/orgs/organizations/o/projects/p/", "steering"},
	{"DELETE", "/api/v1/orgs/organizations/o/projects/p/", "steering"},
	{"PUT", "/api/v1/orgs/organizations/o/projects/p/members/", "steering"},
	{"GET", "/api/v1/orgs/organizations/", "steering"},
	{"GET", "/api/v1/webhooks/projects/p/", "admin"},
	{"POST", "/api/v1/webhooks/projects/p/", "admin"},
	{"PUT", "/api/v1/webhooks/7/", "admin"},
	{"DELETE", "/api/v1/webhooks/7/", "admin"},
	{"GET", "/v1/stats/", "derived pass"},
	{"POST", "/v1/users/", "write"},
	{"POST", "/v1/agents/", "write"},
	{"POST", "/v1/apps/", "write"},
	{"POST", "/v1/runs/", "write"},
	{"POST", "/v1/agent-rush/memories/", "write"},
	{"POST", "/v1/agent-rush/memories/search/", "read"},
	{"POST", "/api/v1/auth/email_code/", "admin"},
	{"POST", "/api/v1/auth/email_code/verify/", "admin"},
	{"POST", "/api/v1/auth/agent_mode/", "admin"},
	{"POST", "/api/v1/auth/agent_mode/caller/", "admin"},

	{"POST", "/memories", "write"},
	{"GET", "/memories", "read"},
	{"GET", "/memories/m-1", "read"},
	{"PUT", "/memories/m-1", "update"},
	{"DELETE", "/memories/m-1", "delete"},
	{"DELETE", "/memories", "bulk"},
	{"GET", "/memories/m-1/history", "read"},
	{"POST", "/search", "read"},
	{"POST", "/configure", "steering"},
	{"GET", "/configure", "admin"},
	{"GET", "/configure/providers", "admin"},
	{"POST", "/generate-instructions", "admin"},
	{"POST", "/reset", "admin"},
	{"GET", "/entities", "read"},
	{"DELETE", "/entities/user/alice", "bulk"},
	{"GET", "/requests", "admin"},
	{"GET", "/auth/setup-status", "admin"},
	{"POST", "/auth/login", "admin"},
	{"GET", "/api-keys", "admin"},
	{"POST", "/api-keys", "admin"},
	{"DELETE", "/api-keys/k-1", "admin"},
	{"GET", "/", "other pass"},
	{"GET", "/docs", "other pass"},
	{"GET", "/redoc", "other pass"},
	{"GET", "/openapi.json", "other pass"},

	{"POST", "/api/v1/memories/", "write"},
	{"GET", "/api/v1/memories/", "read"},
	{"POST", "/api/v1/memories/filter", "update"}, // a read, in the class of its prefix
	{"GET", "/api/v1/memories/m-1", "read"},
	{"GET", "/api/v1/memories/m-1/related", "read"},
	{"GET", "/api/v1/memories/categories", "read"},
	{"GET", "/api/v1/memories/m-1/access-log", "read"},
	{"PUT", "/api/v1/memories/m-1", "update"},
	{"DELETE", "/api/v1/memories/", "bulk"},
	{"POST", "/api/v1/memories/actions/pause", "update"},
	{"POST", "/api/v1/memories/actions/archive", "update"},
	{"GET", "/api/v1/apps/", "admin"},
	{"PUT", "/api/v1/apps/a-1", "admin"},
	{"GET", "/api/v1/stats/", "other"},
	{"GET", "/api/v1/config/", "admin"},
	{"PATCH", "/api/v1/config/mem0/llm", "admin"},
	{"POST", "/api/v1/backup/export", "write"}, // likewise
	{"POST", "/api/v1/backup/import", "write"},
	{"GET", "/mcp/cursor/sse/alice", "run"},
	{"POST", "/mcp/messages/", "run"},
	{"POST", "/mcp/cursor/http/alice", "run"},
	{"DELETE", "/mcp/cursor/http/alice", "run"},
	{"POST", "/mcp", "run"},
	{"POST", "/mcp/", "run"},
}

// Proves CARD-1, CARD-2, EDGE-3: every documented route has its class, and only routes
// without memory pass.
func TestEveryDocumentedRoute(t *testing.T) {
	a := adapter(t)
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
	toggled := func(p string) string {
		if strings.HasSuffix(p, "/") {
			return p[:len(p)-1]
		}
		return p + "/"
	}
	for _, d := range documented {
		if d.path == "/" {
			continue
		}
		first := strings.Index(d.path[1:]+"/", "/") + 1 // end of the first segment
		for name, p := range map[string]string{
			"toggled slash":     toggled(d.path),
			"doubled slash":     "/" + d.path,
			"doubled inside":    d.path[:first] + "//" + strings.TrimPrefix(d.path[first:], "/"),
			"doubled at end":    d.path + "//",
			"encoded letter":    "/%" + hex(d.path[1]) + d.path[2:],
			"encoded slash":     d.path[:first] + "%2f" + strings.TrimPrefix(d.path[first:], "/"),
			"encoded end":       strings.TrimSuffix(d.path, "/") + "%2F",
			"capitals":          strings.ToUpper(d.path),
			"dot":               "/." + d.path,
			"dot-dot":           "/x/.." + d.path,
			"encoded dot-dot":   "/x/%2e%2e" + d.path,
			"hidden dot-dot":    "/auth/x%2f..%2f.." + d.path,
			"twice encoded":     "/auth/%252e%252e" + d.path,
			"parameter":         d.path + ";x=1",
			"backslash":         strings.ReplaceAll(d.path, "/", "\\"),
			"encoded backslash": "/auth/%5c.." + d.path,
			"newline":           d.path + "%0a",
			"no slash":          d.path[1:],
			"absolute":          "http://h" + d.path,
		} {
			r, ok := a.Route(memproxy.Request{Method: d.method, EscapedPath: p})
			same := class(r) == d.class && name == "toggled slash"
			if ok && !same {
				t.Errorf("%s: %s %s is %q (%s), want none", name, d.method, p, class(r), r.ID)
			}
		}
	}
}

func hex(b byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[b>>4], digits[b&15]})
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
	for _, line := range []string{
		"POST /v1/memories/m-1/", "PATCH /v1/memories/m-1/", "PUT /v1/memories/", "POST /v4/memories/add/", "PUT /v3/memories/add/",
		"POST /v1/memories/import/", "POST /v1/ingest/", "DELETE /v3/memories/", "DELETE /v1/ping/", "POST /v1/batch/",
		"PATCH /memories", "PUT /memories", "POST /memories/m-1", "DELETE /memories/m-1/history", "PUT /search", "DELETE /configure",
		"POST /v1/entities/", "DELETE /v2/entities/user/", "DELETE /v2/entities/", "POST /", "POST /docs", "POST /v2/memories/add/",
		"post /memories", "PROPFIND /memories", "DELETE /reset", "POST /v1/exports/other/", "PUT /v2/profiles/settings/",
	} {
		method, path, _ := strings.Cut(line, " ")
		if r, ok := a.Route(memproxy.Request{Method: method, EscapedPath: path}); ok {
			t.Errorf("%s is %s", line, r.ID)
		}
	}
	if r, ok := a.Route(memproxy.Request{Method: "HEAD", EscapedPath: "/memories"}); !ok || r.Kind != memproxy.Recall {
		t.Error("HEAD is not routed as GET")
	}
}
