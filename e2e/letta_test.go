//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	lettaback "github.com/memproxy/memproxy/adapters/letta/embedded"

	"github.com/memproxy/memproxy/internal/must"
)

const lettaConfig = `profile: production
state: %%[3]s
admin: {listen: "%%[2]s"}
backends:
  - {name: letta, kind: letta, listen: "%%[1]s", upstream: "%s"}
identity:
  default: {id: "agent:dev", kind: agent, trust: authenticated, acts_as: "*"}
policy: {dir: "%s"}
log: {level: warn}
`

const noPersona = `@id("own.persona") @reason("field.forbidden") @detail("the persona is not the agent's to change")
forbid (principal, action in Action::"write", resource) when { context.field == "persona" };`

func serveLetta(t *testing.T, upstream string) *sidecar {
	t.Helper()
	dir := t.TempDir()
	policies := filepath.Join(dir, "policies")
	must.Do(t, os.MkdirAll(policies, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(policies, "own.cedar"), []byte(noPersona), 0o600))
	return serve(t, dir, fmt.Sprintf(lettaConfig, upstream, policies))
}

const lettaAgent = `{"name":"%s","agent_type":"letta_v1_agent","parallel_tool_calls":true,"model":"openai-proxy/gpt-4o-mini","embedding":"openai/text-embedding-3-small","memory_blocks":[{"label":"human","value":"Ann"},{"label":"persona","value":"helper"}]}`

// sdk makes the server take a caller for a current SDK, which may stream.
var sdk = []string{"X-Stainless-Package-Version", "1.12.1"}

func newLettaAgent(t *testing.T, base, name string) string {
	t.Helper()
	a := call(t, http.MethodPost, base+"/v1/agents/", "", fmt.Sprintf(lettaAgent, name))
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || made.ID == "" {
		t.Fatalf("%d %s", a.status, tail(a.body, 500))
	}
	if a := call(t, http.MethodPatch, base+"/v1/agents/"+made.ID, "", `{"parallel_tool_calls":true}`); a.status != 200 && a.status != 404 && a.status != 405 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return made.ID
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

const selfEdits = `CALL memory_insert {"label":"human","new_string":"likes tea"}
CALL memory_replace {"label":"persona","old_string":"helper","new_string":"spy"}
THEN
CALL memory_insert {"label":"human","new_string":"plays go"}
THEN
SAY done`

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
			text, _, _ := strings.Cut(r.Return, " (memproxy decision")
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
	for name, more := range map[string]string{"whole": ``, "steps": `,"streaming":true`, "tokens": `,"streaming":true,"stream_tokens":true`} {
		t.Run(name, func(t *testing.T) {
			said := must.Get(json.Marshal(selfEdits))(t)
			body := `{"input":` + string(said) + more + `}`
			onReal, onSmall := newLettaAgent(t, real, "real-"+name), newLettaAgent(t, small.URL, "small-"+name)
			got := call(t, http.MethodPost, carReal.base+"/v1/agents/"+onReal+"/messages", "", body, sdk...)
			like := call(t, http.MethodPost, carSmall.base+"/v1/agents/"+onSmall+"/messages", "", body, sdk...)
			got.want(t, 200)
			for _, of := range []struct{ base, agent string }{{real, onReal}, {small.URL, onSmall}} {
				if b := lettaBlocks(t, of.base, of.agent); b["human"] != "Ann\nlikes tea\nplays go" || b["persona"] != "helper" {
					t.Errorf("blocks %q", b)
				}
			}
			if a, b := outline(got.body), outline(like.body); !slices.Equal(a, b) {
				t.Errorf("real\n  %s\nsmall\n  %s", strings.Join(a, "\n  "), strings.Join(b, "\n  "))
			}
			history := call(t, http.MethodGet, carReal.base+"/v1/agents/"+onReal+"/messages", "", "", sdk...)
			if history.status != 200 || strings.Contains(history.body, "approval") || !strings.Contains(history.body, "tool_call_message") {
				t.Errorf("history: %d %s", history.status, tail(history.body, 3000))
			}
			got.about("the caller sees an approval").lacks(t, "approval")
		})
	}
}

