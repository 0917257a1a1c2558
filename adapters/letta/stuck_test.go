package letta

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
)

func newAdapter(t *testing.T) *Adapter {
	t.Helper()
	a, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Proves EDGE-1: which runs ended in a pause, and where, is read as the server
// tells it, or does not.
func TestPausesAreRead(t *testing.T) {
	a := newAdapter(t)
	at := time.Date(2026, 1, 1, 0, 0, 9, 0, time.UTC)
	for name, tc := range map[string]struct {
		list int
		run  string
		want memproxy.Pause
	}{
		"one":                  {0, `{"id":"run-1","agent_id":"agent-1","status":"completed","stop_reason":"requires_approval","completed_at":"2026-01-01T00:00:09","conversation_id":null}`, memproxy.Pause{Run: "run-1", Agent: "agent-1", Since: at, Open: true}},
		"in a conversation":    {0, `{"id":"run-1","agent_id":"agent-1","status":"completed","stop_reason":"requires_approval","completed_at":"2026-01-01T00:00:09Z","conversation_id":"conv-1"}`, memproxy.Pause{Run: "run-1", Agent: "agent-1", Conversation: "conv-1", Since: at, Open: true}},
		"cancelled":            {0, `{"id":"run-1","agent_id":"agent-1","status":"cancelled","stop_reason":"requires_approval","created_at":"2026-01-01T00:00:09Z"}`, memproxy.Pause{Run: "run-1", Agent: "agent-1", Since: at}},
		"not asked for":        {0, `{"id":"run-1","agent_id":"agent-1","status":"completed","stop_reason":"end_turn","completed_at":"2026-01-01T00:00:09Z"}`, memproxy.Pause{Run: "run-1", Agent: "agent-1", Since: at}},
		"of nobody":            {0, `{"id":"run-1","status":"completed","stop_reason":"requires_approval","completed_at":"x"}`, memproxy.Pause{Run: "run-1"}},
		"lost":                 {1, `{"id":"run-1","agent_id":"agent-1","status":"created","created_at":"2026-01-01T00:00:09Z","metadata":{"run_type":"send_conversation_message"}}`, memproxy.Pause{Run: "run-1", Agent: "agent-1", Since: at, Open: true, Lost: true}},
		"one that just begins": {1, `{"id":"run-1","agent_id":"agent-1","status":"created","created_at":"2026-01-01T00:00:09Z","metadata":null}`, memproxy.Pause{Run: "run-1", Agent: "agent-1", Since: at, Lost: true}},
	} {
		got, err := a.Pauses(tc.list, memproxy.Reply{Status: 200, Body: []byte("[" + tc.run + "]")})
		if err != nil || len(got) != 1 || got[0] != tc.want {
			t.Errorf("%s: %v %+v, want %+v", name, err, got, tc.want)
		}
	}
	for _, r := range []memproxy.Reply{{Status: 401, Body: []byte(`[]`)}, {Status: 200, Body: []byte(`{}`)}} {
		if _, err := a.Pauses(0, r); err == nil {
			t.Errorf("%d %s is taken for an answer", r.Status, r.Body)
		}
		if _, err := a.Placed(memproxy.Pause{}, r); err == nil {
			t.Errorf("%d %s is taken for conversations", r.Status, r.Body)
		}
	}
	if _, more := a.Paused(len(pausedLists), ""); more {
		t.Error("the lists do not end")
	}
	if q, _ := a.Paused(0, "run-1"); !strings.HasSuffix(q.Query, "&before=run-1") {
		t.Errorf("%+v", q)
	}
}

// A lost pause may be in any conversation that was spoken in since its run
// began, of the same agent.
func TestLostPausesHavePlaces(t *testing.T) {
	a := newAdapter(t)
	began := time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC)
	lost := memproxy.Pause{Run: "run-1", Agent: "agent-1", Since: began, Open: true, Lost: true}
	got, err := a.Placed(lost, memproxy.Reply{Status: 200, Body: []byte(`[
		{"id":"conv-1","agent_id":"agent-1","last_message_at":"2026-01-01T00:09:59Z"},
		{"id":"conv-2","agent_id":"agent-1","last_message_at":"2026-01-01T00:05:00Z"},
		{"id":"conv-3","agent_id":"agent-2","last_message_at":"2026-01-01T00:11:00Z"},
		{"id":"conv-4","agent_id":"agent-1","last_message_at":null}]`)})
	if err != nil || len(got) != 2 || got[0].Conversation != "conv-1" || got[1].Conversation != "conv-4" || got[0].Lost || !got[0].Open {
		t.Errorf("%v %+v", err, got)
	}
	if got, err := a.Placed(lost, memproxy.Reply{Status: 404}); err != nil || len(got) != 0 {
		t.Errorf("an agent that is gone: %v %v", err, got)
	}
}

