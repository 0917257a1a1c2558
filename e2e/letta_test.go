//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	lettaback "github.com/memproxy/memproxy/adapters/letta/embedded"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

const noPersona = `@id("own.persona") @reason("field.forbidden") @detail("the persona is not the agent's to change")
forbid (principal, action in Action::"write", resource) when { context.field == "persona" };`

// lettaConf is a configuration for a server whose agents may not change their personas.
func lettaConf(t *testing.T, upstream, backend string) string {
	t.Helper()
	policies := t.TempDir()
	writeFile(t, filepath.Join(policies, "own.cedar"), []byte(noPersona))
	return sidecarConf("production", "letta", upstream, backend, `identity:
  default: {id: "agent:dev", kind: agent, trust: authenticated, acts_as: "*"}
policy: {dir: "`+policies+`"}
`)
}

func serveLetta(t *testing.T, upstream string) *sidecar {
	t.Helper()
	return serve(t, t.TempDir(), lettaConf(t, upstream, ""))
}

const lettaAgent = `{"name":"%s","agent_type":"letta_v1_agent","parallel_tool_calls":true,"model":"openai-proxy/gpt-4o-mini","embedding":"openai/text-embedding-3-small","memory_blocks":[{"label":"human","value":"Ann"},{"label":"persona","value":"helper"}]}`

// sdk makes the server take a caller for a current SDK, which may stream.
var sdk = []string{"X-Stainless-Package-Version", "1.12.1"}

func newLettaAgent(t *testing.T, base, name string) string {
	t.Helper()
	agent := makeAgent(t, base, fmt.Sprintf(lettaAgent, name))
	a := call(t, http.MethodPatch, base+"/v1/agents/"+agent, "", `{"parallel_tool_calls":true}`)
	must.That(t, a.status == 200 || a.status == 404 || a.status == 405, "%d %s", a.status, a.body)
	return agent
}

func makeAgent(t *testing.T, base, spec string) string {
	t.Helper()
	return id(t, call(t, http.MethodPost, base+"/v1/agents/", "", spec, sdk...))
}

func newConversation(t *testing.T, base, agent string) string {
	t.Helper()
	return id(t, call(t, http.MethodPost, base+"/v1/conversations/?agent_id="+agent, "", `{}`, sdk...))
}

// said is a request that has the stub model follow a script.
func said(t *testing.T, script, more string) string {
	t.Helper()
	return `{"input":` + string(must.Get(json.Marshal(script))(t)) + more + `}`
}

// patiently asks again when memproxy gave up on what it asks the server before it
// sends anything on: it waits five seconds for that, which a server takes that
// shares its cores with other tests'.
func patiently(t *testing.T, method, url, body string) (answer, error) {
	for {
		a, err := tryCall(method, url, "", body, sdk...)
		if err != nil || a.status != http.StatusGatewayTimeout || t.Context().Err() != nil {
			return a, err
		}
	}
}

func lettaBlocks(t *testing.T, base, agent string) map[string]string {
	t.Helper()
	a := call(t, http.MethodGet, base+"/v1/agents/"+agent, "", "")
	var got struct {
		Blocks []struct{ Label, Value string }
	}
	must.Do(t, json.Unmarshal([]byte(a.body), &got), tail(a.body, 500))
	out := map[string]string{}
	for _, b := range got.Blocks {
		out[b.Label] = b.Value
	}
	return out
}

const (
	insertTea = `CALL memory_insert {"label":"human","new_string":"likes tea"}`
	spy       = `CALL memory_replace {"label":"persona","old_string":"helper","new_string":"spy"}`
	selfEdits = insertTea + "\n" + spy + `
THEN
CALL memory_insert {"label":"human","new_string":"plays go"}
THEN
SAY done`
)

