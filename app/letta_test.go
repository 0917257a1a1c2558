package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	lettaback "github.com/memproxy/memproxy/adapters/letta/embedded"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

const lettaConf = withLetta + `    - {sha256: "KEY", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, acts_as: "*"}
policy: {dir: "DIR/policies"}
log: {level: error}
`

// noPersona is a policy that forbids agents to change their persona.
const noPersona = `@id("own.persona") @reason("field.forbidden") @detail("the persona is not the agent's to change")
forbid (principal, action in Action::"write", resource) when { context.field == "persona" };`

// lettaRig is the sidecar in front of the embedded Letta.
type lettaRig struct {
	*rig
	letta *lettaback.Backend
	agent string
}

func startLetta(t *testing.T, agent string) *lettaRig {
	t.Helper()
	return startLettaBehind(t, agent, plainly)
}

// startLettaBehind puts a handler between the sidecar and the server.
func startLettaBehind(t *testing.T, agent string, between func(http.Handler) http.Handler) *lettaRig {
	t.Helper()
	return startLettaWith(t, agent, lettaConf, between)
}

// startLettaWith uses another configuration, with replacements.
func startLettaWith(t *testing.T, agent, conf string, between func(http.Handler) http.Handler, replace ...string) *lettaRig {
	t.Helper()
	return startLettaRig(&rig{t: t}, agent, conf, between, replace...)
}

// startLettaRig is startLettaWith for a prepared rig.
func startLettaRig(r *rig, agent, conf string, between func(http.Handler) http.Handler, replace ...string) *lettaRig {
	t := r.t
	t.Helper()
	l := &lettaRig{letta: lettaback.New()}
	up := serving(t, between(l.letta))
	resp := must.Get(http.Post(up.URL+"/v1/agents/", "application/json", strings.NewReader(agent)))(t)
	defer resp.Body.Close()
	l.agent = got{status: resp.StatusCode, body: string(must.Get(io.ReadAll(resp.Body))(t))}.id(t)
	dir := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "policies"), 0o755))
	writeFile(t, filepath.Join(dir, "policies", "own.cedar"), noPersona)
	l.rig = startRig(r, conf, append([]string{"LETTA", up.URL, "DIR/policies", filepath.Join(dir, "policies")}, replace...)...)
	l.up = up.URL
	return l
}

const someAgent = `{"name":"t","agent_type":"letta_v1_agent","memory_blocks":[{"label":"human","value":"Ann"},{"label":"persona","value":"helper"}]}`

func (l *lettaRig) say(script, more string) got {
	l.t.Helper()
	return l.do("POST", "/v1/agents/"+l.agent+"/messages", fmt.Sprintf(`{"input":%q%s}`, script, more), "Authorization", "Bearer "+devToken)
}

func (l *lettaRig) blocks(human, persona string) {
	l.t.Helper()
	expect.Equal(l.t, l.letta.Value(l.agent, "human"), human, "human is")
	expect.Equal(l.t, l.letta.Value(l.agent, "persona"), persona, "persona is")
}

const poisoned = `CALL memory_insert {"label":"human","new_string":"likes tea"}
CALL memory_replace {"label":"persona","old_string":"helper","new_string":"spy"}
THEN
CALL memory_insert {"label":"human","new_string":"plays go"}
THEN
SAY done`

// types lists the message types of an answer, JSON or stream, in order, without
// repetitions.
func types(body string) []string {
	var out []string
	note := func(kind string) {
		if kind != "" && kind != "ping" && (len(out) == 0 || out[len(out)-1] != kind) {
			out = append(out, kind)
		}
	}
	type typed struct {
		Type string `json:"message_type"`
	}
	if strings.HasPrefix(body, "{") {
		var whole struct{ Messages []typed }
		_ = json.Unmarshal([]byte(body), &whole)
		for _, m := range whole.Messages {
			note(m.Type)
		}
		return out
	}
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(line, "data: {"); ok {
			var m typed
			_ = json.Unmarshal([]byte("{"+data), &m)
			note(m.Type)
		}
	}
	return out
}

