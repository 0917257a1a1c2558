package letta_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// The keys by which a stream is resumed. A run named in a body counts only within the
// caller's own conversation.
func TestResume(t *testing.T) {
	a := adapter(t)
	for name, tc := range map[string]struct {
		route  string
		params map[string]string
		body   string
		names  []string
		within string
		after  int64
		no     bool
		how    string
	}{
		"run":              {route: "letta.retrieve_stream_for_run", params: map[string]string{"run_id": "run-1"}, body: `{"starting_after":7}`, names: []string{"run-1"}, after: 7},
		"run, no body":     {route: "letta.retrieve_stream_for_run", params: map[string]string{"run_id": "run-1"}, names: []string{"run-1"}},
		"conversation":     {route: "letta.retrieve_conversation_stream", params: map[string]string{"conversation_id": "conv-1"}, body: `{}`, names: []string{"in conv-1"}, within: "in conv-1", how: " active"},
		"run in the body":  {route: "letta.retrieve_conversation_stream", params: map[string]string{"conversation_id": "conv-1"}, body: `{"run_id":"run-2"}`, names: []string{"run-2"}, within: "in conv-1"},
		"own id":           {route: "letta.retrieve_conversation_stream", params: map[string]string{"conversation_id": "default"}, body: `{"agent_id":"agent-1","otid":"x"}`, names: []string{"in agent-1 otid x"}, within: "in agent-1", how: "anywhere"},
		"same messages":    {route: "letta.send_message", params: map[string]string{"agent_id": "agent-1"}, body: `{"background":true,"messages":[{"otid":"b"},{"otid":"a"}]}`, names: []string{"in agent-1 otids a b"}, how: "anywhere starts"},
		"in a word":        {route: "letta.send_message", params: map[string]string{"agent_id": "agent-1"}, body: `{"background":"On","messages":[{"otid":"b"}]}`, names: []string{"in agent-1 otids b"}, how: "anywhere starts"},
		"in a number":      {route: "letta.send_message", params: map[string]string{"agent_id": "agent-1"}, body: `{"background":1,"messages":[{"otid":"b"}]}`, names: []string{"in agent-1 otids b"}, how: "anywhere starts"},
		"no, in a word":    {route: "letta.send_message", params: map[string]string{"agent_id": "agent-1"}, body: `{"background":"no","messages":[{"otid":"b"}]}`, no: true},
		"after, in a text": {route: "letta.retrieve_stream_for_run", params: map[string]string{"run_id": "run-1"}, body: `{"starting_after":"7"}`, names: []string{"run-1"}, after: 7},
		"new messages":     {route: "letta.send_message", params: map[string]string{"agent_id": "agent-1"}, body: `{"background":true,"messages":[{"role":"user"}]}`, no: true},
		"not background":   {route: "letta.send_message", params: map[string]string{"agent_id": "agent-1"}, body: `{"messages":[{"otid":"b"}]}`, no: true},
		"another route":    {route: "letta.retrieve_run", params: map[string]string{"run_id": "run-1"}, no: true},
	} {
		q, ok := a.Resume(memproxy.Route{ID: tc.route, Params: tc.params}, memproxy.Request{}, []byte(tc.body))
		how := ""
		if q.Anywhere {
			how = "anywhere"
		}
		if q.Starts {
			how += " starts"
		}
		if q.Active {
			how += " active"
		}
		expect.Equal(t, how, tc.how, name)
		if ok == tc.no || !slices.Equal(q.Names, tc.names) || q.Within != tc.within || q.After != tc.after {
			t.Errorf("%s: %+v, %v", name, q, ok)
		}
	}
}

// Proves EDGE-13: the run of an event of a stream.
func TestRunOf(t *testing.T) {
	a := adapter(t)
	for event, want := range map[string]string{
		"data: {\"run_id\":\"run-1\"}\n\n":                          "run-1 true",
		"event: x\r\ndata:{\"run_id\":\r\ndata: \"run-1\"}\r\n\r\n": "run-1 true",
		"data: {\"id\":1}\n\n":                                      " true",
		"data: no JSON\n\n":                                         " true",
		"data: [DONE]\n\n":                                          " false",
		": a comment\n\n":                                           " false",
	} {
		run, data := a.RunOf([]byte(event))
		expect.Equal(t, fmt.Sprint(run, " ", data), want, event)
	}
}

// Cancelling a run also stops the runs that continue it.
func TestAsks(t *testing.T) {
	a := adapter(t)
	runs, reads := a.RequestedRuns(memproxy.Route{ID: "letta.cancel_message"}, memproxy.Request{}, []byte(`{"run_ids":["run-1","run-2"]}`))
	if reads || !slices.Equal(runs, []string{"run-1", "run-2"}) {
		t.Errorf("%v %v", runs, reads)
	}
	rt := memproxy.Route{ID: "letta.list_messages_for_run", Params: map[string]string{"run_id": "run-1"}}
	if runs, reads := a.RequestedRuns(rt, memproxy.Request{}, nil); !reads || len(runs) != 1 {
		t.Errorf("%v %v", runs, reads)
	}
	if runs, _ := a.RequestedRuns(rt, memproxy.Request{Query: "after=message-1"}, nil); len(runs) != 1 {
		t.Errorf("a page further on: %v", runs)
	}
}