// A token stream tells what came of a call when all were denied.
func TestLettaDenialsAreStreamed(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	car := serveLetta(t, real)
	agent := newLettaAgent(t, real, "denied")
	got := call(t, http.MethodPost, car.base+"/v1/agents/"+agent+"/messages", "",
		`{"input":"CALL memory_replace {\"label\":\"persona\",\"old_string\":\"helper\",\"new_string\":\"spy\"}\nTHEN\nSAY done","streaming":true,"stream_tokens":true}`, sdk...)
	want := []string{
		"tool_call_message", `tool_return_message error "Error: request to call tool denied. User reason: the persona is not the agent's to change"`,
		`assistant_message "done"`, "stop_reason end_turn", "usage_statistics 2 steps",
	}
	if o := outline(got.body); !slices.Equal(o, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(o, "\n  "), strings.Join(want, "\n  "))
	}
}

// Proves EDGE-1: in a conversation of its own blocks as well; a pause that
// nobody answered, there too, is answered by the next turn.
func TestLettaConversations(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	car := serveLetta(t, real)
	agent := newLettaAgent(t, real, "talker")
	a := call(t, http.MethodPost, real+"/v1/conversations/?agent_id="+agent, "", `{}`, sdk...)
	var conv struct{ ID string }
	if err := json.Unmarshal([]byte(a.body), &conv); err != nil || conv.ID == "" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	send := func(base, said, more string) answer {
		t.Helper()
		text := must.Get(json.Marshal(said))(t)
		return call(t, http.MethodPost, base+"/v1/conversations/"+conv.ID+"/messages", "", `{"input":`+string(text)+`,"streaming":false`+more+`}`, sdk...)
	}
	if got := send(car.base, selfEdits, ""); got.status != 200 || !strings.Contains(got.body, "done") {
		t.Fatalf("%d %s", got.status, tail(got.body, 1000))
	}
	if b := lettaBlocks(t, real, agent); b["human"] != "Ann\nlikes tea\nplays go" || b["persona"] != "helper" {
		t.Errorf("blocks %q", b)
	}
	// The state that a crash in mid-turn leaves.
	left := send(real, `CALL memory_replace {"label":"persona","old_string":"helper","new_string":"spy"}`, `,"client_tools":[{"name":"memory_replace","parameters":{"type":"object","properties":{}}}]`)
	if !strings.Contains(left.body, "requires_approval") {
		t.Fatalf("%d %s", left.status, tail(left.body, 1000))
	}
	if got := send(car.base, "SAY hello", ""); got.status != 200 || !strings.Contains(got.body, "hello") {
		t.Errorf("after a crash: %d %s", got.status, tail(got.body, 1500))
	}
	if b := lettaBlocks(t, real, agent); b["persona"] != "helper" {
		t.Errorf("blocks %q", b)
	}
}

// Proves EDGE-1: memproxy is killed in mid-turn and its state is lost; the server goes on
// into a pause that nobody answers. The next turn declines its calls, since nobody knows
// whose they are, and goes on.
func TestLettaKilledInMidTurn(t *testing.T) {
	t.Parallel()
	real := startLetta(t) // a turn is left in the middle
	agent := newLettaAgent(t, real, "abandoned")
	car := serveLetta(t, real)
	go func() {
		said, _ := json.Marshal("SLEEP 2\nCALL memory_insert {\"label\":\"human\",\"new_string\":\"likes tea\"}\nCALL memory_replace {\"label\":\"persona\",\"old_string\":\"helper\",\"new_string\":\"spy\"}\nTHEN\nSAY done")
		_, _ = tryCall(http.MethodPost, car.base+"/v1/agents/"+agent+"/messages", "", `{"input":`+string(said)+`}`, sdk...) // cut off
	}()
	waitFor(t, "the turn at the server", func() bool {
		return strings.Contains(call(t, http.MethodGet, real+"/_e2e/log", "", "").body, "/v1/agents/"+agent+"/messages")
	})
	car.kill()
	waitFor(t, "the pause", func() bool {
		return strings.Contains(call(t, http.MethodGet, real+"/v1/agents/"+agent+"?include=agent.pending_approval", "", "").body, "approval_request_message")
	})
	if b := lettaBlocks(t, real, agent); b["human"] != "Ann" || b["persona"] != "helper" {
		t.Errorf("written while nobody ruled: %q", b)
	}
	car = serveLetta(t, real)
	a := call(t, http.MethodPost, car.base+"/v1/agents/"+agent+"/messages", "", `{"input":"SAY hello"}`, sdk...)
	if a.status != 200 || !strings.Contains(a.body, "hello") {
		t.Errorf("the next turn: %d %s", a.status, tail(a.body, 1500))
	}
	if b := lettaBlocks(t, real, agent); b["human"] != "Ann" || b["persona"] != "helper" {
		t.Errorf("after the next turn: %q", b)
	}
}
