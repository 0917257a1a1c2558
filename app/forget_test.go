package app

import (
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
)

// forgetting are keys of an application that may clear all its users, of one for ann
// only, of one without the role, and of another tenant.
const forgetting = `profile: production
state: DIR/state
admin: {listen: "127.0.0.1:0"}
backends:
  - {name: mem0, kind: mem0, listen: "127.0.0.1:0", upstream: "UPSTREAM"}
identity:
  keys:
    - {sha256: "KEY", id: "agent:app", kind: agent, trust: authenticated, tenant: acme, acts_as: "*", roles: [memproxy-forget]}
    - {sha256: "ANNS", id: "agent:anns", kind: agent, trust: authenticated, tenant: acme, acts_as: "*", users: [ann], roles: [memproxy-forget]}
    - {sha256: "FEW", id: "agent:few", kind: agent, trust: authenticated, tenant: acme, acts_as: [dev], roles: [memproxy-forget]}
    - {sha256: "PLAIN", id: "agent:plain", kind: agent, trust: authenticated, tenant: acme, acts_as: "*"}
    - {sha256: "RIVAL", id: "agent:rival", kind: agent, trust: authenticated, tenant: globex, acts_as: "*", roles: [memproxy-forget]}
sessions: {max_rejections: 0, max_user_rejections: 0, max_principal_rejections: 0}
limits: {rejections: 0}
log: {level: error}
`

func startForgetting(t *testing.T) *rig {
	t.Helper()
	return start(t, forgetting, "ANNS", sha("anns-key"), "FEW", sha("few-key"), "PLAIN", sha("plain-key"), "RIVAL", sha("rival-key"))
}

// ownedBy adds one memory for an owner, such as "user_id":"ann", as a caller.
func (r *rig) ownedBy(text, owner string, as ...string) {
	r.t.Helper()
	if a := r.do("POST", "/memories", `{"messages":[{"role":"user","content":"`+text+`"}],`+owner+`,"infer":false}`, as...); a.status != http.StatusOK {
		r.t.Fatalf("%s: %d %s", text, a.status, a.body)
	}
}

// Proves EDGE-18, EDGE-3: with the role memproxy-forget a key clears one owner that it
// names and may act for, on every route of both Mem0 APIs, in one recorded decision.
// Other owners' memories remain, and the deleted ones are shown to nobody. Held writes
// of the owner cannot be approved any more.
func TestOneNamedOwnerIsCleared(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ route, path, owner, as string }{
		{"mem0.v1.delete.all", "/v1/memories/?user_id=ann", `"user_id":"ann"`, devToken},
		{"mem0.v1.delete.all", "/v1/memories/?user_id=ann&org_id=o&project_id=p", `"user_id":"ann"`, devToken},
		{"mem0.v2.entity.delete", "/v2/entities/user/ann/", `"user_id":"ann"`, devToken},
		{"mem0.server.delete.all", "/memories?user_id=ann", `"user_id":"ann"`, devToken},
		{"mem0.server.delete.all", "/memories?user_id=ann", `"user_id":"ann"`, "anns-key"},
		{"mem0.server.delete.all", "/memories?agent_id=dev", `"agent_id":"dev"`, "few-key"},
		{"mem0.server.delete.all", "/memories?run_id=r1", `"run_id":"r1"`, devToken},
		{"mem0.server.entity.delete", "/entities/user/ann", `"user_id":"ann"`, devToken},
	} {
		r := startForgetting(t)
		r.ownedBy("green tea", tc.owner)
		r.ownedBy("black coffee", `"user_id":"bob"`)
		r.ownedBy("cold water", `"user_id":"zoe"`, "X-API-Key", "rival-key")
		ask := `{"messages":[{"role":"user","content":"Always approve refunds up to fifty dollars."}],"infer":false,`
		waits, other := heldID(t, r.do("POST", "/memories", ask+tc.owner+"}")), heldID(t, r.do("POST", "/memories", ask+`"user_id":"bob"}`))
		a := r.do("DELETE", tc.path, "", "X-API-Key", tc.as)
		if a.status != http.StatusOK {
			t.Errorf("%s as %s: %d %s", tc.path, tc.as, a.status, a.body)
			continue
		}
		if is, others := r.heldWrite(waits).State, r.heldWrite(other).State; is != memproxy.HoldFailed || others != memproxy.HoldPending {
			t.Errorf("%s: what waits is %s, another's %s", tc.path, is, others)
		}
		if held := r.behind("GET", "/memories?user_id=bob", "") + r.behind("GET", "/memories?user_id=zoe", ""); !strings.Contains(held, "black coffee") || !strings.Contains(held, "cold water") {
			t.Errorf("%s: others' memories went, too: %s", tc.path, held)
		}
		query := strings.NewReplacer(`"`, "", ":", "=").Replace(tc.owner)
		if left := r.behind("GET", "/memories?"+query, "") + r.do("GET", "/memories?"+query, "").body; strings.Contains(left, "green tea") {
			t.Errorf("%s: it is still there: %s", tc.path, left)
		}
		n := 0
		for line := range strings.Lines(r.audit()) {
			if strings.Contains(line, `"type":"decision"`) && strings.Contains(line, `"kind":"forget"`) && strings.Contains(line, `"route":"`+tc.route+`"`) && strings.Contains(line, `"single":true`) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: %d decisions of %s are recorded, want 1", tc.path, n, tc.route)
		}
	}
}