// outline is an answer in short: the type of each message and, of calls and
// results, what they say. Runs of fragments are one line.
func outline(body string) []string {
	var out []string
	note := func(data []byte) {
		var m struct {
			Type    string          `json:"message_type"`
			Calls   json.RawMessage `json:"tool_calls"`
			Returns []struct {
				Return string `json:"tool_return"`
				Status string `json:"status"`
			} `json:"tool_returns"`
			Content json.RawMessage `json:"content"`
			Stop    string          `json:"stop_reason"`
			Steps   int             `json:"step_count"`
		}
		if json.Unmarshal(data, &m) != nil || m.Type == "ping" {
			return
		}
		line := m.Type
		var calls []struct{ Name, Arguments string }
		if json.Unmarshal(m.Calls, &calls) == nil {
			for _, c := range calls {
				line += " " + c.Name + c.Arguments
			}
		}
		for _, r := range m.Returns {
			text, _, _ := strings.Cut(r.Return, " (memproxy")
			line += fmt.Sprintf(" %s %q", r.Status, text)
		}
		if m.Content != nil {
			line += " " + string(m.Content)
		}
		if m.Stop != "" {
			line += " " + m.Stop
		}
		if m.Steps > 0 {
			line += fmt.Sprintf(" %d steps", m.Steps)
		}
		if len(out) == 0 || out[len(out)-1] != line {
			out = append(out, line)
		}
	}
	if strings.HasPrefix(body, "{") {
		var whole struct {
			Messages []json.RawMessage
			Stop     json.RawMessage `json:"stop_reason"`
			Usage    json.RawMessage
		}
		if json.Unmarshal([]byte(body), &whole) != nil {
			return []string{body}
		}
		for _, m := range append(whole.Messages, whole.Stop, whole.Usage) {
			note(m)
		}
		return out
	}
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok {
			note([]byte(data))
		}
	}
	return out
}

// Proves EDGE-1, CARD-1: on the real server an agent's own memory writes are
// ruled on before they run, whole and streamed, and the small server of the
// quick tests answers as the real one does.
func TestLettaSelfEdits(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	small := httptest.NewServer(lettaback.New())
	t.Cleanup(small.Close)
	carReal, carSmall := serveLetta(t, real), serveLetta(t, small.URL)
	for name, tc := range map[string]struct{ script, more, human string }{
		"whole":       {selfEdits, ``, "Ann\nlikes tea\nplays go"},
		"steps":       {selfEdits, `,"streaming":true`, "Ann\nlikes tea\nplays go"},
		"tokens":      {selfEdits, `,"streaming":true,"stream_tokens":true`, "Ann\nlikes tea\nplays go"},
		"denied only": {spy + "\nTHEN\nSAY done", `,"streaming":true,"stream_tokens":true`, "Ann"},
	} {
		t.Run(name, func(t *testing.T) {
			body := said(t, tc.script, tc.more)
			onReal, onSmall := newLettaAgent(t, real, "real-"+name), newLettaAgent(t, small.URL, "small-"+name)
			got := call(t, http.MethodPost, carReal.base+"/v1/agents/"+onReal+"/messages", "", body, sdk...)
			like := call(t, http.MethodPost, carSmall.base+"/v1/agents/"+onSmall+"/messages", "", body, sdk...)
			got.want(t, 200)
			for _, of := range []struct{ base, agent string }{{real, onReal}, {small.URL, onSmall}} {
				expect.Map(t, lettaBlocks(t, of.base, of.agent), map[string]string{"human": tc.human, "persona": "helper"}, of.base)
			}
			a, b := outline(got.body), outline(like.body)
			expect.That(t, slices.Equal(a, b), "real\n  %s\nsmall\n  %s", strings.Join(a, "\n  "), strings.Join(b, "\n  "))
			history := call(t, http.MethodGet, carReal.base+"/v1/agents/"+onReal+"/messages", "", "", sdk...)
			expect.That(t, history.status == 200 && !strings.Contains(history.body, "approval") && strings.Contains(history.body, "tool_call_message"),
				"history: %d %s", history.status, tail(history.body, 3000))
			got.about("the caller sees an approval").lacks(t, "approval")
		})
	}
}

// Proves EDGE-1: in a conversation of its own blocks as well; a pause that nobody
// answered is declined by the next turn, since nobody knows whose its calls are, whether
// it is in a conversation or the agent's own messages.
func TestLettaConversations(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	car := serveLetta(t, real)
	agent := newLettaAgent(t, real, "talker")
	conversation := "/v1/conversations/" + newConversation(t, real, agent) + "/messages"
	send := func(base, path, script, more string) answer {
		t.Helper()
		return call(t, http.MethodPost, base+path, "", said(t, script, `,"streaming":false`+more), sdk...)
	}
	send(car.base, conversation, selfEdits, "").want(t, 200).has(t, "done")
	want := map[string]string{"human": "Ann\nlikes tea\nplays go", "persona": "helper"}
	expect.Map(t, lettaBlocks(t, real, agent), want)
	for _, path := range []string{conversation, "/v1/agents/" + agent + "/messages"} {
		// The state that a crash in mid-turn leaves.
		send(real, path, spy, `,"client_tools":[{"name":"memory_replace","parameters":{"type":"object","properties":{}}}]`).about(path).has(t, "requires_approval")
		send(car.base, path, "SAY hello", "").want(t, 200, path, "after a crash").has(t, "hello")
		expect.Map(t, lettaBlocks(t, real, agent), want, path)
	}
}

