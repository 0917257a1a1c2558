package app_test

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/gate/backend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

const adminToken = "m0-canary-key-of-an-administrator"

const rootCaller = `id: "human:root", kind: human, trust: human, tenant: acme, roles: [memproxy-admin], acts_as: "*"`

const administered = `profile: production
state: DIR/state
admin: {listen: "127.0.0.1:0"}
backends:
  - {name: mem0, kind: KIND, listen: "127.0.0.1:0", upstream: "BACK", credential: "the-backends-own", passthrough: ["GET /custom/*"]}
identity:
  keys:
    - {sha256: "KEY", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, acts_as: "*"}
    - {sha256: "ROOT", ` + rootCaller + `}
log: {level: error}
`

// shower is a backend whose answers contain a secret.
type shower struct {
	mu   sync.Mutex
	seen []*http.Request
}

func (s *shower) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	s.seen = append(s.seen, r)
	s.mu.Unlock()
	replies(w, http.StatusOK, `{"api_key":"secret-canary"}`)
}

// take returns the requests for a path since the last call. memproxy makes requests of
// its own, which other paths have.
func (s *shower) take(path string) (out []*http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		if r.URL.Path == path {
			out = append(out, r)
		}
	}
	s.seen = nil
	return out
}

var pathParam = regexp.MustCompile(`\{[^}]*\}`)

// adapterOf is the adapter of a kind of backend.
func adapterOf(t *testing.T, kind string) backend.Adapter {
	t.Helper()
	if kind == "letta" {
		return must.Get(letta.New(letta.Options{}))(t)
	}
	return must.Get(mem0.New(mem0.Options{}))(t)
}

// routesOf is the table of its routes.
func routesOf(t *testing.T, kind string) iter.Seq2[string, memproxy.Route] {
	return adapterOf(t, kind).(interface {
		Routes() iter.Seq2[string, memproxy.Route]
	}).Routes()
}

// Proves EDGE-13, EDGE-3: every administrative route of both backends, as generated
// from their route tables, is closed to anonymous callers and plain keys, for reads
// too, and open to the role. Routes that touch no memory are open to all. Every
// forwarded request carries the backend's own credential and none of the caller's.
func TestAdministrationIsClosed(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"letta", "mem0"} {
		back := &shower{}
		up := serving(t, back)
		r := start(t, administered, "KIND", kind, "BACK", up.URL, "ROOT", sha(adminToken))
		rows := maps.Collect(routesOf(t, kind))
		rows["GET /custom/thing"] = memproxy.Route{Kind: memproxy.Other, Pass: true}
		counted := 0
		for _, at := range ring.Sample(slices.Sorted(maps.Keys(rows)), 1, 3) {
			route := rows[at]
			if route.Kind != memproxy.Admin && !route.Pass || strings.HasPrefix(route.ID, "openmemory.") {
				continue
			}
			counted++
			method, path, _ := strings.Cut(at, " ")
			if method == "*" {
				method = "POST"
			}
			path = strings.ReplaceAll(path, "{agent_id}", "agent-00000000-0000-4000-8000-000000000000")
			named := pathParam.MatchString(path) // the owner decides about these
			path = pathParam.ReplaceAllString(path, "tool-00000000-0000-4000-8000-000000000000")
			body := ""
			if method != "GET" {
				body = "{}"
			}
			for caller, header := range map[string][]string{
				"nobody":  {"X-API-Key", "", "X-Memproxy-Session", "s"},
				"a plain": {"X-API-Key", devToken, "Authorization", "Bearer " + devToken},
				"root":    {"X-API-Key", adminToken},
			} {
				if route.Pass && !route.Public && named && caller != "nobody" {
					continue
				}
				back.take(path)
				g := r.do(method, path, body, header...)
				arrived := back.take(path)
				open := caller == "root" || route.Public || route.Pass && caller == "a plain"
				// Members that the route table does not claim are removed for the role,
				// too.
				if (len(arrived) > 0) != open || strings.Contains(g.body, "canary") && !open || (g.status == 401 || g.status == 403) == open {
					t.Errorf("%s: %s as %s (%s): %d %s, %d arrived", kind, at, caller, route.ID, g.status, g.body, len(arrived))
				}
				for _, q := range arrived {
					sent := fmt.Sprint(q.Header)
					own := strings.Contains(sent, "the-backends-own")
					expect.Equal(t, !strings.Contains(sent, "m0-canary") && own == (caller != "nobody"), true, kind, at, "as", caller, "is sent with", sent)
				}
				expect.Equal(t, g.header.Get("X-Memproxy-Decision") == "", route.Public, kind, at, "as", caller, "is not decided")
			}
		}
		expect.Equal(t, counted >= 10/ring.Share(1, 3), true, kind, "routes", counted)
	}
}

