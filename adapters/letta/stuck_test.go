package letta_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

const waitingAgent = `{"id":"agent-1","agent_type":"letta_v1_agent","tools":[{"name":"memory_insert","json_schema":{"name":"memory_insert"}}],RULES
	"pending_approval":{"id":"m","date":"2026-01-01T00:00:09+00:00","message_type":"approval_request_message","tool_calls":[{"name":"memory_insert","arguments":"{}","tool_call_id":"c"}]}}`

// Proves EDGE-1: only the gate's pauses are answered: an approval that a tool rule
// requires is a person's.
func TestRecoveryKeepsToItsOwn(t *testing.T) {
	a := adapter(t)
	for rules, want := range map[string]int{
		``: 1,
		`"tool_rules":[{"type":"requires_approval","tool_name":"web_search"}],`:    1,
		`"tool_rules":[{"type":"requires_approval","tool_name":"memory_insert"}],`: 0,
	} {
		q, turn, err := a.Recover("agent-1")
		must.Do(t, err, q)
		must.Equal(t, q.EscapedPath, "/v1/agents/agent-1/messages", q)
		if _, more := turn.NextSideRequest(); !more {
			t.Fatal("nothing is asked")
		}
		must.Do(t, turn.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(strings.Replace(waitingAgent, "RULES", rules, 1))}))
		expect.Equal(t, len(turn.PendingCalls()), want, rules)
	}
	q, _, err := a.Recover("conv-1")
	if err != nil || q.EscapedPath != "/v1/conversations/conv-1/messages" {
		t.Errorf("%v %+v", err, q)
	}
}

// Proves EDGE-1: a request to an agent's model without its memory and tools needs no
// ruling as a run.
func TestGenerationsAreNoRuns(t *testing.T) {
	a := adapter(t)
	for path, want := range map[string]error{"/v1/agents/agent-1/generate": nil, "/v1/agents/agent-1/messages/async": memproxy.ErrUngated} {
		rt, req := routed(t, a, "POST", path)
		if turn, err := a.Turn(rt, req, []byte(`{"prompt":"tea?"}`)); turn != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v %v", path, turn, err)
		}
	}
}

// Proves EDGE-1: the ungated runs that can be watched.
func TestWhichRunsAreWatched(t *testing.T) {
	a := adapter(t)
	for path, tc := range map[string]struct {
		body   string
		agents string
		err    bool
	}{
		"/v1/agents/agent-1/messages":                 {`{}`, "agent-1", false},
		"/latest/agents/agent-1/messages/stream":      {`{}`, "agent-1", false},
		"/v1/agents/agent-1/messages/async":           {`{}`, "agent-1", false},
		"/v1/voice-beta/agent-1/chat/completions":     {`{}`, "agent-1", false},
		"/v1/chat/completions":                        {`{"model":"agent-1"}`, "agent-1", false},
		"/v1/conversations/conv-1/messages":           {`{}`, "", false},
		"/v1/conversations/default/messages":          {`{"agent_id":"agent-1"}`, "agent-1", false},
		"/v1/conversations/agent-1/messages":          {`{}`, "agent-1", false},
		"/v1/conversations/default/messages?nobody":   {`{}`, "", true},
		"/v1/messages/batches":                        {`{"requests":[]}`, "", true},
		"/v1/anthropic/v1/messages":                   {`{}`, "", true},
		"/v1/zai/v1/messages":                         {`{}`, "", true},
		"/v1/agents/agent-1/schedule":                 {`{}`, "", true},
		"/v1/chat/completions?of=nobody in the world": {`{}`, "", true},
	} {
		rt, req := routed(t, a, "POST", path)
		w, err := a.DiffRun(rt, req, []byte(tc.body))
		if tc.err {
			if !errors.Is(err, memproxy.ErrUngated) || w != nil {
				t.Errorf("%s: %v %v", path, w, err)
			}
			continue
		}
		if err != nil || strings.Join(w.Agents(), " ") != tc.agents || w.Background() != strings.HasSuffix(path, "async") {
			t.Errorf("%s: %v %+v", path, err, w)
		}
	}
	if w, err := a.RestoreRunDiff([]byte(`{}`)); err == nil || w != nil {
		t.Errorf("a picture of nothing: %v %v", w, err)
	}
}

// Proves EDGE-13: the agent that a body names becomes one segment of the paths that memproxy
// requests itself, whatever characters it has: the requests carry the backend's credential.
func TestSideRequestsStayOnTheirPaths(t *testing.T) {
	const body, escaped = `{"agent_id":"agent-1/../../x?y=z&a#","messages":[]}`, "agent-1%2F..%2F..%2Fx%3Fy=z&a%23"
	a := adapter(t)
	rt, req := routed(t, a, "POST", "/v1/conversations/default/messages")
	run := must.Get(a.Turn(rt, req, []byte(body)))(t)
	q, _ := run.NextSideRequest()
	expect.Equal(t, q.EscapedPath, "/v1/agents/"+escaped)
	expect.Equal(t, run.Cancel().Request.EscapedPath, "/v1/agents/"+escaped+"/messages/cancel")
	diff := must.Get(a.DiffRun(rt, req, []byte(body)))(t)
	diff.StartSnapshot()
	for range 2 { // the lists of blocks and archives
		diff.NextSideRequest()
		must.Do(t, diff.ReadSideReply(memproxy.Reply{Status: 404}))
	}
	q, _ = diff.NextSideRequest()
	expect.Equal(t, q.EscapedPath, "/v1/agents/"+escaped)
	must.Do(t, diff.ReadSideReply(memproxy.Reply{Status: 200, Body: []byte(`{"id":"agent-1/../../x?y=z&a#","blocks":[]}`)}))
	q, _ = diff.NextSideRequest()
	expect.Equal(t, q.Query, "order=desc&limit=100&agent_id=agent-1%2F..%2F..%2Fx%3Fy%3Dz%26a%23")
}