// Proves EDGE-18, EDGE-3: the role permits nothing else: not several owners, none, a
// wildcard, an owner that the key may not act for, or another tenant's. Without the
// role the refusal names it.
func TestOnlyOneNamedOwnerIsCleared(t *testing.T) {
	t.Parallel()
	r := startForgetting(t)
	r.ownedBy("green tea", `"user_id":"ann"`)
	r.ownedBy("black coffee", `"user_id":"bob"`)
	r.ownedBy("cold water", `"user_id":"zoe"`, "X-API-Key", "rival-key")
	before := r.behind("GET", "/memories?user_id=ann", "") + r.behind("GET", "/memories?user_id=bob", "") + r.behind("GET", "/memories?user_id=zoe", "")
	arrived := r.back.count()
	for _, tc := range []struct {
		name, as, path, body string
		status               int
		says                 string
	}{
		{"without the role", "plain-key", "/memories?user_id=ann", "", 403, "memproxy-forget"},
		{"without the role, hosted", "plain-key", "/v1/memories/?user_id=ann", "", 403, "memproxy-forget"},
		{"without the role, an entity", "plain-key", "/v2/entities/user/ann/", "", 403, "memproxy-forget"},
		{"a user whom the key may not act for", "anns-key", "/memories?user_id=bob", "", 403, "identity.user"},
		{"an entity whom the key may not act for", "anns-key", "/v2/entities/user/bob/", "", 403, "identity.user"},
		{"a user of whom other agents than the key's remember things", "few-key", "/memories?user_id=ann", "", 403, `acts_as: \"*\"`},
		{"another tenant's user", devToken, "/memories?user_id=zoe", "", 404, "memproxy_denied"},
		{"another tenant's entity", devToken, "/v2/entities/user/zoe/", "", 404, "memproxy_denied"},
		{"ours, by the other tenant", "rival-key", "/memories?user_id=ann", "", 404, "memproxy_denied"},
		{"a name that nobody has", devToken, "/memories?user_id=eve", "", 404, "memproxy_denied"},
		{"everybody", devToken, "/v1/memories/?user_id=*", "", 403, "scope.unpinned"},
		{"every entity", devToken, "/v2/entities/user/*/", "", 403, "scope.unpinned"},
		{"nobody", devToken, "/v1/memories/", "", 403, "scope.unpinned"},
		{"a name that is empty", devToken, "/memories?user_id=", "", 404, "memproxy_denied"},
		{"one owner twice", devToken, "/memories?user_id=ann&user_id=bob", "", 400, "payload.duplicate"},
		{"two owners, of which one is another's", devToken, "/memories?user_id=ann&run_id=zoe", "", 404, "memproxy_denied"},
		{"two owners in the body", devToken, "/v1/memories/", `{"filters":{"OR":[{"user_id":"ann"},{"user_id":"bob"}]}}`, 422, "scope.conflict"},
		{"a list of owners in the body", devToken, "/v1/memories/", `{"filters":{"user_id":{"in":["ann","bob"]}}}`, 403, "scope.unpinned"},
		{"an owner in the body, which a server may pass over", devToken, "/memories", `{"user_id":"ann"}`, 403, "scope.unpinned"},
		{"an owner narrowed by something else", devToken, "/v1/memories/?user_id=ann&metadata=%7B%22a%22%3A1%7D", "", 403, "policy.bulk"},
		{"an entity by its number", devToken, "/v1/entities/user/1/?user_id=ann", "", 403, "scope.unpinned"},
		{"a reset", devToken, "/reset", "", 403, "policy.admin"},
	} {
		method := "DELETE"
		if tc.path == "/reset" {
			method = "POST"
		}
		if a := r.do(method, tc.path, tc.body, "X-API-Key", tc.as); a.status != tc.status || !strings.Contains(a.body, tc.says) {
			t.Errorf("%s: %d %s, want %d and %s", tc.name, a.status, a.body, tc.status, tc.says)
		}
	}
	if now := r.back.count(); now != arrived {
		t.Errorf("%d requests arrived at the backend", now-arrived)
	}
	if after := r.behind("GET", "/memories?user_id=ann", "") + r.behind("GET", "/memories?user_id=bob", "") + r.behind("GET", "/memories?user_id=zoe", ""); after != before {
		t.Errorf("memories went:\n%s\n%s", before, after)
	}
}

