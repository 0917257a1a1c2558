package letta_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
)

// Proves EDGE-1: a tool that is gated when an agent calls it is also a write when a
// caller runs it directly, and messages to other agents claim them.
func TestGatedToolsAreWritesWhenRunDirectly(t *testing.T) {
	run := func(tool, body string) *memproxy.Operation {
		return decode(t, adapter(t), "POST", "/v1/agents/agent-00000000-0000-4000-8000-000000000001/tools/"+tool+"/run", body)
	}
	for name, tool := range selfedit.Tools {
		if !tool.Gated() || tool.Uses == selfedit.Memories {
			continue
		}
		op := run(name, `{"args":{"label":"human","path":"/memories/human","command":"create","content":"x","message":"m","other_agent_id":"agent-00000000-0000-4000-8000-000000000002","new_memory":"y"}}`)
		if !op.Kind.Writes() || op.Kind == memproxy.Run || len(op.Items) == 0 {
			t.Errorf("%s: %s with %d items, want a write", name, op.Kind, len(op.Items))
		}
		if len(op.Changes) > 0 {
			t.Errorf("%s changes members of %q: its arguments are no object's, and no version of one keeps them", name, op.Changes[0].Object)
		}
	}
	for name, want := range map[string]string{
		"send_message_to_agent_async":          "agent is [agent-00000000-0000-4000-8000-000000000002]",
		"send_message_to_agents_matching_tags": "agent unclear []",
	} {
		op := run(name, `{"args":{"message":"m","other_agent_id":"agent-00000000-0000-4000-8000-000000000002"}}`)
		if !slices.ContainsFunc(op.Claims, func(c memproxy.Claim) bool { return fmt.Sprintf("%s %s %v", c.Dim, c.Op, c.Values) == want }) {
			t.Errorf("%s claims %+v, want %s", name, op.Claims, want)
		}
	}
}

// Proves EDGE-1: a value of another type than the parameter's is refused in a direct call as
// in a call of the agent: the server (0.16.8) stores Python's spelling of it, such as
// "['ignore', 'all']", which no item of the request is. Text that only the agent loop would
// truncate, and calls that the server refuses itself, are not refused for that.
func TestDirectCallsHaveTheParametersTypes(t *testing.T) {
	a := adapter(t)
	for _, tc := range []struct{ tool, args, at string }{
		{"core_memory_append", `{"label":"human","content":["ignore","all"]}`, "/args/content"},
		{"core_memory_append", `{"label":"human","content":{"ignore":"all"}}`, "/args/content"},
		{"core_memory_append", `{"label":"human","content":null}`, "/args/content"},
		{"core_memory_replace", `{"label":"human","old_content":"Ann","new_content":["q"]}`, "/args/new_content"},
		{"memory", `{"command":"create","path":["/memories/a"],"description":"d"}`, "/args/path"},
		{"archival_memory_insert", `{"content":"c","tags":[["n"]]}`, "/args/tags/0"},
		{"core_memory_append", `{"label":"human","content":"a}{b"}`, ""},
		{"memory_insert", `{"label":"human"}`, ""},
		{"memory_insert", `{"label":"human","new_string":"x","other":["y"]}`, ""},
		{"archival_memory_search", `{"query":"x","tags":null,"top_k":"3"}`, ""},
		{"send_message_to_agent_async", `["m"]`, "/args"},
		{"send_message_to_agent_async", `null`, "/args"},
		{"my_tool", `{"content":["a"]}`, ""},
	} {
		rt, req := routed(t, a, "POST", "/v1/agents/agent-00000000-0000-4000-8000-000000000001/tools/"+tc.tool+"/run")
		_, err := a.Decode(rt, req, []byte(`{"args":`+tc.args+`}`))
		flaw, _ := errors.AsType[*memproxy.Flaw](err)
		if flaw != nil && (flaw.Pointer != tc.at || tc.at == "/args" && flaw.Status != 422) || flaw == nil && (tc.at != "" || err != nil) {
			t.Errorf("%s %s: %v", tc.tool, tc.args, err)
		}
	}
}

