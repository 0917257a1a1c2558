//go:build e2e

package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/must"

	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-1: on the real server, memproxy is killed in mid-turn; the next
// process finds the agent that waits and frees it, without a further turn, and
// nothing is written. So it does in a conversation; an approval that a rule of
// the agent's own asks for is left to whom it is for.
func TestLettaReconciler(t *testing.T) {
	t.Parallel()
	real, dir := startLetta(t), t.TempDir() // runs are left that are not over
	agent, other, ruled := newLettaAgent(t, real, "abandoned"), newLettaAgent(t, real, "talker"), newLettaAgent(t, real, "ruled")
	car := serve(t, dir, lettaConf(t, real, ", reconcile: 1s"))
	conversation := newConversation(t, car.base, other)
	call(t, http.MethodPatch, real+"/v1/agents/"+ruled+"/tools/approval/memory_replace", "", `{"requires_approval":true}`, sdk...)
	for at, body := range map[string]string{
		"/v1/agents/" + agent + "/messages":               said(t, "SLEEP 10\n"+selfEdits, ""),
		"/v1/conversations/" + conversation + "/messages": said(t, "SLEEP 10\n"+selfEdits, `,"streaming":false`),
		"/v1/agents/" + ruled + "/messages":               said(t, "SLEEP 10\n"+spy, ""),
	} {
		go func() { _, _ = tryCall(http.MethodPost, car.base+at, "", body, sdk...) }() // cut off
		waitFor(t, "a turn at the server", func() bool {
			return strings.Contains(call(t, http.MethodGet, real+"/_e2e/log", "", "").body, at)
		})
	}
	time.Sleep(3 * time.Second) // all are with the model: the server drops a turn of which it has not asked yet
	car.kill()
	pending := func(id string) bool {
		return strings.Contains(call(t, http.MethodGet, real+"/v1/agents/"+id+"?include=agent.pending_approval", "", "").body, "approval_request_message")
	}
	waitFor(t, "the pauses", func() bool { return pending(agent) && pending(ruled) })

	car = serve(t, dir, lettaConf(t, real, ", reconcile: 1s"))
	waitFor(t, "the agent to be free", func() bool { return !pending(agent) })
	waitFor(t, "the conversation to be free", func() bool {
		body := call(t, http.MethodGet, real+"/v1/conversations/"+conversation+"/messages?order=desc&limit=20", "", "", sdk...).body
		return strings.Contains(body, "may have been made or not")
	})
	expect.That(t, pending(ruled), "an approval that a rule asks for was answered")
	for _, id := range []string{agent, other, ruled} {
		b := lettaBlocks(t, real, id)
		expect.That(t, b["human"] == "Ann" && b["persona"] == "helper", "written unruled: %q", b)
	}
	call(t, http.MethodPost, real+"/v1/agents/"+agent+"/messages", "", `{"input":"SAY hello"}`, sdk...).want(t, 200, "past memproxy").has(t, "hello")
	call(t, http.MethodPost, car.base+"/v1/conversations/"+conversation+"/messages", "", said(t, "SAY hello", `,"streaming":false`), sdk...).want(t, 200, "in the conversation").has(t, "hello")
	out := car.audit(t, "--type", "decision")
	n := strings.Count(out, `"id":"system:reconciler"`)
	expect.That(t, n >= 6, "%d denials recorded: %s", n, tail(out, 2000))
}

// Proves EDGE-16: with the interval that nobody set, every agent that waits
// because memproxy was killed in mid-turn is free soon after the next start: in
// its own conversation, whole and streamed, in a named one, and in the background.
func TestLettaReconcilerInTime(t *testing.T) {
	t.Parallel()
	real, dir := startLetta(t), t.TempDir() // runs are left that are not over
	car := serve(t, dir, lettaConf(t, real, ", ungated: deny"))
	pending := func(at string) bool {
		body := call(t, http.MethodGet, real+at, "", "", sdk...).body
		return strings.Contains(body, "approval_request_message") && !strings.Contains(body, "approval_response_message")
	}
	waiting := map[string]string{} // where to look, by the case
	sent := map[string]func(){}    // what sends the turn, by where to
	for name, more := range map[string]string{
		"whole": ``, "streamed": `,"streaming":true,"stream_tokens":true`, "background": `,"streaming":true,"background":true`,
		"conversation": `,"streaming":false`, "conversation streamed": `,"streaming":true`,
	} {
		agent := newLettaAgent(t, real, strings.ReplaceAll(name, " ", "-"))
		at, look := "/v1/agents/"+agent+"/messages", "/v1/agents/"+agent+"/messages?limit=20"
		if strings.HasPrefix(name, "conversation") {
			at = "/v1/conversations/" + newConversation(t, car.base, agent) + "/messages"
			look = at + "?limit=20"
		}
		waiting[name] = look
		sent[at] = func() {
			_, _ = patiently(t, http.MethodPost, car.base+at, said(t, "SLEEP 15\n"+selfEdits, more)) // cut off
		}
	}
	// All at once, when all is made: none must be done before memproxy is gone,
	// however slow the machine is.
	for _, turn := range sent {
		go turn()
	}
	for at := range sent {
		waitFor(t, at+" at the server", func() bool {
			log := call(t, http.MethodGet, real+"/_e2e/log", "", "").body
			return strings.Contains(log, `"POST"`) && strings.Contains(log, at)
		})
	}
	time.Sleep(500 * time.Millisecond) // all are with the model
	car.kill()
	for name, look := range waiting {
		for end := time.Now().Add(60 * time.Second); !pending(look); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Logf("%s: the server left no pause", name)
				delete(waiting, name)
				break
			}
		}
	}
	must.That(t, waiting["whole"] != "" && waiting["conversation"] != "" && waiting["background"] != "", "no pause to be found: %v", waiting)
	serve(t, dir, lettaConf(t, real, ", ungated: deny"))
	start := time.Now()
	for name, look := range waiting { // one after the other; on a busy machine each takes seconds
		waitFor(t, name+" being free", func() bool { return !pending(look) })
		t.Logf("%s: free after %v", name, time.Since(start))
	}
}