// Proves EDGE-16: generated calls, others for each EDITS_SEED, are run by the server's own code,
// and memproxy comes to the same memory or refuses them; nothing is left there
// that the gate did not see.
func TestLettaSelfEditsAreReadAsTheServerReadsThem(t *testing.T) {
	t.Parallel()
	python := part(t, "letta-py", "bin", "python")
	seed := cmp.Or(os.Getenv("EDITS_SEED"), "0")
	t.Logf("EDITS_SEED=%s makes the same calls", seed)
	made := exec.Command(python, "selfedits.py", seed, "4000")
	made.Dir = "letta"
	lines := must.Get(made.Output())(t)
	calls := filepath.Join(t.TempDir(), "calls.jsonl")
	must.Do(t, os.WriteFile(calls, lines, 0o600))
	for _, pkg := range []string{"selfedit", "turn"} {
		read := exec.Command("go", "test", "-count=1", "-run", "TestMemoryBecomesWhatTheServerMakesOfIt|TestNothingIsInMemoryThatTheGateDidNotSee", ".", "-calls", calls)
		read.Dir = filepath.Join("..", "adapters", "letta", pkg)
		out, err := read.CombinedOutput()
		expect.That(t, err == nil, "%s: %v\n%s", pkg, err, tail(string(out), 4000))
	}
}

// Proves EDGE-1, EDGE-13: on the real server, an agent's memory tools are gated
// whatever the request says next to what the server reads: another agent beside
// a conversation, and another name beside the one of a client tool.
func TestLettaToolsAreGatedByWhatTheServerReads(t *testing.T) {
	t.Parallel()
	direct := lettaServer(t)
	car := serveLetta(t, direct) // nobody changes a persona
	bare := makeAgent(t, direct, strings.Replace(fmt.Sprintf(lettaAgent, "bare"), "{", `{"include_base_tools":false,`, 1))
	for name, more := range map[string]string{
		"another agent":       `"agent_id":"` + bare + `",`,
		"another client tool": `"client_tools":[{"name":"mine","NAME":"memory_replace"}],`,
	} {
		agent := newLettaAgent(t, direct, "gated by what is read")
		talk := newConversation(t, direct, agent)
		body := strings.Replace(said(t, spy+"\nTHEN\nSAY done", `,"streaming":false`), "{", "{"+more, 1)
		a := call(t, http.MethodPost, car.base+"/v1/conversations/"+talk+"/messages", "", body, sdk...)
		b := lettaBlocks(t, car.base, agent)
		expect.That(t, a.status == 200 && b["persona"] == "helper", "%s: %d %q %s", name, a.status, b, tail(a.body, 600))
	}
	// A pause of the caller's own tool, of a message in which the model says something, too.
	const own = `,"client_tools":[{"name":"memory_replace","parameters":{"type":"object"}}],"streaming":false}`
	script := must.Get(json.Marshal(`{"steps":[{"say":"I see","calls":[{"name":"memory_replace","arguments":{"label":"persona","old_string":"helper","new_string":"spy"}}]},{"say":"done"}]}`))(t)
	for _, answers := range []string{"call", "message"} {
		agent := newLettaAgent(t, direct, "gated in a pause")
		messages := car.base + "/v1/conversations/" + newConversation(t, direct, agent) + "/messages"
		var asked struct {
			Messages []struct {
				ID    string
				Calls []struct {
					ID string `json:"tool_call_id"`
				} `json:"tool_calls"`
			}
		}
		must.Do(t, json.Unmarshal([]byte(call(t, http.MethodPost, messages, "", `{"input":`+string(script)+own, sdk...).body), &asked))
		pause := asked.Messages[len(asked.Messages)-1]
		of := map[string]string{"call": pause.Calls[0].ID, "message": pause.ID}[answers]
		a := call(t, http.MethodPost, messages, "", fmt.Sprintf(`{"messages":[{"type":"approval","approvals":[{"type":"approval","tool_call_id":%q,"approve":true}]}]`, of)+own, sdk...)
		b := lettaBlocks(t, car.base, agent)
		expect.That(t, a.status == 200 && b["persona"] == "helper", "approved by the %s: %d %q %s", answers, a.status, b, tail(a.body, 600))
	}
}

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
