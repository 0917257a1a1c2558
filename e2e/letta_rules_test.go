//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// ruledAgent is lettaAgent with tool rules, and one tool call at a time, as the
// server has it with rules.
func ruledAgent(t *testing.T, base, name, rules string) string {
	t.Helper()
	return makeAgent(t, base, strings.Replace(fmt.Sprintf(lettaAgent, name), `"parallel_tool_calls":true`, `"parallel_tool_calls":false,"tool_rules":[`+rules+`]`, 1))
}

// Proves EDGE-16: on the real server an agent's tool rules bind through
// memproxy as they do without it: what is in memory after the same turn is the
// same, and so is why the turn ended.
func TestLettaToolRulesBindAsWithoutMemproxy(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	car := serveLetta(t, real)
	insert := func(s string) string {
		return `CALL memory_insert {"label":"human","new_string":"` + s + `"}` + "\nTHEN\n"
	}
	const replace = `CALL memory_replace {"label":"human","old_string":"Ann","new_string":"Bea"}` + "\nTHEN\n"
	const search = `CALL conversation_search {"query":"tea"}` + "\nTHEN\n"
	for name, tc := range map[string]struct{ rules, script string }{
		"max_count_per_step": {`{"type":"max_count_per_step","tool_name":"memory_insert","max_count_limit":2}`, insert("one") + insert("two") + replace + insert("three") + "SAY done"},
		"of another tool":    {`{"type":"max_count_per_step","tool_name":"conversation_search","max_count_limit":2}`, search + insert("one") + search + insert("two") + "SAY done"},
		"run_first":          {`{"type":"run_first","tool_name":"memory_replace"}`, insert("one") + replace + insert("two") + "SAY done"},
		"terminal":           {`{"type":"exit_loop","tool_name":"memory_insert"}`, replace + insert("one") + insert("two") + "SAY done"},
		"terminal search":    {`{"type":"exit_loop","tool_name":"conversation_search"},{"type":"required_before_exit","tool_name":"memory_insert"}`, insert("one") + search + insert("two") + "SAY done"},
		"child":              {`{"type":"constrain_child_tools","tool_name":"memory_insert","children":["memory_replace"]}`, insert("one") + insert("two") + replace + "SAY done"},
		"parent":             {`{"type":"parent_last_tool","tool_name":"memory_replace","children":["memory_insert"]}`, insert("one") + replace + insert("two") + "SAY done"},
		"required":           {`{"type":"required_before_exit","tool_name":"memory_replace"}`, replace + insert("one") + insert("two") + "SAY done"},
		"continue":           {`{"type":"continue_loop","tool_name":"memory_insert"}`, insert("one") + replace + "SAY done"},
	} {
		t.Run(name, func(t *testing.T) {
			var blocks, stops []string
			for who, base := range map[string]string{"without": real, "with": car.base} {
				agent := ruledAgent(t, real, strings.ReplaceAll(name, " ", "-")+"-"+who, tc.rules)
				a := call(t, http.MethodPost, base+"/v1/agents/"+agent+"/messages", "", said(t, tc.script, `,"max_steps":12`), sdk...)
				var got struct {
					Stop struct {
						Reason string `json:"stop_reason"`
					} `json:"stop_reason"`
				}
				must.Do(t, json.Unmarshal([]byte(a.body), &got), who, tail(a.body, 1000))
				a.want(t, 200, who)
				t.Logf("%s memproxy\n  %s", who, strings.Join(outline(a.body), "\n  "))
				b := lettaBlocks(t, real, agent)
				blocks = append(blocks, fmt.Sprint(b))
				stops = append(stops, got.Stop.Reason)
			}
			expect.Equal(t, blocks[0], blocks[1], "blocks", blocks, "stops", stops)
			expect.Equal(t, stops[0], stops[1], "blocks", blocks, "stops", stops)
		})
	}
}

// Proves EDGE-16: on the real server a memory tool that a person has to approve
// waits for the person; what the person approves is ruled on, and runs. What
// policy refuses is refused without asking.
func TestLettaApprovalsStayThePersons(t *testing.T) {
	t.Parallel()
	real := lettaServer(t)
	car := serveLetta(t, real)
	for block, want := range map[string]string{"human": "Ann\nx", "persona": ""} {
		for mode, more := range map[string]string{"whole": ``, "steps": `,"streaming":true`, "tokens": `,"streaming":true,"stream_tokens":true`} {
			agent := ruledAgent(t, real, block+"-"+mode, `{"type":"requires_approval","tool_name":"memory_insert"}`)
			at := car.base + "/v1/agents/" + agent + "/messages"
			a := call(t, http.MethodPost, at, "", said(t, `CALL memory_insert {"label":"`+block+`","new_string":"x"}`+"\nTHEN\nSAY done", more), sdk...)
			if want == "" {
				a.want(t, 200, mode, "the person is asked for what is refused").lacks(t, "requires_approval", "approval_request_message").has(t, "tool_call_message", "done")
				list := call(t, http.MethodGet, at+"?limit=20", "", "", sdk...)
				expect.That(t, !strings.Contains(list.body, `"approval_re`), "%s: the history shows a question: %s", mode, tail(list.body, 2500))
				b := lettaBlocks(t, real, agent)
				expect.That(t, b["human"] == "Ann" && b["persona"] == "helper", "%s: %q", mode, b)
				continue
			}
			a.want(t, 200, mode).has(t, "approval_request_message", `"requires_approval"`)
			if b := lettaBlocks(t, real, agent); b["human"] != "Ann" || b["persona"] != "helper" {
				t.Errorf("written without the person: %q", b)
			}
			if list := call(t, http.MethodGet, at+"?limit=20", "", "", sdk...); !strings.Contains(list.body, "approval_request_message") {
				t.Errorf("the question is not in the history: %s", tail(list.body, 1500))
			}
			busy := call(t, http.MethodPost, at, "", `{"input":"SAY hello"}`, sdk...)
			expect.That(t, busy.status == 409, "a message in the middle of it: %d %s", busy.status, tail(busy.body, 500))
			id := a.body[strings.Index(a.body, `"tool_call_id":"`)+len(`"tool_call_id":"`):]
			id = id[:strings.Index(id, `"`)]
			yes := call(t, http.MethodPost, at, "", `{"messages":[{"type":"approval","approvals":[{"type":"approval","tool_call_id":"`+id+`","approve":true}]}]`+more+`}`, sdk...)
			expect.That(t, yes.status == 200 && strings.Contains(yes.body, "done"), "%s: %d %s", mode, yes.status, tail(yes.body, 1500))
			expect.Equal(t, lettaBlocks(t, real, agent)[block], want, mode)
		}
	}
}
