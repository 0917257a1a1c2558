package app

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// askedAgent is an agent whose memory tool requires a person's approval.
var askedAgent = strings.Replace(someAgent, "{", `{"tool_rules":[{"type":"requires_approval","tool_name":"memory_insert"},{"type":"requires_approval","tool_name":"memory_replace"}],`, 1)

const (
	callTea = `CALL memory_insert {"label":"human","new_string":"likes tea"}` + "\n"
	callSpy = `CALL memory_replace {"label":"persona","old_string":"helper","new_string":"spy"}` + "\n"
)

// toldAs returns the id of the only call of a tool in an answer, and its message type.
func toldAs(t *testing.T, body, tool string) (id, kind string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`"message_type":"(\w+)"|"name":"(\w+)",(?:"arguments":"(?:[^"\\]|\\.)*",)?"tool_call_id":"([^"]+)"`).FindAllStringSubmatch(body, -1) {
		switch {
		case m[1] != "" && id == "":
			kind = m[1]
		case m[2] == tool && id != "" && id != m[3]:
			t.Fatalf("two calls of %s: %s", tool, body)
		case m[2] == tool:
			id = m[3]
		}
	}
	return id, kind
}

// Proves EDGE-16, EDGE-1: if the agent's rule requires a person's approval, the person
// is not asked about calls that the policy refuses. Admitted calls wait for the person,
// and are charged once and written on approval.
func TestPolicyRefusesBeforeAskingForApproval(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{
		"whole": ``, "step by step": `,"streaming":true`, "token by token": `,"streaming":true,"stream_tokens":true`,
	} {
		t.Run(name, func(t *testing.T) {
			l := startLetta(t, askedAgent)
			a := l.say(callSpy+"THEN\nSAY done", more)
			want := "tool_call_message tool_return_message assistant_message"
			if a.status != 200 || !strings.HasPrefix(strings.Join(types(a.body), " "), want) || !strings.Contains(a.body, "the persona is not the agent's to change") {
				t.Errorf("%d %v, want %s\n%s", a.status, types(a.body), want, a.body)
			}
			if strings.Contains(a.body, "approval_request_message") || strings.Contains(a.body, "requires_approval") {
				t.Errorf("the person is asked: %s", a.body)
			}
			if rec := l.audit("--type", "decision"); strings.Count(rec, "field.forbidden") != 1 {
				t.Errorf("the refusal is not on record once: %s", rec)
			}
			// The history has the call and no answer to it.
			list := l.do("GET", "/v1/agents/"+l.agent+"/messages", "", "Authorization", "Bearer "+devToken)
			if strings.Contains(list.body, "approval_") {
				t.Errorf("the history shows a question: %s", list.body)
			}
			l.blocks("Ann", "helper")
		})
	}
}

// Of several calls in one step, approval is requested for the admitted ones only.
func TestApprovalIsAskedForAdmittedCallsOnly(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{
		"whole": ``, "step by step": `,"streaming":true`, "token by token": `,"streaming":true,"stream_tokens":true`,
	} {
		t.Run(name, func(t *testing.T) {
			l := startLetta(t, askedAgent)
			a := l.say(callTea+callSpy+"THEN\nSAY done", more)
			if a.status != 200 || !strings.Contains(a.body, `"requires_approval"`) || !strings.Contains(a.body, "tool_call_message") {
				t.Fatalf("%d %s", a.status, a.body)
			}
			tea, kind := toldAs(t, a.body, "memory_insert")
			if kind != "approval_request_message" {
				t.Errorf("the person is not asked for what may be written: %s is told as %s\n%s", tea, kind, a.body)
			}
			if spy, kind := toldAs(t, a.body, "memory_replace"); kind != "tool_call_message" {
				t.Errorf("the person is asked for what is refused: %s is told as %s\n%s", spy, kind, a.body)
			}
			if rec := l.audit("--type", "decision"); strings.Contains(rec, "memory_") {
				t.Errorf("a question is on record as a ruling: %s", rec)
			}
			l.blocks("Ann", "helper")
			a = l.do("POST", "/v1/agents/"+l.agent+"/messages", fmt.Sprintf(
				`{"messages":[{"type":"approval","approvals":[{"type":"approval","tool_call_id":%q,"approve":true}]}]%s}`, tea, more), "Authorization", "Bearer "+devToken)
			if a.status != 200 || !strings.Contains(a.body, "done") {
				t.Errorf("%d %s", a.status, a.body)
			}
			rec := l.audit("--type", "decision")
			if strings.Count(rec, "letta.send_message/memory_insert") != 1 || strings.Count(rec, "letta.send_message/memory_replace") != 1 {
				t.Errorf("not one ruling on each call: %s", rec)
			}
			l.blocks("Ann\nlikes tea", "helper")
		})
	}
}