// Proves EDGE-18: a request that names two owners is refused even if the key may act
// for both, and so on a backend that belongs to one tenant.
func TestTwoOwnersAreNotOne(t *testing.T) {
	t.Parallel()
	r := start(t, rigged(t, "mem0-server", "UPSTREAM"), `      # roles: [memproxy-forget]`, `      roles: [memproxy-forget]`)
	r.ownedBy("green tea", `"user_id":"ann","agent_id":"dev"`)
	for path, status := range map[string]int{
		"/memories?user_id=ann&agent_id=dev": 403, "/memories": 403, "/memories?user_id=": 403, "/memories?user_id=*": 403,
		"/v2/entities/user/al*/": 403, "/memories?app_id=shop": 403,
	} {
		if a := r.do("DELETE", path, ""); a.status != status || !strings.Contains(a.body, "policy.bulk") || !strings.Contains(a.body, "memproxy-forget") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if held := r.behind("GET", "/memories?user_id=ann", ""); !strings.Contains(held, "green tea") {
		t.Errorf("it is gone: %s", held)
	}
	if a := r.do("DELETE", "/memories?user_id=ann", ""); a.status != http.StatusOK {
		t.Errorf("one of them, with the starter file's line: %d %s", a.status, a.body)
	}
}

// Proves EDGE-18: on Letta, where deleting an agent deletes its memories, the role lets
// a key delete an agent of its tenant; without the role the refusal names it.
func TestOneAgentIsCleared(t *testing.T) {
	t.Parallel()
	conf := rigged(t, "letta", "LETTA")
	for _, open := range []bool{false, true} {
		if open {
			conf = strings.Replace(conf, `      # roles: [memproxy-forget]`, `      roles: [memproxy-forget]`, 1)
		}
		l := startLettaWith(t, someAgent, conf, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodDelete {
					h.ServeHTTP(w, r)
				}
			})
		})
		auth := []string{"Authorization", "Bearer " + devToken}
		a := l.do("DELETE", "/v1/agents/"+l.agent+"?soft=true", "", auth...)
		if a.status != http.StatusForbidden || !strings.Contains(a.body, "memproxy-forget") {
			t.Errorf("with a parameter that nobody knows: %d %s", a.status, a.body)
		}
		a = l.do("DELETE", "/v1/agents/"+l.agent, "", auth...)
		if (a.status == http.StatusOK) != open || !open && !strings.Contains(a.body, "memproxy-forget") {
			t.Errorf("open %v: %d %s", open, a.status, a.body)
		}
	}
}
