//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-1, EDGE-3: on the real server, what an agent's search tools find
// passes the read path; the agent reads the rest.
func TestLettaSearches(t *testing.T) {
	t.Parallel()
	direct := lettaServer(t)
	car := serve(t, t.TempDir(), sidecarConf("production", "letta", direct, "", "identity:\n  keys:\n"+keyed("dev", "agent:dev", agentOf("acme"))+
		keyed("rival", "agent:rival", ", trust: anonymous, tenant: acme"))) // what the second writes waits for review
	agent := makeAgent(t, direct, strings.Replace(fmt.Sprintf(lettaAgent, "search"), "{", `{"tools":["archival_memory_search","conversation_search"],`, 1))
	for key, text := range map[string]string{"rival": "tea is for rivals", "dev": "tea is at five"} {
		call(t, http.MethodPost, car.base+"/v1/agents/"+agent+"/archival-memory", key, fmt.Sprintf(`{"text":%q}`, text), sdk...).want(t, 200)
	}
	path := "/v1/agents/" + agent + "/messages"
	script := `CALL archival_memory_search {"query":"tea"}
CALL memory_insert {"label":"human","new_string":"likes tea"}
THEN
CALL conversation_search {"query":"tea"}
THEN
SAY done`
	if a := call(t, http.MethodPost, direct+path, "", fmt.Sprintf(`{"input":%q}`, `CALL archival_memory_search {"query":"tea"}`+"\nTHEN\nSAY done"), sdk...); !strings.Contains(a.body, "rivals") {
		t.Fatalf("without memproxy the search finds %s", tail(a.body, 3000))
	}
	for _, more := range []string{``, `,"streaming":true`, `,"streaming":true,"stream_tokens":true`} {
		a := call(t, http.MethodPost, car.base+path, "dev", fmt.Sprintf(`{"input":%q%s}`, script, more), sdk...)
		returns := 0
		for _, line := range outline(a.body) {
			if strings.HasPrefix(line, "tool_return_message") {
				returns++
				expect.That(t, !strings.HasPrefix(line, "tool_return_message error"), "%s: %s", more, line)
			}
		}
		expect.That(t, a.status == 200 && returns >= 2 && strings.Contains(a.body, "at five") && !strings.Contains(a.body, "for rivals") && !strings.Contains(a.body, "approval"),
			"%s: %d\n%s", more, a.status, strings.Join(outline(a.body), "\n"))
		b := lettaBlocks(t, direct, agent)
		expect.That(t, strings.Contains(b["human"], "likes tea"), "%s: %v", more, b)
	}
	history := call(t, http.MethodGet, car.base+path+"?limit=100", "dev", "", sdk...)
	expect.That(t, !strings.Contains(history.body, "approval_re"), "the history tells of approvals: %s", tail(history.body, 3000))
}
