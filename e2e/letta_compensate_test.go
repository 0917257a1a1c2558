//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