// Proves EDGE-1, EDGE-16: a tool that is run directly is the agent's tool of that name;
// built-in tools are recognised by name, custom ones are not.
func TestProbe(t *testing.T) {
	a := adapter(t)
	at := func(tool string) (memproxy.Route, memproxy.Request) {
		return routed(t, a, "POST", "/latest/agents/agent-1/tools/"+tool+"/run")
	}
	rt, req := at("notes")
	agent, q, ok := a.Probe(rt, req)
	if !ok || agent != "agent-1" || q.Method != "GET" || q.EscapedPath != "/latest/agents/agent-1" || q.Query != "include=agent.tools" {
		t.Errorf("%v %q %+v", ok, agent, q)
	}
	if _, _, ok := a.Probe(memproxy.Route{ID: "letta.send_message", Params: map[string]string{"agent_id": "agent-1"}}, req); ok {
		t.Error("a message runs no tool from outside")
	}
	const state = `"source_code":"def f(agent_state): ..."`
	for _, tc := range []struct {
		tool, tools     string
		status          int
		ungated, breaks bool
	}{
		{"notes", `[{"name":"notes","tool_type":"custom",` + state + `}]`, 200, true, false},
		{"notes", `[{"name":"notes","tool_type":"custom","source_code":"def notes(): ..."},{"name":"others","tool_type":"custom",` + state + `}]`, 200, false, false},
		{"notes", `[{"name":"notes","tool_type":"custom","source_code":"x"},{"name":"notes","tool_type":"custom",` + state + `}]`, 200, true, false},
		{"memory_insert", `[{"name":"memory_insert","tool_type":"custom",` + state + `}]`, 200, true, false},
		{"memory_insert", `[{"name":"memory_insert","tool_type":"letta_sleeptime_core"}]`, 200, false, false},
		{"rethink_user_memory", `[{"name":"rethink_user_memory","tool_type":"letta_voice_sleeptime_core"}]`, 200, false, false},
		{"write_all", `[{"name":"write_all","tool_type":"letta_core"}]`, 200, true, false},
		{"run_code_with_tools", `[{"name":"run_code_with_tools","tool_type":"letta_builtin"}]`, 200, true, false},
		{"notes", `[]`, 200, false, false},
		{"notes", `[]`, 404, false, false},
		{"notes", `null`, 200, false, true},
		{"notes", `[]`, 500, false, true},
	} {
		rt, _ := at(tc.tool)
		err := a.ReadProbe(rt, memproxy.Reply{Status: tc.status, Body: []byte(`{"tools":` + tc.tools + `}`)})
		if errors.Is(err, memproxy.ErrUngated) != tc.ungated || (err != nil && !tc.ungated) != tc.breaks {
			t.Errorf("%s of %s, %d: %v", tc.tool, tc.tools, tc.status, err)
		}
	}
}

// Proves EDGE-3, EDGE-5: with a folder of a sleeptime agent the server also deletes the
// agent's block of that name, so such a request is not only a detachment.
func TestDetachedFoldersLeaveBlocks(t *testing.T) {
	a := adapter(t)
	const agent, folder = "agent-00000000-0000-4000-8000-000000000001", "source-00000000-0000-4000-8000-000000000002"
	for _, tc := range []struct {
		name, state string
		refused     bool
	}{
		{"a block of the folder's name", `"enable_sleeptime":true,"blocks":[{"label":"human"},{"label":"docs"}],"sources":[{"id":"` + folder + `","name":"docs"}]`, true},
		{"the same for an older client", `"enable_sleeptime":true,"memory":{"blocks":[{"label":"docs"}]},"sources":[{"id":"` + folder + `","name":"docs"}]`, true},
		{"no block of the folder's name", `"enable_sleeptime":true,"blocks":[{"label":"human"}],"sources":[{"id":"` + folder + `","name":"docs"}]`, false},
		{"another folder has the block's name", `"enable_sleeptime":true,"blocks":[{"label":"docs"}],"sources":[{"id":"source-1","name":"docs"},{"id":"` + folder + `","name":"notes"}]`, false},
		{"a folder that is not attached", `"enable_sleeptime":true,"blocks":[{"label":"docs"}],"sources":[]`, true},
		{"an agent without a companion", `"enable_sleeptime":false,"blocks":[{"label":"docs"}],"sources":[{"id":"` + folder + `","name":"docs"}]`, false},
		{"an older server", `"blocks":[{"label":"docs"}],"sources":[{"id":"` + folder + `","name":"docs"}]`, false},
	} {
		for _, word := range []string{"folders", "sources"} {
			req := memproxy.Request{Method: "PATCH", EscapedPath: "/v1/agents/" + agent + "/" + word + "/detach/" + folder}
			rt, _ := a.Route(req)
			at, q, ok := a.Probe(rt, req)
			if !ok || at != agent || q.EscapedPath != "/v1/agents/"+agent || q.Query != "include=agent.blocks&include=agent.sources" {
				t.Errorf("%s is not asked about: %v %q %+v", word, ok, at, q)
			}
			err := a.ReadProbe(rt, memproxy.Reply{Status: 200, Body: []byte(`{` + tc.state + `}`)})
			if errors.Is(err, memproxy.ErrUngated) != tc.refused || err != nil && !tc.refused {
				t.Errorf("%s, %s: %v", tc.name, word, err)
			}
		}
	}
	req := memproxy.Request{Method: "PATCH", EscapedPath: "/v1/agents/" + agent + "/folders/attach/" + folder}
	rt, _ := a.Route(req)
	if _, _, ok := a.Probe(rt, req); ok {
		t.Error("to attach a folder deletes nothing")
	}
}
