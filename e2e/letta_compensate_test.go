//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// journalled reports whether runs wait to be settled.
func (s *sidecar) journalled(t *testing.T) bool {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(s.dir, "state", "runs", "*", "*.json")))(t)
	return len(files) > 0
}

const (
	olderSpec = `{"name":%q,"agent_type":"memgpt_v2_agent","model":"openai-proxy/gpt-4o-mini","embedding":"openai/text-embedding-3-small",` +
		`"tools":["archival_memory_insert"],"memory_blocks":[{"label":"human","value":"Ann"},{"label":"persona","value":"helper"}]}`
	plainSpec    = `{"name":%q,"parallel_tool_calls":true,"model":"openai-proxy/gpt-4o-mini","embedding":"openai/text-embedding-3-small","memory_blocks":[{"label":"human","value":"Ann"},{"label":"persona","value":"helper"}]}`
	followedSpec = `{"name":%q,"enable_sleeptime":true,"model":"openai-proxy/gpt-4o-mini","embedding":"openai/text-embedding-3-small","memory_blocks":[{"label":"human","value":"Ann"},{"label":"persona","value":"helper"}]}`
)

// Proves EDGE-1: on the real server, what a run wrote that cannot be made to
// pause is ruled on when it is over: older loops, background runs, agents that
// run after others. What is let in stays.
func TestLettaCompensation(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	car := serve(t, t.TempDir(), lettaConf(t, real, ", ungated: compensate"))
	const serially = `CALL memory_insert {"label":"human","new_string":"likes tea"}
THEN
CALL memory_replace {"label":"persona","old_string":"helper","new_string":"spy"}
THEN
CALL archival_memory_insert {"content":"Ann likes tea"}
THEN
CALL send_message {"message":"done"}`
	for name, tc := range map[string]struct {
		spec, route, text, more string
		archived                int
	}{
		"an older loop":           {olderSpec, "/messages", serially, ``, 1},
		"an older loop, streamed": {olderSpec, "/messages", serially, `,"streaming":true`, 1},
		"in the background":       {plainSpec, "/messages/async", selfEdits, ``, 0},
		"one that another follows": {followedSpec, "/messages", `CALL send_message {"message":"done"}
ASIDE SLEEP 1
ASIDE CALL memory_insert {"label":"human","new_string":"likes tea"}
ASIDE THEN
ASIDE CALL memory_replace {"label":"persona","old_string":"helper","new_string":"spy"}
ASIDE THEN
ASIDE CALL memory_finish_edits {}`, ``, 0},
	} {
		t.Run(name, func(t *testing.T) {
			agent := makeAgent(t, real, fmt.Sprintf(tc.spec, strings.NewReplacer(" ", "-", ",", "").Replace(name)))
			got := call(t, http.MethodPost, car.base+"/v1/agents/"+agent+tc.route, "", said(t, tc.text, tc.more), sdk...).want(t, 200)
			waitFor(t, "the settling", func() bool { return !car.journalled(t) })
			b := lettaBlocks(t, real, agent)
			expect.That(t, strings.HasPrefix(b["human"], "Ann\nlikes tea") && b["persona"] == "helper", "blocks %q\n%s", b, tail(got.body, 1500))
			list := call(t, http.MethodGet, real+"/v1/agents/"+agent+"/archival-memory", "", "", sdk...)
			expect.Equal(t, strings.Count(list.body, `"text":"Ann likes tea"`), tc.archived, tail(list.body, 500))
			out := car.audit(t, "--type", "outcome")
			if !slices.ContainsFunc(lines(out), func(l string) bool {
				return strings.Contains(l, agent) && strings.Contains(l, "undone: sha256 "+sha("spy")+" is sha256 "+sha("helper")+" again")
			}) {
				t.Errorf("no record of the undoing: %s", tail(out, 1500))
			}
		})
	}
}

// Proves EDGE-1: so it is in a conversation. The server answers older loops
// there with 500 in one piece and notes no end of the run; that is settled too.
func TestLettaCompensatesConversations(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	car := serve(t, t.TempDir(), lettaConf(t, real, ", ungated: compensate"))
	agent := makeAgent(t, real, fmt.Sprintf(olderSpec, "talker"))
	conversation := newConversation(t, real, agent)
	for more, status := range map[string]int{`,"streaming":false`: 500, ``: 200} {
		got := call(t, http.MethodPost, car.base+"/v1/conversations/"+conversation+"/messages", "", said(t, spy+"\nTHEN\nCALL send_message {\"message\":\"done\"}", more), sdk...)
		got.want(t, status)
		waitFor(t, "the settling", func() bool { return !car.journalled(t) })
		b := lettaBlocks(t, real, agent)
		expect.That(t, b["persona"] == "helper", "blocks %q\n%s", b, tail(got.body, 1500))
	}
	out := car.audit(t, "--type", "outcome")
	expect.Equal(t, strings.Count(out, "undone: sha256 "+sha("spy")), 1, tail(out, 1500))
}

// Proves EDGE-1: a chat completion runs the agent out of sight and is
// compensated as well.
func TestLettaCompensatesChatCompletions(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	car := serve(t, t.TempDir(), lettaConf(t, real, ", ungated: compensate"))
	agent := newLettaAgent(t, real, "chat")
	got := call(t, http.MethodPost, car.base+"/v1/chat/completions", "", fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":%q}]}`, agent, selfEdits), sdk...).want(t, 200)
	waitFor(t, "the settling", func() bool { return !car.journalled(t) })
	b := lettaBlocks(t, real, agent)
	expect.That(t, strings.HasPrefix(b["human"], "Ann\nlikes tea") && b["persona"] == "helper", "blocks %q\n%s", b, tail(got.body, 1500))
}

// Proves EDGE-1: memproxy is killed while a background run is under way; the
// next process rules on what it wrote.
func TestLettaCompensationSurvivesKill(t *testing.T) {
	t.Parallel()
	real, dir := lettaServer(t), t.TempDir()
	car := serve(t, dir, lettaConf(t, real, ", ungated: compensate"))
	agent := newLettaAgent(t, real, "killed")
	call(t, http.MethodPost, car.base+"/v1/agents/"+agent+"/messages/async", "", said(t, "SLEEP 2\n"+selfEdits, ""), sdk...).want(t, 200)
	car.kill()
	waitFor(t, "the write that nobody ruled on", func() bool { return lettaBlocks(t, real, agent)["persona"] == "spy" })
	car = serve(t, dir, lettaConf(t, real, ", ungated: compensate"))
	waitFor(t, "the settling", func() bool { return !car.journalled(t) })
	b := lettaBlocks(t, real, agent)
	expect.That(t, strings.HasPrefix(b["human"], "Ann\nlikes tea") && b["persona"] == "helper", "blocks %q", b)
}

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