// Proves EDGE-1, CARD-1: an agent's memory writes are decided before they run, and the
// caller gets one answer with tool calls and without approvals, unstreamed and
// streamed.
func TestSelfEditsAreGated(t *testing.T) {
	t.Parallel()
	turn := "tool_call_message tool_return_message tool_call_message tool_return_message assistant_message"
	for name, tc := range map[string]struct{ more, types string }{
		"whole":          {``, turn},
		"step by step":   {`,"streaming":true`, turn + " stop_reason usage_statistics"},
		"token by token": {`,"streaming":true,"stream_tokens":true`, turn + " stop_reason usage_statistics"},
		"only answers":   {`,"include_return_message_types":["assistant_message"]`, "assistant_message"},
		"only answers, streamed": {
			`,"streaming":true,"include_return_message_types":["assistant_message"]`, "assistant_message stop_reason usage_statistics",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := startLetta(t, someAgent)
			a := l.say(poisoned, tc.more)
			a.want(t, 200, types(a.body))
			expect.Equal(t, strings.Join(types(a.body), " "), tc.types, types(a.body))
			l.blocks("Ann\nlikes tea\nplays go", "helper")
			a.about("the caller sees").lacks(t, "approval")
			a.about("usage is not the whole turn's").has(t, `"step_count":3`)
			rec := l.audit("--type", "decision")
			expect.Equal(t, strings.Count(rec, `"type":"decision"`), 4)
			expect.Text(t, rec).Has("memory_replace", "field.forbidden").Lacks("spy")
		})
	}
}

// A token stream contains the result of a denied call, though the server omits it if no
// tool ran.
func TestDeniedCallsHaveAResult(t *testing.T) {
	t.Parallel()
	for _, more := range []string{``, `,"streaming":true`, `,"streaming":true,"stream_tokens":true`} {
		l := startLetta(t, someAgent)
		a := l.say("CALL memory_replace {\"label\":\"persona\",\"old_string\":\"helper\",\"new_string\":\"spy\"}\nTHEN\nSAY done", more)
		want := "tool_call_message tool_return_message assistant_message"
		got := strings.Join(types(a.body), " ")
		expect.Equal(t, strings.HasPrefix(got, want) && strings.Count(a.body, "request to call tool denied") == 2, true, more, got, a.body)
		a.lacks(t, `"otid":"message-`) // the server's are an id without the prefix
	}
}

// Proves EDGE-1: a call that cannot be parsed is denied, and the agent gets the reason.
func TestUnreadableCallsAreDenied(t *testing.T) {
	t.Parallel()
	for _, args := range []string{`{"label":"human"`, `[]`, `{"label":"human","label":"persona","new_string":"x"}`} {
		l := startLetta(t, someAgent)
		l.say("CALL memory_insert "+args+"\nTHEN\nSAY done", "").want(t, 200, args).has(t, "request to call tool denied", `"content":"done"`)
		l.blocks("Ann", "helper")
	}
}