const waitingAgent = `{"id":"agent-1","agent_type":"letta_v1_agent","tools":[{"name":"memory_insert","json_schema":{"name":"memory_insert"}}],RULES
	"pending_approval":{"id":"m","date":"2026-01-01T00:00:09+00:00","message_type":"approval_request_message","tool_calls":[{"name":"memory_insert","arguments":"{}","tool_call_id":"c"}]}}`

// Proves EDGE-1: a pause is answered where it is, and only when it is the
// gate's: an approval that a rule asks for is a person's.
func TestRecoveryKeepsToItsOwn(t *testing.T) {
	a := newAdapter(t)
	for rules, want := range map[string]int{
		``: 1,
		`"tool_rules":[{"type":"requires_approval","tool_name":"web_search"}],`:    1,
		`"tool_rules":[{"type":"requires_approval","tool_name":"memory_insert"}],`: 0,
	} {
		q, turn, err := a.Recover(memproxy.Pause{Agent: "agent-1"})
		if err != nil || q.EscapedPath != "/v1/agents/agent-1/messages" {
			t.Fatalf("%v %+v", err, q)
		}
		if _, more := turn.Prepare(); !more {
			t.Fatal("nothing is asked")
		}
		if err := turn.Prepared(memproxy.Reply{Status: 200, Body: []byte(strings.Replace(waitingAgent, "RULES", rules, 1))}); err != nil {
			t.Fatal(err)
		}
		if got := len(turn.Waiting()); got != want || turn.Since() != time.Date(2026, 1, 1, 0, 0, 9, 0, time.UTC) {
			t.Errorf("%s: %d calls since %v", rules, got, turn.Since())
		}
	}
	q, _, err := a.Recover(memproxy.Pause{Agent: "agent-1", Conversation: "conv-1"})
	if err != nil || q.EscapedPath != "/v1/conversations/conv-1/messages" {
		t.Errorf("%v %+v", err, q)
	}
}

// Proves EDGE-1: which ungated runs can be watched.
func TestWhichRunsAreWatched(t *testing.T) {
	a := newAdapter(t)
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
		path, _, _ = strings.Cut(path, "?")
		req := memproxy.Request{Method: "POST", Path: path, EscapedPath: path}
		rt, known := a.Route(req)
		if !known {
			t.Fatalf("%s is no route", path)
		}
		w, err := a.Watch(rt, req, []byte(tc.body))
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
	if w, err := a.Rewatch([]byte(`{}`)); err == nil || w != nil {
		t.Errorf("a picture of nothing: %v %v", w, err)
	}
}

func FuzzPauses(f *testing.F) {
	f.Add(0, []byte(`[{"id":"run-1","agent_id":"agent-1","status":"completed","stop_reason":"requires_approval","completed_at":"2026-01-01T00:00:09"}]`))
	f.Add(1, []byte(`[{"id":"run-1","agent_id":"agent-1","status":"created","metadata":{"run_type":"send_conversation_message"},"last_message_at":"x"}]`))
	f.Fuzz(func(t *testing.T, list int, body []byte) {
		a := newAdapter(t)
		r := memproxy.Reply{Status: 200, Body: body}
		pauses, _ := a.Pauses(list, r)
		for _, p := range pauses {
			if p.Open && KindOf(p.Agent) != TargetAgent {
				t.Errorf("%+v", p)
			}
		}
		_, _ = a.Placed(memproxy.Pause{Agent: "agent-1"}, r)
	})
}
