package app

import (
	"fmt"
	"strings"
	"testing"
)

// Proves CARD-1: an agent's id used as conversation id means the agent's default
// conversation, and is gated the same way.
func TestAgentsIDsAsConversations(t *testing.T) {
	t.Parallel()
	l := startLetta(t, someAgent)
	for _, path := range []string{"/v1/conversations/" + l.agent + "/messages", "/v1/conversations/default/messages"} {
		body := fmt.Sprintf(`{"agent_id":%q,"input":%q,"streaming":false}`, l.agent, poisoned)
		if a := l.do("POST", path, body, "Authorization", "Bearer "+devToken); a.status != 200 || !strings.Contains(a.body, `"done"`) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	l.blocks("Ann\nlikes tea\nplays go\nlikes tea\nplays go", "helper")
	l.do("POST", "/v1/conversations/default/messages", `{"input":"SAY x","streaming":false}`, "Authorization", "Bearer "+devToken).want(t, 404)
}
