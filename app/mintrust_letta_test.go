package app

import (
	"encoding/json"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// Proves MFW-8: a list of agents with a minimum of trust has the agents that a single read
// has, with the same blocks.
func TestMinimumTrustLeavesAgentsInLists(t *testing.T) {
	t.Parallel()
	l := startLetta(t, someAgent)
	type agent struct {
		ID     string
		Blocks []struct{ Label string }
	}
	bearer := []string{"Authorization", "Bearer " + devToken}
	l.do("PATCH", "/v1/blocks/"+l.letta.BlockID(l.agent, "human"), `{"value":"Bob"}`, bearer...).want(t, 200)
	for least, want := range map[string]int{"0.1": 1, "0.9": 0} {
		trusted := append([]string{"X-Memproxy-Min-Trust", least}, bearer...)
		var one agent
		must.Do(t, json.Unmarshal([]byte(l.do("GET", "/v1/agents/"+l.agent+"?include=agent.blocks", "", trusted...).want(t, 200).body), &one))
		var list []agent
		must.Do(t, json.Unmarshal([]byte(l.do("GET", "/v1/agents/?include=agent.blocks", "", trusted...).want(t, 200).body), &list))
		if len(list) != 1 || list[0].ID != l.agent || len(one.Blocks) != want || len(list[0].Blocks) != want {
			t.Errorf("%s: alone %+v, in a list %+v, want %d blocks", least, one, list, want)
		}
	}
}
