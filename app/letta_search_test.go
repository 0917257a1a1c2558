package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
)

const searchingAgent = `{"name":"t","agent_type":"letta_v1_agent","tools":["archival_memory_search"],"memory_blocks":[{"label":"human","value":"Ann"},{"label":"persona","value":"helper"}]}`

// Proves EDGE-1, EDGE-3: results of an agent's search tool are filtered like reads: a
// passage of another tenant in the same archive is left out, unstreamed and streamed,
// and the caller sees an ordinary call and its result.
func TestAgentSearchesAreFiltered(t *testing.T) {
	t.Parallel()
	conf := strings.Replace(lettaConf, "identity:\n  keys:\n", `identity:
  keys:
    - {sha256: "RIVAL", id: "agent:rival", kind: agent, trust: authenticated, tenant: rival, acts_as: "*"}
`, 1)
	for _, more := range []string{``, `,"streaming":true`, `,"streaming":true,"stream_tokens":true`} {
		l := startLettaWith(t, searchingAgent, conf, func(h http.Handler) http.Handler { return h }, "RIVAL", sha("rival-key"))
		put := func(key, text string) {
			t.Helper()
			a := l.do("POST", "/v1/agents/"+l.agent+"/archival-memory", fmt.Sprintf(`{"text":%q}`, text), "X-API-Key", key)
			if a.status != 200 {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
		l.own(l.agent, "acme") // created before memproxy
		put(devToken, "tea is at five")
		l.do("POST", "/v1/agents/"+l.agent+"/archival-memory", `{"text":"tea is for rivals"}`, "X-API-Key", "rival-key").want(t, 404)
		put(devToken, "tea is for rivals")
		l.disown("tea is for rivals", "rival")
		a := l.say("CALL archival_memory_search {\"query\":\"tea\"}\nTHEN\nCALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nTHEN\nSAY done", more)
		if a.status != 200 || !strings.Contains(a.body, "tea is at five") || strings.Contains(a.body, "rivals") {
			t.Errorf("%s: %d %s", more, a.status, a.body)
		}
		if strings.Contains(a.body, "approval") || !strings.Contains(a.body, "tool_return_message") {
			t.Errorf("%s: the caller sees %s", more, a.body)
		}
		l.blocks("Ann\nlikes tea", "helper")
	}
}

// A search that fails gives the agent an error, a forbidden one is denied, and the
// server runs neither.
func TestFailedAndForbiddenSearches(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	fail.Store(true)
	l := startLettaBehind(t, searchingAgent, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if fail.Load() && strings.HasSuffix(r.URL.Path, "/archival_memory_search/run") {
				panic(http.ErrAbortHandler)
			}
			h.ServeHTTP(w, r)
		})
	})
	auth := []string{"Authorization", "Bearer " + devToken}
	l.do("POST", "/v1/agents/"+l.agent+"/archival-memory", `{"text":"tea is at five"}`, auth...)
	const script = "CALL archival_memory_search {\"query\":\"tea\"}\nTHEN\nSAY done"
	a := l.say(script, "")
	if a.status != 200 || strings.Contains(a.body, "at five") || !strings.Contains(a.body, "the search failed") || !strings.Contains(a.body, "done") {
		t.Errorf("%d %s", a.status, a.body)
	}
	fail.Store(false)
	l.say(script, "").has(t, "at five")
	l.say("CALL archival_memory_search {\"query\":\nTHEN\nSAY done", "").want(t, 200).has(t, "denied", "done")
}

// disown gives a passage to another tenant, as if it was written before the agent had
// an owner.
func (l *lettaRig) disown(text, tenant string) {
	l.t.Helper()
	var all []struct{ ID, Text string }
	must.Do(l.t, json.Unmarshal([]byte(l.behind("GET", "/v1/agents/"+l.agent+"/archival-memory", "")), &all))
	for _, p := range all {
		if p.Text != text {
			continue
		}
		l.own(p.ID, tenant)
		return
	}
	l.t.Fatalf("no passage says %q: %+v", text, all)
}

// own makes a tenant the owner of an object.
func (l *lettaRig) own(id, tenant string) {
	l.t.Helper()
	row := memproxy.Ownership{Backend: "mem0", Kind: memproxy.TargetMemory, ID: id, Actor: "agent:" + tenant, Scope: memproxy.Scope{Tenant: tenant}}
	must.Do(l.t, l.car.ledger.Commit(l.t.Context(), memproxy.Entry{Queued: true, Owners: []memproxy.Ownership{row}}))
}
