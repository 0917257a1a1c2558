//go:build e2e

package e2e

import (
	"net/http"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-5: on the real Letta, the word of a person is not replaced by an agent's own
// tool, by the block's label or by its id; the person may.
func TestAuthorityOnLetta(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	car := serve(t, t.TempDir(), sidecarConf("production", "letta", real, "", "identity:\n  keys:\n"+
		keyed("human", "human:ann", ", trust: human, tenant: acme")+keyed("dev", "agent:dev", agentOf("acme"))))
	agent := newLettaAgent(t, real, "authority")
	block := id(t, call(t, http.MethodPost, car.base+"/v1/blocks/", "human", `{"label":"notes","value":"Ann likes green tea"}`, sdk...))
	call(t, http.MethodPatch, car.base+"/v1/agents/"+agent+"/core-memory/blocks/attach/"+block, "human", "", sdk...).want(t, 200)
	turn := said(t, `CALL memory_replace {"label":"notes","old_string":"green tea","new_string":"coffee"}`+"\nTHEN\nSAY done", "")
	for _, c := range [][3]string{
		{http.MethodPost, "/v1/agents/" + agent + "/messages", turn},
		{http.MethodPatch, "/v1/agents/" + agent + "/core-memory/blocks/notes", `{"value":"Ann likes coffee"}`},
		{http.MethodPatch, "/v1/blocks/" + block, `{"value":"Ann likes coffee"}`},
	} {
		call(t, c[0], car.base+c[1], "dev", c[2], sdk...).about(c[1]).has(t, "waits")
		expect.Equal(t, lettaBlocks(t, real, agent)["notes"], "Ann likes green tea", c[1])
	}
	call(t, http.MethodPost, car.base+"/v1/agents/"+agent+"/messages", "human", turn, sdk...).want(t, 200)
	expect.Equal(t, lettaBlocks(t, real, agent)["notes"], "Ann likes coffee", "a person's own agent")
}
