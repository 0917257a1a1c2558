//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// Proves EDGE-1: on the real server, memproxy is killed in mid-turn; the next
// process finds the agent that waits and frees it, without a further turn, and
// nothing is written. So it does in a conversation; an approval that a rule of
// the agent's own asks for is left to whom it is for.
func TestLettaReconciler(t *testing.T) {
	real, dir := startLetta(t), t.TempDir()
	agent, other, ruled := newLettaAgent(t, real, "abandoned"), newLettaAgent(t, real, "talker"), newLettaAgent(t, real, "ruled")
	car := serveLettaWith(t, real, dir, "reconcile: 1s")
	go func() {
		_, _ = tryCall(http.MethodPost, car.base+"/v1/agents/"+agent+"/messages", "", said(t, "SLEEP 2\n"+selfEdits, ""), sdk...) // cut off
	}()
	waitFor(t, "the turn at the server", func() bool {
		return strings.Contains(call(t, http.MethodGet, real+"/_e2e/log", "", "").body, "/v1/agents/"+agent+"/messages")
	})
	car.kill()
	pending := func(id string) bool {
		return strings.Contains(call(t, http.MethodGet, real+"/v1/agents/"+id+"?include=agent.pending_approval", "", "").body, "approval_request_message")
	}
	waitFor(t, "the pause", func() bool { return pending(agent) })

	const shadow = `,"client_tools":[{"name":"memory_replace","parameters":{"type":"object","properties":{}}}]`
	const spy = `CALL memory_replace {"label":"persona","old_string":"helper","new_string":"spy"}`
	made := call(t, http.MethodPost, real+"/v1/conversations/?agent_id="+other, "", `{}`, sdk...)
	var conv struct{ ID string }
	if err := json.Unmarshal([]byte(made.body), &conv); err != nil || conv.ID == "" {
		t.Fatalf("%d %s", made.status, made.body)
	}
	talk := func(more string) answer {
		return call(t, http.MethodPost, real+"/v1/conversations/"+conv.ID+"/messages", "", said(t, spy, `,"streaming":false`+more), sdk...)
	}
	if left := talk(shadow); !strings.Contains(left.body, "requires_approval") {
		t.Fatalf("%d %s", left.status, tail(left.body, 1000))
	}
	call(t, http.MethodPatch, real+"/v1/agents/"+ruled+"/tools/approval/memory_replace", "", `{"requires_approval":true}`, sdk...)
	if left := call(t, http.MethodPost, real+"/v1/agents/"+ruled+"/messages", "", said(t, spy, ""), sdk...); !strings.Contains(left.body, "requires_approval") {
		t.Fatalf("%d %s", left.status, tail(left.body, 1000))
	}

	car = serveLettaWith(t, real, dir, "reconcile: 1s")
	waitFor(t, "the agent to be free", func() bool { return !pending(agent) })
	waitFor(t, "the conversation to be free", func() bool {
		body := call(t, http.MethodGet, real+"/v1/conversations/"+conv.ID+"/messages?order=desc&limit=20", "", "", sdk...).body
		return strings.Contains(body, "nothing was written")
	})
	if !pending(ruled) {
		t.Error("an approval that a rule asks for was answered")
	}
	for _, id := range []string{agent, other, ruled} {
		if b := lettaBlocks(t, real, id); b["human"] != "Ann" || b["persona"] != "helper" {
			t.Errorf("written unruled: %q", b)
		}
	}
	if a := call(t, http.MethodPost, real+"/v1/agents/"+agent+"/messages", "", `{"input":"SAY hello"}`, sdk...); a.status != 200 || !strings.Contains(a.body, "hello") {
		t.Errorf("past memproxy: %d %s", a.status, tail(a.body, 1000))
	}
	if a := talk(""); a.status != 200 { // it is not gated here, and nobody's business
		t.Errorf("in the conversation: %d %s", a.status, tail(a.body, 1000))
	}
	out, _ := run(t, nil, memproxyBinary(t), "audit", "query", "-dir", filepath.Join(dir, "state", "audit"), "-json", "-type", "decision")
	if n := strings.Count(out, `"id":"system:reconciler"`); n < 4 {
		t.Errorf("%s", fmt.Sprint(n, " denials recorded: ", tail(out, 2000)))
	}
}
