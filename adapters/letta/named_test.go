package letta_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-3, EDGE-13: objects named in an answer are found at any depth and under
// any name, and are removed alone: the element or the id.
func TestNamesOfAnswers(t *testing.T) {
	a := adapter(t)
	theirs := "-0f0e0d0c-0b0a-4908-8706-0504030201ff"
	agent := "agent" + uuid
	body := `[{"id":"` + agent + `","name":"see identity` + theirs + `","managed_group":{"id":"group` + theirs + `","agent_ids":["` + agent + `"],"description":"d"},` +
		`"identity_ids":["identity` + theirs + `","identity` + uuid + `"],"brand_new":[{"x":{"of":"tool` + theirs + `"}}],` +
		`"tools":[{"id":"tool` + theirs + `","name":"t"},{"id":"tool` + uuid + `"}],"description":"tool` + theirs + `"}]`
	reply := memproxy.Reply{Status: 200, Body: []byte(body)}
	refs := must.Get(a.Names(memproxy.Route{}, reply))(t)
	var gone []string
	for _, r := range refs {
		if r.ID[len(r.ID)-2:] == "ff" {
			gone = append(gone, r.Pointer)
		}
	}
	expect.List(t, gone, []string{"/0/managed_group", "/0/identity_ids/0", "/0/brand_new/0/x/of", "/0/tools/0"}, "found at")
	if !slices.ContainsFunc(refs, func(r memproxy.Ref) bool { return r.ID == agent && r.Pointer == "/0" }) {
		t.Error("the element itself is not told")
	}
	out := must.Get(a.RemovePointers(reply, gone))(t)
	wantBody := `[{"id":"` + agent + `","name":"see identity` + theirs + `","managed_group":null,"identity_ids":["identity` + uuid + `"],"brand_new":[{"x":{"of":null}}],` +
		`"tools":[{"id":"tool` + uuid + `"}],"description":"tool` + theirs + `"}]`
	if string(out) != wantBody {
		t.Errorf("left:\n%s\nwant\n%s", out, wantBody)
	}
	if out, err := a.RemovePointers(reply, []string{"/0/tools", "/0/tools/0", "/0"}); err != nil || string(out) != "[]" || !json.Valid(out) {
		t.Errorf("what holds another goes with it: %s %v", out, err)
	}
	expect.Error(t, expect.Err(a.RemovePointers(reply, []string{""})), "nothing is left, and no error")
}

// Proves EDGE-3: objects that are created along with another belong to the caller: the
// group and the other agent of one with sleep-time compute, the archive of a first
// passage, an upserted identity, a tool. Built-in objects do not. A group belongs to the
// agent that manages it, else to its first.
func TestObjectsCreatedAlongWithAnother(t *testing.T) {
	a := adapter(t)
	for _, tt := range []struct {
		method, path, body string
		want               []memproxy.CreatedObject
	}{
		{"POST", "/v1/agents/", `{"id":"agent-1","memory":{"blocks":[]},"managed_group":{"id":"group-1","agent_ids":["agent-2"]}}`, []memproxy.CreatedObject{{ID: "group-1", Agent: "agent-2"}, {ID: "agent-2"}}},
		{"POST", "/v1/agents/", `{"id":"agent-1","memory":{"blocks":[]},"managed_group":{"id":"group-1","manager_agent_id":"agent-1","agent_ids":["agent-2"]}}`, []memproxy.CreatedObject{{ID: "group-1", Agent: "agent-1"}, {ID: "agent-2"}}},
		{"PATCH", "/v1/agents/agent-1", `{"id":"agent-1","multi_agent_group":{"id":"group-1","manager_agent_id":"agent-1","agent_ids":["agent-2"]}}`, []memproxy.CreatedObject{{ID: "group-1", Agent: "agent-1"}, {ID: "agent-2"}}},
		{"PATCH", "/v1/agents/agent-1", `{"id":"agent-1","managed_group":null}`, nil},
		{"POST", "/v1/agents/agent-1/archival-memory", `[{"id":"passage-1","text":"t","archive_id":"archive-1"}]`, []memproxy.CreatedObject{{ID: "archive-1"}}},
		{"PUT", "/v1/identities/", `{"id":"identity-1","agent_ids":["agent-3"]}`, []memproxy.CreatedObject{{ID: "identity-1"}}},
		{"POST", "/v1/tools/", `{"id":"tool-1","tool_type":"custom"}`, []memproxy.CreatedObject{{ID: "tool-1"}}},
		{"PUT", "/v1/tools/", `{"id":"tool-2","tool_type":"letta_core"}`, nil},
		{"PUT", "/v1/tools/", ``, nil},
	} {
		rt, req := route(t, tt.method, tt.path)
		rd, err := a.Read(rt, req, memproxy.Reply{Status: 200, Body: []byte(tt.body)})
		if err != nil || !slices.Equal(rd.Created, tt.want) {
			t.Errorf("%s %s: %v %v, want %v", tt.method, tt.path, rd, err, tt.want)
		}
	}
}