// Proves EDGE-1: the caller's client tools and approvals pass, also in a pause that the
// gate shares, and a caller's approval does not run a denied call.
func TestClientToolsOfTheCaller(t *testing.T) {
	t.Parallel()
	const both = `CALL my_tool {"x":"1"}
CALL memory_insert {"label":"human","new_string":"likes tea"}
CALL memory_replace {"label":"persona","old_string":"helper","new_string":"spy"}
THEN
SAY done`
	l := startLetta(t, someAgent)
	tools := `,"client_tools":[{"name":"my_tool","parameters":{"type":"object"}}]`
	a := l.say(both, tools)
	var first struct {
		Messages []struct {
			ID    string
			Type  string `json:"message_type"`
			Calls []struct {
				Name string
				ID   string `json:"tool_call_id"`
			} `json:"tool_calls"`
		}
		Stop struct {
			Reason string `json:"stop_reason"`
		} `json:"stop_reason"`
	}
	err := json.Unmarshal([]byte(a.body), &first)
	must.Equal(t, err == nil && len(first.Messages) == 2 && first.Stop.Reason == "requires_approval", true, err, a.body)
	asked := first.Messages[1]
	must.Equal(t, asked.Type == "approval_request_message" && len(asked.Calls) == 1 && asked.Calls[0].Name == "my_tool", true, "the caller is asked", asked, "want its own call alone")
	l.blocks("Ann", "helper")
	for path, asks := range map[string]string{"/messages": `"approval_request_message"`, "?include=agent.pending_approval": `"pending_approval"`} {
		_, rest, found := strings.Cut(l.do("GET", "/v1/agents/"+l.agent+path, "").want(t, 200).body, asks)
		waiting, _, _ := strings.Cut(rest, "]")
		expect.Equal(t, found && strings.Contains(waiting, "my_tool") && !strings.Contains(waiting, "memory_"), true, path, "shows as waiting", waiting)
	}
	memory := first.Messages[0].Calls // the caller tries to answer these itself
	a = l.do("POST", "/v1/agents/"+l.agent+"/messages", fmt.Sprintf(
		`{"messages":[{"type":"approval","approval_request_id":%q,"approvals":[{"type":"tool","tool_call_id":%q,"status":"success","tool_return":"42"},{"type":"tool","tool_call_id":%q,"status":"error","tool_return":"unknown tool"},{"type":"approval","tool_call_id":%q,"approve":true}]}]%s}`,
		asked.ID, asked.Calls[0].ID, memory[0].ID, memory[1].ID, tools), "Authorization", "Bearer "+devToken).want(t, 200).has(t, `"tool_return":"42"`, `"content":"done"`).lacks(t, "unknown tool")
	l.blocks("Ann\nlikes tea", "helper")
}

// Proves EDGE-1, EDGE-5: the calls of a turn that broke off in a pause are decided in the
// next turn if it has the same caller. Another caller's turn declines them: it must not
// lend its authority to what somebody else started.
func TestPausesOfOthersAreDeclined(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		first, next string
		restart     bool
		want        string
	}{
		{"human", "human", false, "Ann likes coffee"},
		{"", "human", false, "Ann likes green tea"}, {"", "human", true, "Ann likes green tea"}, {"human", "", false, "Ann likes green tea"},
	} {
		t.Run(fmt.Sprintf("%q, %q, restarted: %v", tc.first, tc.next, tc.restart), func(t *testing.T) {
			t.Parallel()
			var lose atomic.Bool
			conf := strings.Replace(withPeople(lettaConf), `upstream: "LETTA"`, `upstream: "LETTA", reconcile: 1h`, 1)
			l := startLettaWith(t, personaAgent, conf, func(whole http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					if strings.HasSuffix(q.URL.Path, "/messages") && lose.Swap(false) {
						whole.ServeHTTP(httptest.NewRecorder(), q)
						panic(http.ErrAbortHandler)
					}
					whole.ServeHTTP(w, q)
				})
			}, replacements()...)
			made := l.do("POST", "/v1/agents/", `{"name":"t","agent_type":"letta_v1_agent","tools":["memory_rethink"],"memory_blocks":[{"label":"human","value":"Ann likes green tea"}]}`, as("human")...).id(t)
			say := func(who, script string) got {
				return l.do("POST", "/v1/agents/"+made+"/messages", fmt.Sprintf(`{"input":%q}`, script), as(who)...)
			}
			lose.Store(true)
			say(tc.first, "CALL memory_rethink {\"label\":\"human\",\"new_memory\":\"Ann likes coffee\"}\nTHEN\nSAY done").want(t, http.StatusBadGateway)
			if tc.restart {
				l.stop()
				l.run()
			}
			say(tc.next, "SAY hello").want(t, 200).has(t, "hello")
			expect.Equal(t, l.letta.Value(made, "human"), tc.want, "the block is")
		})
	}
}

