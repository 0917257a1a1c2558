package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// Proves EDGE-1, TRL-1: an unowned block of the server that is attached to an agent
// during its run is detached if two tenants share the server; a block that the run
// created remains.
func TestUnownedBlocksAttachedDuringARun(t *testing.T) {
	t.Parallel()
	var attach atomic.Value // what happens to the agent during its run
	between := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if path, ok := attach.Load().(string); ok && path != "" && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages") {
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, httptest.NewRequest("PATCH", path, nil)); w.Code != 200 {
					t.Errorf("attach: %d %s", w.Code, w.Body)
				}
			}
			h.ServeHTTP(w, r)
		})
	}
	other := strings.Replace(compensating, "identity:\n  keys:\n", "identity:\n  keys:\n    - {sha256: \"OTHER\", id: \"agent:other\", kind: agent, trust: authenticated, tenant: other, acts_as: \"*\"}\n", 1)
	l := startLettaWith(t, someAgent, other, between, "OTHER", sha("another token"))
	made := l.behind("POST", "/v1/blocks/", `{"label":"human","value":"what another tenant keeps"}`)
	block := made[strings.Index(made, "block-"):]
	block = block[:strings.Index(block, `"`)]
	create := func() string {
		t.Helper()
		a := l.do("POST", "/v1/agents/", `{"name":"older","agent_type":"memgpt_agent","tools":["memory"],"memory_blocks":[]}`, "Authorization", "Bearer "+devToken)
		id := a.body[max(0, strings.Index(a.body, `"id":"agent-`)):]
		if a.status != 200 || id == a.body {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return id[len(`"id":"`):][:len("agent-00000000-0000-4000-8000-000000000001")]
	}
	say := func(agent, script string) {
		t.Helper()
		l.do("POST", "/v1/agents/"+agent+"/messages", fmt.Sprintf(`{"input":%q}`, script), "Authorization", "Bearer "+devToken).want(t, 200)
		l.settled()
	}
	agent := create()
	attach.Store("/v1/agents/" + agent + "/core-memory/blocks/attach/" + block)
	say(agent, "SAY hello")
	if got := l.letta.Value(agent, "human"); got != "" {
		t.Errorf("a block that nobody owns stays with the agent: %q", got)
	}
	attach.Store("")
	agent = create()
	say(agent, `CALL memory {"command":"create","path":"/memories/human","description":"about Ann","file_text":"likes tea"}`+"\nTHEN\nSAY done")
	if got := l.letta.Value(agent, "human"); got != "likes tea" {
		t.Errorf("the run's own block reads %q\n%s", got, l.audit("--type", "decision"))
	}
}