func TestMerge(t *testing.T) {
	a := adapter(t)
	run := memproxy.Route{ID: "letta.retrieve_run"}
	answers := [][]byte{
		[]byte(`{"id":"run-1","status":"completed","stop_reason":"requires_approval","created_at":"a","completed_at":"b","background":true,"x":1.0}`),
		[]byte(`{"id":"run-2","status":"failed","stop_reason":"error","created_at":"c","completed_at":"d","background":false,"x":2.0}`),
	}
	for _, tc := range []struct {
		over bool
		want string
	}{
		{true, `{"id":"run-1","status":"failed","stop_reason":"error","created_at":"a","completed_at":"d","background":true,"x":2.0}`},
		{false, `{"id":"run-1","status":"running","stop_reason":null,"created_at":"a","completed_at":null,"background":true,"x":2.0}`},
	} {
		expect.Equal(t, string(must.Get(a.Merge(run, memproxy.Request{}, "run-1", tc.over, answers))(t)), tc.want, tc.over)
	}
	list := memproxy.Route{ID: "letta.list_messages_for_run"}
	pages := [][]byte{[]byte(`[{"id":"m-1","run_id":"run-1"},{"id":"m-2","run_id":null}]`), []byte(`[{"id":"m-3","run_id":"run-2"}]`)}
	got, err := a.Merge(list, memproxy.Request{}, "run-1", true, pages)
	if want := `[{"id":"m-1","run_id":"run-1"},{"id":"m-2","run_id":null},{"id":"m-3","run_id":"run-1"}]`; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	got, err = a.Merge(list, memproxy.Request{Query: "order=desc"}, "run-1", true, pages)
	if want := `[{"id":"m-3","run_id":"run-1"},{"id":"m-1","run_id":"run-1"},{"id":"m-2","run_id":null}]`; err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	for query, want := range map[string]string{"limit=2": `m-1 m-2`, "limit=1": `m-1`, "limit=2&order=desc": `m-3 m-1`, "limit=2&after=m-1": `m-1 m-2`} {
		got, err := a.Merge(list, memproxy.Request{Query: query}, "run-1", true, pages)
		var ids []string
		for _, m := range must.Get(jsondoc.Parse(got, 0))(t).Root.Elems {
			ids = append(ids, m.Get("id").Text())
		}
		must.Do(t, err, query, got)
		expect.Equal(t, strings.Join(ids, " "), want, query, got)
	}
	parts := [][]byte{[]byte(`[{"id":"m-1"},{"id":"m-1"},{"id":"m-2"}]`), []byte(`[]`)}
	expect.Equal(t, string(must.Get(a.Merge(list, memproxy.Request{Query: "limit=1"}, "run-1", true, parts))(t)), `[{"id":"m-1"},{"id":"m-1"}]`, "a message of two parts")
	steps := [][]byte{[]byte(`[{"id":"s-1","run_id":"run-1"}]`), []byte(`[{"id":"s-2","run_id":"run-2"}]`)}
	for query, want := range map[string]string{
		"":          `[{"id":"s-2","run_id":"run-1"},{"id":"s-1","run_id":"run-1"}]`, // the newest first
		"order=asc": `[{"id":"s-1","run_id":"run-1"},{"id":"s-2","run_id":"run-1"}]`,
	} {
		if got, err := a.Merge(memproxy.Route{ID: "letta.list_steps_for_run"}, memproxy.Request{Query: query}, "run-1", true, steps); err != nil || string(got) != want {
			t.Errorf("steps, %q: %s, %v", query, got, err)
		}
	}
	// Only the last step of a turn that is over can have stopped for the caller's approval.
	const stopped = `[{"id":"s-%[1]d","run_id":"run-%[1]d","stop_reason":%[2]s}]`
	waits := [][]byte{fmt.Appendf(nil, stopped, 1, `"requires_approval"`), fmt.Appendf(nil, stopped, 2, `"requires_approval"`)}
	for over, last := range map[bool]string{true: `"requires_approval"`, false: "null"} {
		got := must.Get(a.Merge(memproxy.Route{ID: "letta.list_steps_for_run"}, memproxy.Request{}, "run-1", over, waits))(t)
		expect.Equal(t, string(got), `[{"id":"s-2","run_id":"run-1","stop_reason":`+last+`},{"id":"s-1","run_id":"run-1","stop_reason":null}]`, over)
	}
	for id, tc := range map[string]struct {
		answers []string
		want    string
	}{
		"letta.retrieve_usage_for_run":   {[]string{`{"total_tokens":15,"context_tokens":7,"d":null,"e":{"x":1},"f":null}`, `{"total_tokens":20,"context_tokens":9,"d":{"cached":3},"e":{"x":2},"f":null}`, `{"total_tokens":1,"d":{"cached":4},"e":null}`}, `{"total_tokens":36,"context_tokens":9,"d":{"cached":7},"e":{"x":3},"f":null}`},
		"letta.retrieve_metrics_for_run": {[]string{`{"id":"run-1","run_start_ns":5,"run_ns":10,"num_steps":1,"tools_used":["t-1"]}`, `{"id":"run-2","run_start_ns":50,"run_ns":7,"num_steps":2,"tools_used":["t-2","t-1"]}`}, `{"id":"run-1","run_start_ns":5,"run_ns":17,"num_steps":3,"tools_used":["t-1","t-2"]}`},
	} {
		var answers [][]byte
		for _, text := range tc.answers {
			answers = append(answers, []byte(text))
		}
		expect.Equal(t, string(must.Get(a.Merge(memproxy.Route{ID: id}, memproxy.Request{}, "run-1", true, answers))(t)), tc.want, id)
	}
	expect.Error(t, expect.Err(a.Merge(list, memproxy.Request{}, "run-1", true, [][]byte{[]byte(`{`)})), "an answer that cannot be read is merged")
}