// Proves EDGE-1: runs that cannot be made to pause are refused in production, unless
// the agent has no gated memory tools.
func TestUngatedRunsAreRefused(t *testing.T) {
	t.Parallel()
	for name, agent := range map[string]string{
		"an older loop":               strings.Replace(someAgent, "letta_v1_agent", "memgpt_agent", 1),
		"one with agents that follow": strings.Replace(someAgent, "{", `{"enable_sleeptime":true,`, 1),
	} {
		l := startLetta(t, agent)
		l.say(poisoned, "").want(t, 403, name).has(t, "run.ungated")
		l.blocks("Ann", "helper")
	}
	l := startLetta(t, someAgent)
	l.do("POST", "/v1/agents/"+l.agent+"/messages/async", `{"input":"hi"}`).want(t, 403, "async").has(t, "run.ungated")
	l.say("SAY hello", "").want(t, 200)
	l.blocks("Ann", "helper")
}

// Requests of two callers to one agent do not interleave.
func TestTurnsOfAnAgentAreSerialised(t *testing.T) {
	t.Parallel()
	l := startLetta(t, someAgent)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			a := l.say(fmt.Sprintf("CALL memory_insert {\"label\":\"human\",\"new_string\":\"n%d\"}\nTHEN\nSAY done", i), "")
			expect.Equal(t, a.status, 200, a.body)
			a.has(t, `"content":"done"`)
		})
	}
	wg.Wait()
	expect.Equal(t, strings.Count(l.letta.Value(l.agent, "human"), "\n"), 8)
}

// Proves EDGE-1: if a caller declares a memory tool as its client tool and approves the
// call, the server would run its own tool, so the approval is decided. A tool result
// from the caller runs nothing and passes.
func TestMemoryToolNamedAsClientTool(t *testing.T) {
	t.Parallel()
	const script = `CALL memory_replace {"label":"persona","old_string":"helper","new_string":"spy"}
THEN
SAY done`
	tools := `,"client_tools":[{"name":"memory_replace","parameters":{"type":"object"}}]`
	for name, tc := range map[string]struct{ answer, says string }{
		"approved":              {`{"type":"approval","approval_request_id":%[1]q,"approvals":[{"type":"approval","tool_call_id":%[2]q,"approve":true}]}`, "request to call tool denied"},
		"approved, older form":  {`{"type":"approval","approval_request_id":%[1]q,"approve":true,"reason":%[2]q}`, "request to call tool denied"},
		"approved by message":   {`{"type":"approval","approvals":[{"type":"approval","tool_call_id":%[1]q,"approve":true}]}`, "request to call tool denied"},
		"approved without type": {`{"approvals":[{"type":"approval","tool_call_id":%[2]q,"approve":true}],"approval_request_id":%[1]q}`, "request to call tool denied"},
		"approved in a word":    {`{"type":"approval","approval_request_id":%[1]q,"approvals":[{"type":"approval","tool_call_id":%[2]q,"approve":"yes"}]}`, "request to call tool denied"},
		"answered twice":        {`{"type":"approval","approval_request_id":%[1]q,"approvals":[{"type":"tool","tool_call_id":%[2]q,"status":"success","tool_return":"mine"},{"type":"approval","tool_call_id":%[2]q,"approve":true}]}`, "request to call tool denied"},
		"its own result":        {`{"type":"approval","approval_request_id":%[1]q,"approvals":[{"type":"tool","tool_call_id":%[2]q,"status":"success","tool_return":"mine"}]}`, `"tool_return":"mine"`},
	} {
		t.Run(name, func(t *testing.T) {
			l := startLetta(t, someAgent)
			a := l.say(script, tools)
			var first struct {
				Messages []struct {
					ID    string
					Calls []struct {
						ID string `json:"tool_call_id"`
					} `json:"tool_calls"`
				}
			}
			err := json.Unmarshal([]byte(a.body), &first)
			must.Equal(t, err == nil && len(first.Messages) == 1 && strings.Contains(a.body, "requires_approval"), true, err, a.body)
			m := first.Messages[0]
			a = l.do("POST", "/v1/agents/"+l.agent+"/messages", `{"messages":[`+fmt.Sprintf(tc.answer, m.ID, m.Calls[0].ID)+`]`+tools+`}`)
			a.want(t, 200).has(t, tc.says)
			l.blocks("Ann", "helper")
		})
	}
}