// Proves EDGE-13: a plain key creates and changes agents that name a model, but cannot
// give them an endpoint, a key or an environment; the role can.
func TestModelsEndpointsAreAdministration(t *testing.T) {
	t.Parallel()
	l := startLettaWith(t, someAgent, withKey(lettaConf, adminToken, rootCaller), plainly)
	evil := "http://evil.example/v1"
	for i, c := range []struct {
		method, path, body string
		plain              bool
	}{
		{"POST", "/v1/agents/", `{"model":"openai/gpt-4o-mini","embedding":"openai/e","memory_blocks":[{"label":"human","value":"Bo"}]}`, true},
		{"POST", "/v1/agents/", `{"model":"openai/gpt-4o-mini","model_settings":{"provider_type":"openai","temperature":0.1},"memory_blocks":[{"label":"human","value":"Bo"}]}`, true},
		{"PATCH", "/v1/agents/AGENT", `{"model":"openai/gpt-4o","context_window_limit":8000}`, true},
		{"POST", "/v1/agents/", `{"llm_config":{"model":"m","model_endpoint":"` + evil + `"},"memory_blocks":[]}`, false},
		{"PATCH", "/v1/agents/AGENT", `{"llm_config":{"model":"m","model_endpoint":"` + evil + `"}}`, false},
		{"PATCH", "/v1/agents/AGENT", `{"embedding_config":{"embedding_model":"m","embedding_endpoint":"` + evil + `"}}`, false},
		{"PATCH", "/v1/agents/AGENT", `{"model_settings":{"provider_type":"openai","extra":{"base_url":"` + evil + `"}}}`, false},
		{"PATCH", "/v1/agents/AGENT", `{"tool_exec_environment_variables":{"A":"b"}}`, false},
		{"PATCH", "/v1/agents/AGENT", `{"secrets":{"A":"b"}}`, false},
		{"GET", "/v1/agents/AGENT?include=agent.secrets", "", false},
		{"GET", "/v1/agents/AGENT", "", true},
	} {
		path := strings.ReplaceAll(c.path, "AGENT", l.agent)
		session := fmt.Sprint("s", i) // otherwise the agent's session is locked
		g := l.do(c.method, path, c.body, "X-Memproxy-Session", session)
		if (g.status < 300) != c.plain || !c.plain && (g.status != 403 || !strings.Contains(g.body, "policy.admin")) {
			t.Errorf("%s %s %s with a plain key: %d %s", c.method, path, c.body, g.status, g.body)
		}
		l.do(c.method, path, c.body, "X-API-Key", adminToken, "X-Memproxy-Session", session+"r").want(t, 200, c.method, path, c.body, "with the role")
	}
}

// Proves EDGE-13, EDGE-18: secrets in ordinary answers are removed, also for the owner,
// unless a caller with the role asks for them. The source of tools is shown to that role.
func TestSecretsAreRemovedFromAnswers(t *testing.T) {
	t.Parallel()
	showing := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			path := r.URL.Path
			switch {
			case strings.HasSuffix(path, "/secrets"), strings.HasSuffix(path, "/mcp-servers"):
				replies(w, http.StatusOK, `{"id":"x","secrets":[{"key":"K","value":"secret-canary"}],"servers":[{"url":"http://secret-canary"}]}`)
			case strings.HasPrefix(path, "/v1/tools/tool-"):
				replies(w, http.StatusOK, fmt.Sprintf(`{"id":%q,"name":"roll","tool_type":"custom","source_code":"source-canary","metadata_":{},"tags":[]}`, strings.TrimPrefix(path, "/v1/tools/")))
			default:
				relay(w, r, h, func(body string) string {
					if strings.HasPrefix(path, "/v1/agents/agent-") && strings.HasPrefix(body, "{") && strings.Count(path, "/") == 3 {
						return `{"tool_exec_environment_variables":[{"key":"K","value":"secret-canary"}],"secrets":[{"value":"secret-canary"}],` + body[1:]
					}
					return body
				})
			}
		})
	}
	const owner = `id: "agent:code", kind: agent, trust: authenticated, tenant: acme, roles: [memproxy-owner], acts_as: "*"`
	l := startLettaWith(t, someAgent, withKey(withKey(lettaConf, adminToken, rootCaller), "owner-token", owner), showing)
	path := "/v1/agents/" + l.agent
	for _, q := range [][2]string{{"GET", ""}, {"PATCH", `{"name":"other"}`}} {
		l.do(q[0], path, q[1]).want(t, 200, q[0]).lacks(t, "canary").has(t, l.agent)
	}
	for token, shows := range map[string]bool{adminToken: true, "owner-token": false} {
		g := l.do("GET", path+"?include=agent.secrets", "", "X-API-Key", token).want(t, 200, "asked for with", token).has(t, `"secrets":[`)
		expect.Equal(t, strings.Contains(g.body, "canary"), shows, "asked for with", token, g.body)
	}
	for _, at := range []string{"/secrets", "/mcp-servers"} { // of Letta Cloud
		l.do("GET", path+at, "", "X-API-Key", "owner-token").want(t, 200, at).lacks(t, "canary")
	}
	for token, shows := range map[string]bool{adminToken: true, "owner-token": false} { // who makes tools reads them
		g := l.do("GET", "/v1/tools/tool-00000001-1111-4111-8111-111111111111", "", "X-API-Key", token).want(t, 200, "a tool as", token)
		expect.Equal(t, strings.Contains(g.body, "canary"), shows, "a tool as", token, g.body)
	}
	l.do("PATCH", path, `{"secrets":{"A":"b"}}`, "X-API-Key", "owner-token").want(t, 403).has(t, "policy.admin", `"pointer":"/secrets"`)
}