// Proves EDGE-3: an object's parents are those that it names and those in the request's
// path; its sender or author is not one.
func TestWithin(t *testing.T) {
	a := adapter(t)
	for _, tt := range []struct {
		method, path, body string
		want               []string
	}{
		{"GET", "/v1/agents/agent-1/messages", `[{"id":"message-1","message_type":"user_message","run_id":"run-1","sender_id":"identity-1"}]`, []string{"agent-1", "run-1"}},
		{"GET", "/v1/messages/", `[{"id":"message-1","message_type":"user_message","run_id":"run-1","step_id":"step-1"}]`, []string{"run-1", "step-1"}},
		{"GET", "/v1/messages/?conversation_id=default", `[{"id":"message-1"}]`, nil}, // each agent's own
		{"GET", "/v1/conversations/default/messages?agent_id=agent-1", `[{"id":"message-1"}]`, []string{"agent-1"}},
		{"GET", "/v1/conversations/conv-1/messages?agent_id=agent-1", `[{"id":"message-1"}]`, []string{"conv-1"}},
		{"GET", "/v1/runs/", `[{"id":"run-1","agent_id":"agent-1","conversation_id":"conv-1"}]`, []string{"agent-1", "conv-1"}},
		{"GET", "/v1/runs/run-1/messages", `[{"id":"message-1"}]`, []string{"run-1"}},
		{"GET", "/v1/groups/", `[{"id":"group-1","agent_ids":["agent-1","agent-2"],"manager_agent_id":"agent-3"}]`, []string{"agent-3", "agent-1", "agent-2"}},
		{"GET", "/v1/groups/group-1/messages", `[{"id":"message-1","group_id":"group-1"}]`, nil}, // of any of its agents
		{"GET", "/v1/archives/?agent_id=agent-1", `[{"id":"archive-1"}]`, []string{"agent-1"}},
		{"GET", "/v1/blocks/?agent_id=agent-1", `[{"id":"block-1"}]`, nil}, // the server has no such filter
		{"GET", "/v1/identities/identity-1/agents", `[{"id":"agent-1","memory":{"blocks":[]}}]`, nil},
		{"GET", "/v1/identities/", `[{"id":"identity-1","agent_ids":["agent-1"]}]`, nil},
		{"POST", "/v1/messages/search", `[{"embedded_text":"t","message":{"id":"message-1"},"agent_id":"agent-1"}]`, []string{"agent-1"}},
		{"GET", "/v1/folders/source-1/files", `[{"id":"file-1","source_id":"source-2"}]`, []string{"source-1", "source-2"}},
		{"GET", "/v1/sources/source-1/files/file-1", `{"id":"file-1","source_id":"source-2"}`, []string{"file-1", "source-2"}}, // shown under any source
		{"GET", "/v1/agents/agent-1/archival-memory", `[{"id":"passage-1","text":"t","archive_id":"archive-1"}]`, []string{"agent-1", "archive-1"}},
	} {
		rt, req := route(t, tt.method, tt.path)
		rd, err := a.Read(rt, req, memproxy.Reply{Status: 200, Body: []byte(tt.body)})
		must.Do(t, err, tt.path)
		var got []string
		for _, r := range rd.Memories[0].Parents {
			got = append(got, r.ID)
		}
		expect.List(t, got, tt.want, tt.path, tt.body, "within")
	}
}

// Proves EDGE-3, DOL-5: a block of the server that an agent file names is attached, as one
// that a new agent or group names is, so that it is checked before an agent reads it.
func TestBlocksThatAreAttached(t *testing.T) {
	a := adapter(t)
	const block = "block-00000000-0000-4000-8000-000000000003"
	for _, tc := range []struct{ path, body string }{
		{"/v1/agents/", `{"name":"a","block_ids":["` + block + `"]}`},
		{"/v1/groups/", `{"agent_ids":[],"shared_block_ids":["` + block + `"]}`},
		{"/v1/agents/import", `{"agents":[{"id":"agent-0","block_ids":["block-0"]}],"groups":[{"id":"group-0","agent_ids":["agent-0"],"shared_block_ids":["` + block + `"]}]}`},
	} {
		req := memproxy.Request{Method: "POST", EscapedPath: tc.path, Header: memproxy.Header{"Content-Type": {"application/json"}}}
		rt, _ := a.Route(req)
		op := must.Get(a.Decode(rt, req, []byte(tc.body)))(t)
		if got := a.Attaches(rt, op); len(got) != 1 || got[0] != block {
			t.Errorf("%s attaches %q", tc.path, got)
		}
	}
}

// Proves EDGE-1: a change that a run made has all its texts, also that of a block that it
// attached, so that no text of the server's is added to the policy question.
func TestChangesOfARunHaveTheirTexts(t *testing.T) {
	a := adapter(t)
	for _, change := range []string{"block", "block.attached", "block.detached", "passage", "memory_insert"} {
		op := &memproxy.Operation{Kind: memproxy.Correct, Targets: []string{"block-00000000-0000-4000-8000-000000000003"}}
		if got := a.Attaches(memproxy.Route{ID: "letta.send_message/" + change, Kind: memproxy.Correct}, op); len(got) != 0 {
			t.Errorf("%s attaches %q", change, got)
		}
	}
}

// Proves EDGE-5: a change of an object leaves those that its body refers to as they are, and
// never the one in its path.
func TestWhatAChangeRefersTo(t *testing.T) {
	a := adapter(t)
	const agent, folder = "agent-00000000-0000-4000-8000-000000000001", "source-00000000-0000-4000-8000-000000000002"
	for _, tc := range []struct {
		path, body string
		kept       []string
	}{
		{"/v1/agents/" + agent, `{"source_ids":["` + folder + `"]}`, []string{folder}},
		{"/v1/agents/" + agent, `{"folder_ids":["` + folder + `"],"name":"a"}`, []string{folder}},
		{"/v1/agents/" + agent, `{"name":"a"}`, nil},
		{"/v1/folders/" + folder, `{"name":"b","source_ids":["` + folder + `"]}`, nil},
	} {
		req := memproxy.Request{Method: "PATCH", EscapedPath: tc.path, Header: memproxy.Header{"Content-Type": {"application/json"}}}
		rt, _ := a.Route(req)
		expect.List(t, must.Get(a.Decode(rt, req, []byte(tc.body)))(t).Kept, tc.kept, tc.path, tc.body, "keeps")
	}
}
